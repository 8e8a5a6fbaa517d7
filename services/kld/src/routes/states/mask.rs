//! Hiding what a state marks sensitive.
//!
//! `sensitive_attributes` holds paths of steps `{"type":"get_attr","value":"name"}` and
//! `{"type":"index","value":{"value":"k","type":"string"}}`. Whatever a path meets, and everything beneath, is replaced.
//! What cannot be read hides everything there: of unknown sensitivity is not insensitive.
//!
//! The rest stays the bytes it was. Values are not read, because some cannot be: Terraform lets lone surrogates and any
//! depth pass, and numbers have more digits than a float.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// What stands in place of a sensitive value, as JSON.
const MASK: &str = "\"(sensitive)\"";
/// Longer paths hide everything from here on. No provider has a schema that deep, and each step costs stack.
const LONGEST_PATH: usize = 128;

#[derive(serde::Deserialize)]
struct Step {
    #[serde(rename = "type")]
    kind: String,
    value: Value,
}

/// The attributes with every value at one of the paths replaced.
pub(super) fn mask(attributes: &[u8], paths: &[u8]) -> Vec<u8> {
    let mut shown = String::new();
    let (Ok(attributes), Ok(paths)) = (
        serde_json::from_slice::<&RawValue>(attributes),
        serde_json::from_slice::<Vec<Vec<Step>>>(paths),
    ) else {
        return MASK.into();
    };
    let paths: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
    if paths.iter().any(|path| path.len() > LONGEST_PATH) {
        return MASK.into();
    }
    push_masked(&mut shown, attributes, &paths);
    shown.into_bytes()
}

fn push_masked(shown: &mut String, value: &RawValue, paths: &[&[Step]]) {
    let raw = value.get();
    if paths.is_empty() || raw == "null" {
        shown.push_str(raw);
    } else if raw.starts_with('{') {
        match (
            serde_json::from_str::<Members<'_>>(raw),
            steps(paths, Step::name),
        ) {
            (Ok(members), Some(steps)) => push_object(shown, &members, &steps),
            _ => shown.push_str(MASK),
        }
    } else if raw.starts_with('[') {
        match (
            serde_json::from_str::<Vec<&RawValue>>(raw),
            steps(paths, Step::index),
        ) {
            (Ok(items), Some(steps)) => push_array(shown, &items, &steps),
            // An element of a set has no key of its own, so the whole set is hidden.
            _ => shown.push_str(MASK),
        }
    } else {
        shown.push_str(MASK);
    }
}

fn push_object(shown: &mut String, members: &Members<'_>, steps: &[(&str, &[Step])]) {
    shown.push('{');
    for (place, (name, value)) in members.0.iter().enumerate() {
        if place > 0 {
            shown.push(',');
        }
        shown.push_str(name.get());
        shown.push(':');
        // A name that is no text cannot be one that a path spells.
        let text: Option<String> = serde_json::from_str(name.get()).ok();
        let below = rest_of(steps, |step| Some(*step) == text.as_deref());
        push_masked(shown, value, &below);
    }
    shown.push('}');
}

fn push_array(shown: &mut String, items: &[&RawValue], steps: &[(usize, &[Step])]) {
    shown.push('[');
    for (place, value) in items.iter().enumerate() {
        if place > 0 {
            shown.push(',');
        }
        push_masked(shown, value, &rest_of(steps, |step| *step == place));
    }
    shown.push(']');
}

/// The first step of every path with what follows it; `None` when one ends here or goes another way than `read` can.
fn steps<'a, T>(
    paths: &[&'a [Step]],
    read: fn(&'a Step) -> Option<T>,
) -> Option<Vec<(T, &'a [Step])>> {
    paths
        .iter()
        .map(|path| {
            let (first, rest) = path.split_first()?;
            Some((read(first)?, rest))
        })
        .collect()
}

fn rest_of<'a, T>(steps: &[(T, &'a [Step])], is_here: impl Fn(&T) -> bool) -> Vec<&'a [Step]> {
    steps
        .iter()
        .filter(|(step, _)| is_here(step))
        .map(|(_, rest)| *rest)
        .collect()
}

impl Step {
    fn key(&self) -> Option<&Value> {
        if self.kind == "index" {
            self.value.get("value")
        } else {
            Some(&self.value)
        }
    }

    fn name(&self) -> Option<&str> {
        self.key()?.as_str()
    }

    fn index(&self) -> Option<usize> {
        usize::try_from(self.key()?.as_u64()?).ok()
    }
}

/// The members of an object in their order, names and values as they stand.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
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

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(attributes: &str, paths: &str) -> String {
        String::from_utf8(mask(attributes.as_bytes(), paths.as_bytes())).unwrap()
    }

    #[test]
    fn what_a_path_meets_is_hidden_with_all_beneath() {
        let attributes = r#"{"a":{"b":[{"c":"x"},{"c":"y"}]},"d":1}"#;
        let attr = r#"{"type":"get_attr","value":"a"}"#;
        assert_eq!(
            masked(attributes, &format!("[[{attr}]]")),
            r#"{"a":"(sensitive)","d":1}"#
        );
        let deep = r#"[[{"type":"get_attr","value":"a"},{"type":"get_attr","value":"b"},
            {"type":"index","value":{"value":1,"type":"number"}},{"type":"get_attr","value":"c"}]]"#;
        assert_eq!(
            masked(attributes, deep),
            r#"{"a":{"b":[{"c":"x"},{"c":"(sensitive)"}]},"d":1}"#
        );
        let below = r#"{"type":"get_attr","value":"b"}"#;
        let both = format!("[[{attr},{below}],[{attr}]]");
        assert_eq!(masked(attributes, &both), r#"{"a":"(sensitive)","d":1}"#);
    }

    #[test]
    fn what_cannot_be_read_hides_more_and_never_less() {
        assert_eq!(masked(r#"{"a":"x"}"#, "7"), r#""(sensitive)""#);
        let set = r#"[[{"type":"get_attr","value":"a"},{"type":"index","value":{"value":"k","type":"string"}}]]"#;
        assert_eq!(masked(r#"{"a":["x"]}"#, set), r#"{"a":"(sensitive)"}"#);
        assert_eq!(masked(r#"{"a":null}"#, set), r#"{"a":null}"#);
        assert_eq!(masked(r#"{"n":1.50}"#, "[]"), r#"{"n":1.50}"#);
        let step = r#"{"type":"get_attr","value":"a"}"#;
        let endless = format!("[[{}]]", vec![step; LONGEST_PATH + 1].join(","));
        assert_eq!(masked(r#"{"a":"x"}"#, &endless), r#""(sensitive)""#);
    }

    #[test]
    fn the_rest_keeps_its_bytes_whatever_they_are() {
        let path = r#"[[{"type":"get_attr","value":"s"}]]"#;
        let deep = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
        for value in [
            "\"\\ud800\"",
            "\"a\\u0000b\"",
            "1e400",
            "9007199254740993",
            "1.50",
            deep.as_str(),
        ] {
            assert_eq!(
                masked(
                    &format!(r#"{{"\ud800":{value},"s":"x","k":{value}}}"#),
                    path
                ),
                format!(r#"{{"\ud800":{value},"s":"(sensitive)","k":{value}}}"#)
            );
        }
        // A name written twice is hidden twice, in any spelling.
        assert_eq!(
            masked(r#"{"s":1,"\u0073":2}"#, path),
            r#"{"s":"(sensitive)","\u0073":"(sensitive)"}"#
        );
    }
}
