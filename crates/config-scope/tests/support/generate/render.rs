//! Writes generated blocks in native syntax or in JSON.

use serde_json::{Value as Json, json};

/// The value of an argument.
#[derive(Clone)]
pub(crate) enum Value {
    /// An expression on one line.
    Expression(String),
    /// The text of a heredoc, several lines.
    Heredoc(String),
    /// Names of objects, which JSON writes as strings.
    Names(Vec<String>),
    /// One name, which JSON writes as a string.
    Name(String),
    /// A string without templates.
    Text(String),
    Bool(bool),
    /// An object: key templates and value expressions, which JSON writes as an object of its own.
    Object(Vec<(String, String)>),
    /// A map from provider names to provider names.
    Pairs(Vec<(String, String)>),
}

#[derive(Clone, Default)]
pub(crate) struct Block {
    pub(crate) keyword: String,
    pub(crate) labels: Vec<String>,
    pub(crate) arguments: Vec<(String, Value)>,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// JSON: one object per block rather than one member per block type.
    pub(crate) spread: bool,
    pub(crate) comments: bool,
}

impl Block {
    pub(crate) fn new(keyword: &str, labels: &[&str]) -> Self {
        Self {
            keyword: keyword.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.arguments.retain(|(existing, _)| existing != name);
        self.arguments.push((name.to_owned(), value));
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.set(name, value);
        self
    }
}

pub(crate) fn hcl(blocks: &[Block], style: Style) -> String {
    let mut text = String::new();
    for block in blocks {
        if style.comments {
            text.push_str("# terraform_data.decoy in a comment ${terraform_data.decoy.id}\n");
            text.push_str("/* resource \"terraform_data\" \"commented\" {} */\n");
        }
        hcl_block(block, 0, &mut text);
        text.push('\n');
    }
    text
}

fn hcl_block(block: &Block, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    // A label may stand without quotes, and a block with one argument on one line.
    let bare = block.arguments.len() % 2 == 1;
    let label = |label: &String| {
        if bare {
            format!(" {label}")
        } else {
            format!(" \"{label}\"")
        }
    };
    let labels: String = block.labels.iter().map(label).collect();
    text.push_str(&format!("{indent}{}{labels} {{\n", block.keyword));
    for (name, value) in &block.arguments {
        let value = match value {
            Value::Expression(expression) | Value::Name(expression) => expression.clone(),
            Value::Heredoc(body) if body.is_empty() => format!("<<EOT\n{indent}  EOT"),
            Value::Heredoc(body) => format!("<<-EOT\n{body}\n{indent}  EOT"),
            Value::Names(names) => format!("[{}]", names.join(", ")),
            Value::Text(plain) => format!("\"{plain}\""),
            Value::Bool(flag) => flag.to_string(),
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| format!("\"{key}\" = {value}"));
                format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
            }
            Value::Pairs(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(inside, outside)| format!("{inside} = {outside}"));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        };
        text.push_str(&format!("{indent}  {name} = {value}\n"));
    }
    for inner in &block.blocks {
        hcl_block(inner, depth + 1, text);
    }
    text.push_str(&format!("{indent}}}\n"));
}

pub(crate) fn json(blocks: &[Block], style: Style) -> String {
    let nested = |block: &Block| {
        let mut value = json_body(block);
        for label in block.labels.iter().rev() {
            value = json!({ label.as_str(): value });
        }
        value
    };
    let document: Json = if style.spread {
        blocks
            .iter()
            .map(|block| json!({ block.keyword.as_str(): nested(block) }))
            .collect()
    } else {
        let mut members = serde_json::Map::new();
        for block in blocks {
            let member = members
                .entry(block.keyword.as_str())
                .or_insert_with(|| json!([]));
            member
                .as_array_mut()
                .expect("made above")
                .push(nested(block));
        }
        if style.comments {
            members.insert(
                "//".to_owned(),
                json!("a comment with ${ that is no template"),
            );
        }
        Json::Object(members)
    };
    format!("{document:#}")
}

fn json_body(block: &Block) -> Json {
    let mut members = serde_json::Map::new();
    for (name, value) in &block.arguments {
        let value = match value {
            Value::Expression(expression) => json!(format!("${{{expression}}}")),
            Value::Heredoc(text) => json!(text),
            Value::Names(names) => json!(names),
            Value::Name(name) | Value::Text(name) => json!(name),
            Value::Bool(flag) => json!(flag),
            Value::Object(members) => members
                .iter()
                .map(|(key, value)| (key.clone(), json!([format!("${{{value}}}"), 1, null])))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Value::Pairs(pairs) => pairs
                .iter()
                .map(|(inside, outside)| (inside.clone(), json!(outside)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        };
        members.insert(name.clone(), value);
    }
    for inner in &block.blocks {
        let mut value = json_body(inner);
        for label in inner.labels.iter().rev() {
            value = json!({ label.as_str(): value });
        }
        match members.get_mut(&inner.keyword) {
            Some(Json::Array(list)) => list.push(value),
            Some(one) => *one = json!([one.take(), value]),
            None => _ = members.insert(inner.keyword.clone(), value),
        }
    }
    Json::Object(members)
}
