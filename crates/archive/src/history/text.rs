//! A state document from the pieces of a delta: its header and only the rows that it brings.
//!
//! Parsing that document says what the rows are and that they are rows at all; that the parser can
//! render it again says that no piece reached beyond itself.

use std::borrow::Cow;

use tfstate::decode_string;

/// Members as name tokens and texts; outputs as tokens and bodies; rows as block texts and bodies.
pub(crate) fn document<'a>(
    members: &[(&str, Cow<'_, str>)],
    outputs: &[(&str, &str)],
    rows: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<u8> {
    let mut rows = rows.peekable();
    let mut text = String::from("{");
    let mut first = true;
    let mut member = |text: &mut String, name: &str, value: &str| {
        text.push_str(if first { "\n  " } else { ",\n  " });
        first = false;
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
    };
    let (mut outputs_done, mut rows_done) = (outputs.is_empty(), rows.peek().is_none());
    for (name, value) in members {
        let decoded = decode_string(name.as_bytes());
        match decoded.as_deref() {
            Some("outputs") if !outputs_done => {
                member(&mut text, name, "");
                push_outputs(&mut text, outputs);
                outputs_done = true;
            }
            Some("resources") if !rows_done => {
                member(&mut text, name, "");
                push_rows(&mut text, &mut rows);
                rows_done = true;
            }
            _ => member(&mut text, name, value),
        }
    }
    if !outputs_done {
        member(&mut text, "\"outputs\"", "");
        push_outputs(&mut text, outputs);
    }
    if !rows_done {
        member(&mut text, "\"resources\"", "");
        push_rows(&mut text, &mut rows);
    }
    text.push_str(if text.len() == 1 { "}\n" } else { "\n}\n" });
    text.into_bytes()
}

fn push_outputs(text: &mut String, outputs: &[(&str, &str)]) {
    let mut lead = "{\n    ";
    for (token, body) in outputs {
        for piece in [lead, token, ": ", body] {
            text.push_str(piece);
        }
        lead = ",\n    ";
    }
    text.push_str("\n  }");
}

fn push_rows<'a>(text: &mut String, rows: &mut impl Iterator<Item = (&'a str, Option<&'a str>)>) {
    let mut open: Option<&str> = None;
    let mut lead = "[\n    {\n      ";
    for (block, body) in rows {
        if let (Some(same), Some(body)) = (open, body)
            && same == block
        {
            text.push_str(",\n        ");
            text.push_str(body);
            continue;
        }
        if open.take().is_some() {
            text.push_str("\n      ]\n    }");
        }
        let gap = if block.is_empty() { "" } else { ",\n      " };
        for piece in [lead, block, gap, "\"instances\": "] {
            text.push_str(piece);
        }
        lead = ",\n    {\n      ";
        match body {
            None => text.push_str("[]\n    }"),
            Some(body) => {
                text.push_str("[\n        ");
                text.push_str(body);
                open = Some(block);
            }
        }
    }
    if open.is_some() {
        text.push_str("\n      ]\n    }");
    }
    text.push_str("\n  ]");
}

#[cfg(test)]
mod tests {
    use tfstate::{Document, parse};

    use super::*;

    #[test]
    fn the_pieces_of_a_document_make_that_document() {
        let posted = b"{\n  \"version\": 4,\n  \"serial\": 3,\n  \"outputs\": {\n    \"a\": {\n      \"value\": 1\n    },\n    \"b\": {}\n  },\n  \"resources\": [\n    {\n      \"mode\": \"managed\",\n      \"type\": \"t\",\n      \"name\": \"x\",\n      \"provider\": \"p\",\n      \"instances\": [\n        {\n          \"index_key\": 0\n        },\n        {\n          \"index_key\": 1\n        }\n      ]\n    },\n    {\n      \"mode\": \"managed\",\n      \"type\": \"t\",\n      \"name\": \"y\",\n      \"provider\": \"p\",\n      \"instances\": []\n    }\n  ],\n  \"check_results\": null\n}\n";
        let Ok(Document::State(state)) = parse(posted) else {
            panic!("not a state")
        };
        let members: Vec<_> = crate::members::members(&state.header)
            .into_iter()
            .map(|member| match member.value {
                crate::members::MemberValue::Text(text) => (member.name, text),
                crate::members::MemberValue::Part(_) => panic!("no parts here"),
            })
            .collect();
        let members: Vec<_> = members
            .iter()
            .map(|(name, text)| (&**name, Cow::Borrowed(&**text)))
            .collect();
        fn utf8(bytes: &[u8]) -> &str {
            std::str::from_utf8(bytes).unwrap()
        }
        let outputs: Vec<_> = state
            .outputs
            .iter()
            .map(|row| (utf8(row.name_token), utf8(&row.body)))
            .collect();
        let rows = state.instances.iter().map(|row| {
            let body = (!row.body.is_empty()).then(|| utf8(&row.body));
            (utf8(&state.block(row).text), body)
        });
        assert_eq!(utf8(&document(&members, &outputs, rows)), utf8(posted));
    }
}
