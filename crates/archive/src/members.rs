//! A header as the list of its members: what a delta's first line holds.
//!
//! [`tfstate::Header`] keeps its members to itself, but renders them. Rendered without rows, and
//! with a mark that no JSON text can hold in place of each part, they can be told apart again.

use std::collections::HashMap;
use std::ops::Range;

use tfstate::{Digest, Header, Renderer};

/// A top-level member of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The name as raw JSON string.
    pub(crate) name: String,
    pub(crate) value: MemberValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberValue {
    /// Raw JSON. For `outputs` and `resources` what the document writes when they are empty.
    Text(String),
    /// A large value, by digest.
    Part(Digest),
}

/// What a part's mark begins with. JSON text has no control characters outside its white space.
const MARK: u8 = 0;
/// The mark and the digest in hex.
const MARK_LEN: usize = 1 + 64;

/// The members of a header, in order.
pub(crate) fn members(header: &Header) -> Vec<Member> {
    let marks: HashMap<Digest, Vec<u8>> = header
        .parts()
        .map(|part| (part, format!("\0{part}").into_bytes()))
        .collect();
    let parts: HashMap<&[u8], Digest> = marks
        .iter()
        .map(|(part, mark)| (&mark[..], *part))
        .collect();
    let no_outputs = std::iter::empty::<(&[u8], &[u8])>();
    let part = |digest: &Digest| marks.get(digest).map(Vec::as_slice);
    let mut text = Vec::new();
    // Every part the header names has its mark.
    if let Ok(mut renderer) = Renderer::new(header, no_outputs, part) {
        renderer.start(&mut text);
        renderer.finish(&mut text);
    }
    top_level(&text)
        .map(|(name, value)| Member {
            name: String::from_utf8_lossy(&text[name]).into_owned(),
            value: match parts.get(&text[value.clone()]) {
                Some(part) => MemberValue::Part(*part),
                None => MemberValue::Text(String::from_utf8_lossy(&text[value]).into_owned()),
            },
        })
        .collect()
}

/// Spans of names and values in a rendered document without rows.
fn top_level(text: &[u8]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].iter().position(|byte| *byte == b'"')?;
        let name = at..value_end(text, at);
        let value = name.end + b": ".len()..value_end(text, name.end + b": ".len());
        at = value.end;
        Some((name, value))
    })
}

/// Where the value that begins at `at` ends. The text has been rendered, so it is well-formed.
fn value_end(text: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut pos = at;
    while let Some(byte) = text.get(pos) {
        match byte {
            &MARK => pos += MARK_LEN,
            b'"' => pos = string_end(text, pos + 1),
            b'{' | b'[' => {
                depth += 1;
                pos += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                pos += 1;
            }
            b',' | b':' | b' ' | b'\n' => {
                pos += 1;
                continue;
            }
            _ => {
                pos += text[pos..]
                    .iter()
                    .take_while(|byte| is_scalar(**byte))
                    .count()
                    .max(1)
            }
        }
        if depth == 0 {
            break;
        }
    }
    pos.min(text.len())
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// The position after the closing quote of the string whose content begins at `pos`.
fn string_end(text: &[u8], mut pos: usize) -> usize {
    while let Some(byte) = text.get(pos) {
        match byte {
            b'\\' => pos += 2,
            b'"' => return pos + 1,
            _ => pos += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use tfstate::Document;

    use super::*;

    fn members_of(document: &str) -> Vec<(String, String)> {
        let Ok(Document::State(state)) = tfstate::parse(document.as_bytes()) else {
            panic!("not a state: {document}");
        };
        members(&state.header)
            .into_iter()
            .map(|member| match member.value {
                MemberValue::Text(text) => (member.name, text),
                MemberValue::Part(part) => (member.name, format!("part {part}")),
            })
            .collect()
    }

    #[test]
    fn members_come_back_raw_and_in_order() {
        let document = r#"{"version":4,"odd \" name":{"a":[1,{"b":"}]"}],"c":-1.5e3},
            "outputs":null,"serial":7,"resources":[],"check_results":null,"x":"\u0000 \\","y":[],"z":true}"#;
        let expected = [
            (r#""version""#, "4"),
            (
                r#""odd \" name""#,
                "{\n    \"a\": [\n      1,\n      {\n        \"b\": \"}]\"\n      }\n    ],\n    \"c\": -1.5e3\n  }",
            ),
            (r#""outputs""#, "null"),
            (r#""serial""#, "7"),
            (r#""resources""#, "[]"),
            (r#""check_results""#, "null"),
            (r#""x""#, r#""\u0000 \\""#),
            (r#""y""#, "[]"),
            (r#""z""#, "true"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        assert_eq!(members_of(document), expected);
    }

    #[test]
    fn large_members_are_parts_and_nothing_that_looks_like_one() {
        let part = Digest::of(b"[1]");
        let document = format!(
            r#"{{"version":4,"check_results":[1],"fake":"{part}","outputs":{{}},"resources":null}}"#
        );
        let found = members_of(&document);
        assert_eq!(
            found[1],
            ("\"check_results\"".to_owned(), format!("part {part}"))
        );
        assert_eq!(found[2], ("\"fake\"".to_owned(), format!("\"{part}\"")));
        assert_eq!(found[4], ("\"resources\"".to_owned(), "null".to_owned()));
    }

    #[test]
    fn an_empty_document_has_no_members() {
        assert_eq!(members_of(r#"{"version":4}"#).len(), 1);
    }
}
