//! The header of a document: every top-level member in order, with slots where rows go.
//!
//! Small values stand in the header as they are. Outputs and resources are rows, so the header
//! holds only their place; a large member is a part, named by digest and stored once.

use std::fmt;

use crate::{
    Digest, encode_string,
    json::{decode_string, folds_to},
};

/// The header of one version. It renders with any rows: a header without a place for outputs or
/// resources gets one when there are some.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The raw JSON string, quotes included.
    pub(crate) name: Box<[u8]>,
    pub(crate) value: Value,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// As rendered.
    Raw(Box<[u8]>),
    Part(Digest),
    Outputs(Empty),
    Resources(Empty),
}

/// How the document wrote an absence of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Empty {
    Brackets,
    Null,
}

/// The bytes are no header this version of the code wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an encoded state header")]
pub struct HeaderError;

/// First byte of the encoding; another value means another layout.
const FORMAT: u8 = 1;

impl Header {
    /// The header Terraform would write for a state without checks.
    pub fn new(terraform_version: &str, serial: u64, lineage: &str) -> Self {
        let raw = |name: &str, value: Vec<u8>| Member {
            name: encode_string(name).into(),
            value: Value::Raw(value.into()),
        };
        let slot = |name: &str, value| Member {
            name: encode_string(name).into(),
            value,
        };
        Self {
            members: vec![
                raw("version", b"4".to_vec()),
                raw("terraform_version", encode_string(terraform_version)),
                raw("serial", serial.to_string().into_bytes()),
                raw("lineage", encode_string(lineage)),
                slot("outputs", Value::Outputs(Empty::Brackets)),
                slot("resources", Value::Resources(Empty::Brackets)),
                raw("check_results", b"null".to_vec()),
            ],
        }
    }

    /// This header with another serial. All else, including unknown members, stays.
    #[must_use]
    pub fn with_serial(&self, serial: u64) -> Self {
        let mut header = self.clone();
        let value: Box<[u8]> = serial.to_string().into_bytes().into();
        let mut found = false;
        for member in header
            .members
            .iter_mut()
            .filter(|member| member.is_field("serial"))
        {
            // A name written twice keeps both places; they agree from here on.
            member.value = Value::Raw(value.clone());
            found = true;
        }
        if !found {
            let leads = |member: &Member| {
                member.is_field("version") || member.is_field("terraform_version")
            };
            let place = header
                .members
                .iter()
                .rposition(leads)
                .map_or(0, |last| last + 1);
            let name = encode_string("serial").into();
            header.members.insert(
                place,
                Member {
                    name,
                    value: Value::Raw(value),
                },
            );
        }
        header
    }

    /// The digests of the parts this header names, in order.
    pub fn parts(&self) -> impl Iterator<Item = Digest> {
        self.members.iter().filter_map(|member| match member.value {
            Value::Part(digest) => Some(digest),
            _ => None,
        })
    }

    /// A self-contained encoding for storage. Equal headers have equal encodings.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for Member { name, value } in &self.members {
            bytes.push(match value {
                Value::Raw(_) => 0,
                Value::Part(_) => 1,
                Value::Outputs(Empty::Brackets) => 2,
                Value::Outputs(Empty::Null) => 3,
                Value::Resources(Empty::Brackets) => 4,
                Value::Resources(Empty::Null) => 5,
            });
            push_bytes(&mut bytes, name);
            match value {
                Value::Raw(raw) => push_bytes(&mut bytes, raw),
                Value::Part(digest) => bytes.extend_from_slice(&digest.0),
                Value::Outputs(_) | Value::Resources(_) => {}
            }
        }
        bytes
    }

    /// The inverse of [`Header::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some((&FORMAT, mut rest)) = bytes.split_first() else {
            return Err(HeaderError);
        };
        let mut members = Vec::new();
        while let Some((&tag, after)) = rest.split_first() {
            rest = after;
            let name = take_bytes(&mut rest)?;
            let value = match tag {
                0 => Value::Raw(take_bytes(&mut rest)?),
                1 => {
                    let (digest, after) = rest.split_first_chunk::<32>().ok_or(HeaderError)?;
                    rest = after;
                    Value::Part(Digest(*digest))
                }
                2 => Value::Outputs(Empty::Brackets),
                3 => Value::Outputs(Empty::Null),
                4 => Value::Resources(Empty::Brackets),
                5 => Value::Resources(Empty::Null),
                _ => return Err(HeaderError),
            };
            members.push(Member { name, value });
        }
        // Rows have one place each; a second one would leave the renderer waiting for ever.
        let slots = |wanted: fn(&Value) -> bool| {
            members
                .iter()
                .filter(|member| wanted(&member.value))
                .count()
        };
        if slots(|value| matches!(value, Value::Outputs(_))) > 1
            || slots(|value| matches!(value, Value::Resources(_))) > 1
        {
            return Err(HeaderError);
        }
        Ok(Self { members })
    }

    /// Follows a part whose body changed its form.
    pub(crate) fn rename_part(&mut self, old: &Digest, new: Digest) {
        for member in &mut self.members {
            if member.value == Value::Part(*old) {
                member.value = Value::Part(new);
            }
        }
    }
}

impl Member {
    fn is_field(&self, field: &str) -> bool {
        decode_string(&self.name).is_some_and(|name| folds_to(&name, field))
    }
}

impl fmt::Debug for Header {
    /// Names only: an unknown member may hold anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .members
            .iter()
            .map(|member| String::from_utf8_lossy(&member.name));
        f.write_str("Header ")?;
        f.debug_list().entries(names).finish()
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Lengths beyond 4 GiB cannot come from a document this crate split.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take_bytes(rest: &mut &[u8]) -> Result<Box<[u8]>, HeaderError> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(HeaderError)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| HeaderError)?;
    let (bytes, after) = after.split_at_checked(length).ok_or(HeaderError)?;
    *rest = after;
    Ok(bytes.into())
}
