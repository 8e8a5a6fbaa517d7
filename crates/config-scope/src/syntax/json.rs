//! JSON with what configuration needs and a plain tree loses: offsets, and members given twice.
//!
//! In `.tf.json` a repeated member is a repeated block, so members are kept as a list.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Deeper documents are refused. Terraform's own blocks need a dozen levels.
const MAX_DEPTH: usize = 100;

/// A JSON value that borrows from the text it was read from.
#[derive(Debug)]
pub(crate) struct Json<'t> {
    /// Where the value begins in the text.
    pub(crate) offset: usize,
    pub(crate) kind: Kind<'t>,
}

#[derive(Debug)]
pub(crate) enum Kind<'t> {
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
    Array(Vec<Json<'t>>),
    Text(Cow<'t, str>),
    Bool(bool),
    Null,
    Number,
}

/// Why a text is not JSON, and where (zero-based).
#[derive(Debug)]
pub(crate) struct NotJson {
    pub(crate) offset: usize,
    pub(crate) what: String,
}

impl<'t> Json<'t> {
    pub(crate) fn parse(text: &'t str) -> Result<Self, NotJson> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| at_position(text, 0, &error))?;
        Self::of(raw, text, 0)
    }

    /// Each level is found as raw spans first: that is how a value knows where it stands.
    fn of(raw: &'t RawValue, text: &'t str, depth: usize) -> Result<Self, NotJson> {
        let source = raw.get();
        let offset = source.as_ptr().addr() - text.as_ptr().addr();
        let fail = |error: serde_json::Error| at_position(source, offset, &error);
        if depth > MAX_DEPTH {
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(NotJson { offset, what });
        }
        let kind = match source.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(source).map_err(fail)?;
                let members = members
                    .into_iter()
                    .map(|(name, value)| Ok((name.0, Json::of(value, text, depth + 1)?)));
                Kind::Object(members.collect::<Result<_, NotJson>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(source).map_err(fail)?;
                let items = items
                    .into_iter()
                    .map(|item| Json::of(item, text, depth + 1));
                Kind::Array(items.collect::<Result<_, NotJson>>()?)
            }
            Some(b'"') => {
                let string: Borrowed<'_> = serde_json::from_str(source).map_err(fail)?;
                Kind::Text(string.0)
            }
            Some(b't') => Kind::Bool(true),
            Some(b'f') => Kind::Bool(false),
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        };
        Ok(Self { offset, kind })
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether nothing is said: in a block's place this is no block at all.
    pub(crate) fn is_void(&self) -> bool {
        match &self.kind {
            Kind::Null => true,
            Kind::Array(items) => items.iter().all(Self::is_void),
            _ => false,
        }
    }
}

/// A string borrowed from the text unless it holds an escape.
#[derive(Deserialize)]
struct Borrowed<'t>(#[serde(borrow)] Cow<'t, str>);

struct Members<'t>(Vec<(Borrowed<'t>, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// serde_json speaks of lines and columns; offsets are what the rest of this crate speaks of.
fn at_position(source: &str, base: usize, error: &serde_json::Error) -> NotJson {
    let line_start: usize = source
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let offset = (line_start + error.column().saturating_sub(1)).min(source.len());
    NotJson {
        offset: base + offset,
        what: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, Kind};

    #[test]
    fn repeated_members_and_offsets_are_kept() {
        let text = "{\"a\": 1,\n \"a\": {\"b\\u0041\": [\"x\"]}}";
        let Kind::Object(members) = Json::parse(text).unwrap().kind else {
            panic!("an object")
        };
        assert_eq!(members.len(), 2);
        assert_eq!(&text[members[1].1.offset..][..2], "{\"");
        let Kind::Object(inner) = &members[1].1.kind else {
            panic!("an object")
        };
        assert_eq!(inner[0].0, "bA");
    }

    #[test]
    fn a_fault_is_told_with_its_place() {
        let fault = Json::parse("{\n \"a\": tru }").unwrap_err();
        assert!((9..=13).contains(&fault.offset), "{fault:?}");
        assert!(Json::parse(&"[".repeat(5_000)).is_err());
        assert!(Json::parse(&("[".repeat(200) + &"]".repeat(200))).is_err());
    }
}
