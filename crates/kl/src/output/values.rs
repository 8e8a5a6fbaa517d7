//! Attribute values as Terraform shows them: `name = value`, nested with indentation.
//!
//! Values arrive as raw JSON and are never read as numbers or into trees: a number keeps its text,
//! and a string that is no valid Unicode (a lone surrogate, which Terraform lets pass) is shown in
//! its escaped form instead of failing. Everything shown is safe for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::plain;

/// What the server puts in the place of a sensitive value.
pub(crate) const MASK: &str = "(sensitive)";
/// How Terraform shows it.
const MASKED: &str = "(sensitive value)";
/// Deeper than this the value is shown on one line, as it came.
const DEEPEST: usize = 32;

/// The attributes of a resource, one per line, sorted by name.
pub(crate) fn attributes(object: &RawValue, indent: usize) -> String {
    let mut text = String::new();
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(object.get()) {
        Ok(members) => {
            let names: Vec<String> = members.keys().map(|name| plain(name)).collect();
            members_into(
                &mut text,
                names.into_iter().zip(members.into_values()).collect(),
                indent,
                0,
            );
        }
        Err(_) => {
            pad(&mut text, indent);
            value_into(&mut text, object, indent, 0);
            text.push('\n');
        }
    }
    text
}

fn members_into(text: &mut String, members: Vec<(String, &RawValue)>, indent: usize, depth: usize) {
    let widest = members
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    for (name, value) in members {
        pad(text, indent);
        // Writing to a String cannot fail.
        _ = write!(text, "{name:widest$} = ");
        value_into(text, value, indent, depth);
        text.push('\n');
    }
}

fn value_into(text: &mut String, value: &RawValue, indent: usize, depth: usize) {
    let raw = value.get();
    let as_it_came = |text: &mut String| text.push_str(&plain(raw));
    if depth >= DEEPEST {
        return as_it_came(text);
    }
    match raw.bytes().next() {
        Some(b'{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(raw) {
            Ok(members) if members.is_empty() => text.push_str("{}"),
            Ok(members) => {
                text.push_str("{\n");
                let members = members
                    .into_iter()
                    .map(|(name, value)| (quoted(&name), value))
                    .collect();
                members_into(text, members, indent + 4, depth + 1);
                pad(text, indent);
                text.push('}');
            }
            Err(_) => as_it_came(text),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(raw) {
            Ok(items) if items.is_empty() => text.push_str("[]"),
            Ok(items) => {
                text.push_str("[\n");
                for item in items {
                    pad(text, indent + 4);
                    value_into(text, item, indent + 4, depth + 1);
                    text.push_str(",\n");
                }
                pad(text, indent);
                text.push(']');
            }
            Err(_) => as_it_came(text),
        },
        Some(b'"') => match serde_json::from_str::<String>(raw) {
            Ok(string) if string == MASK => text.push_str(MASKED),
            Ok(string) => text.push_str(&quoted(&string)),
            Err(_) => as_it_came(text),
        },
        _ => as_it_came(text),
    }
}

/// A string in quotes, with escapes for what would break the line or the quotes.
fn quoted(string: &str) -> String {
    let escaped = string.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", plain(&escaped))
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        attributes(serde_json::from_str(json).unwrap(), 4)
    }

    #[test]
    fn values_are_shown_as_terraform_shows_them() {
        assert_eq!(
            shown(
                r#"{"id":"i-1","tags":{"b c":"x","a":null},"ports":[80,1.50],"empty":{},"secret":"(sensitive)"}"#
            ),
            "    empty  = {}\n    id     = \"i-1\"\n    ports  = [\n        80,\n        1.50,\n    ]\n    secret = (sensitive value)\n    tags   = {\n        \"a\"   = null\n        \"b c\" = \"x\"\n    }\n"
        );
    }

    #[test]
    fn odd_values_are_shown_and_never_fail() {
        assert_eq!(shown(r#"{"nul":"a\u0000b"}"#), "    nul = \"a\\u{0}b\"\n");
        assert_eq!(shown(r#"{"lone":"\ud800"}"#), "    lone = \"\\ud800\"\n");
        assert_eq!(
            shown(r#"{"big":1e400,"exact":9007199254740993}"#),
            "    big   = 1e400\n    exact = 9007199254740993\n"
        );
        assert!(shown(r#"{"\ud800":1}"#).contains("\\ud800"));
        let deep = format!("{{\"d\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(shown(&deep).contains('1'));
    }
}
