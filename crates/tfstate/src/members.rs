//! The members of one instance body as raw spans, for whoever shows or lists instances.

use crate::json::{Scanner, decode_string};

/// Raw JSON spans of what an instance holds, each absent when the body has no such member.
/// When a name occurs twice the last one counts, as it does for Terraform.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InstanceMembers<'a> {
    pub index_key: Option<&'a [u8]>,
    pub status: Option<&'a [u8]>,
    pub deposed: Option<&'a [u8]>,
    /// Written by OpenTofu when the provider itself has instances.
    pub provider: Option<&'a [u8]>,
    pub schema_version: Option<&'a [u8]>,
    pub attributes: Option<&'a [u8]>,
    /// The form of Terraform 0.11: a map of strings.
    pub attributes_flat: Option<&'a [u8]>,
    pub sensitive_attributes: Option<&'a [u8]>,
    pub identity_schema_version: Option<&'a [u8]>,
    pub identity: Option<&'a [u8]>,
    pub private: Option<&'a [u8]>,
    pub dependencies: Option<&'a [u8]>,
    pub create_before_destroy: Option<&'a [u8]>,
    /// Written by OpenTofu.
    pub skip_destroy: Option<&'a [u8]>,
}

impl InstanceMembers<'_> {
    /// Whether the object is marked tainted.
    pub fn is_tainted(&self) -> bool {
        self.status
            .and_then(decode_string)
            .is_some_and(|status| status == "tainted")
    }
}

/// Splits one instance body. `None` when it is not one valid JSON object.
pub fn instance_members(body: &[u8]) -> Option<InstanceMembers<'_>> {
    let mut members = InstanceMembers::default();
    let mut scanner = Scanner::new(body);
    let mut more = scanner.open(b'{').ok()?;
    while more {
        let name = scanner.name().ok()?;
        let value = scanner.value().ok()?;
        more = scanner.another(b'{').ok()?;
        if let Some(member) = members.slot(&decode_string(name)?) {
            *member = Some(value);
        }
    }
    scanner.end().ok()?;
    Some(members)
}

impl<'a> InstanceMembers<'a> {
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a [u8]>> {
        Some(match name {
            "index_key" => &mut self.index_key,
            "status" => &mut self.status,
            "deposed" => &mut self.deposed,
            "provider" => &mut self.provider,
            "schema_version" => &mut self.schema_version,
            "attributes" => &mut self.attributes,
            "attributes_flat" => &mut self.attributes_flat,
            "sensitive_attributes" => &mut self.sensitive_attributes,
            "identity_schema_version" => &mut self.identity_schema_version,
            "identity" => &mut self.identity,
            "private" => &mut self.private,
            "dependencies" => &mut self.dependencies,
            "create_before_destroy" => &mut self.create_before_destroy,
            "skip_destroy" => &mut self.skip_destroy,
            _ => return None,
        })
    }
}

/// The strings of a JSON array such as `dependencies`; elements that are no strings are left out.
/// Empty when `array` is no array.
pub fn string_array(array: &[u8]) -> Vec<String> {
    let mut strings = Vec::new();
    let mut scanner = Scanner::new(array);
    let mut more = scanner.open(b'[').unwrap_or(false);
    while more {
        let Ok(value) = scanner.value() else { break };
        strings.extend(decode_string(value).map(|text| text.into_owned()));
        more = scanner.another(b'[').unwrap_or(false);
    }
    strings
}
