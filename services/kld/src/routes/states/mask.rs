//! Hiding what a state marks sensitive.
//!
//! `sensitive_attributes` holds paths of steps `{"type":"get_attr","value":"name"}` and
//! `{"type":"index","value":{"value":"k","type":"string"}}`. Whatever a path meets, and everything beneath, is replaced.
//! A path that cannot be read hides everything: of unknown sensitivity is not insensitive.

use serde::Deserialize;
use serde_json::Value;

use super::render::unshowable;
use crate::error::ApiError;

/// What stands in place of a sensitive value.
const MASK: &str = "(sensitive)";

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "type")]
    kind: String,
    value: Value,
}

/// The attributes with every value at one of the paths replaced. Numbers keep their digits only as far as JSON values
/// do, which is why this is for people; documents go out as they are.
pub(super) fn mask(attributes: &[u8], paths: &[u8]) -> Result<Vec<u8>, ApiError> {
    let Ok(paths) = serde_json::from_slice::<Vec<Vec<Step>>>(paths) else {
        return Ok(format!("{MASK:?}").into_bytes());
    };
    if paths.is_empty() {
        return Ok(attributes.to_vec());
    }
    // Terraform keeps lone surrogates and numbers of any size, which this reader does not take: hidden whole.
    let Ok(mut value) = serde_json::from_slice::<Value>(attributes) else {
        return Ok(format!("{MASK:?}").into_bytes());
    };
    for path in &paths {
        hide(&mut value, path);
    }
    serde_json::to_vec(&value).map_err(|_| unshowable("attributes"))
}

fn hide(value: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else {
        if !value.is_null() {
            *value = Value::from(MASK);
        }
        return;
    };
    let key = if step.kind == "index" {
        step.value.get("value")
    } else {
        Some(&step.value)
    };
    let next = match (value, key) {
        (Value::Object(members), Some(Value::String(name))) => members.get_mut(name),
        (Value::Array(items), Some(Value::Number(index))) => index
            .as_u64()
            .and_then(|index| items.get_mut(usize::try_from(index).ok()?)),
        // An element of a set has no key of its own, so the whole set is hidden.
        (other, _) => {
            if !other.is_null() {
                *other = Value::from(MASK);
            }
            return;
        }
    };
    if let Some(next) = next {
        hide(next, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(attributes: &str, paths: &str) -> String {
        String::from_utf8(mask(attributes.as_bytes(), paths.as_bytes()).unwrap()).unwrap()
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
    }

    #[test]
    fn what_cannot_be_read_hides_more_and_never_less() {
        assert_eq!(masked(r#"{"a":"x"}"#, "7"), r#""(sensitive)""#);
        let set = r#"[[{"type":"get_attr","value":"a"},{"type":"index","value":{"value":"k","type":"string"}}]]"#;
        assert_eq!(masked(r#"{"a":["x"]}"#, set), r#"{"a":"(sensitive)"}"#);
        assert_eq!(masked(r#"{"a":null}"#, set), r#"{"a":null}"#);
        assert_eq!(masked(r#"{"n":1.50}"#, "[]"), r#"{"n":1.50}"#);
        let lone = r#"{"a":"x","b":"\ud800"}"#;
        assert_eq!(masked(lone, "[]"), lone);
        assert_eq!(
            masked(lone, r#"[[{"type":"get_attr","value":"a"}]]"#),
            r#""(sensitive)""#
        );
    }
}
