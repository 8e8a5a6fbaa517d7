//! Rewrites a real configuration so that Terraform can draw its graph without any provider.
//!
//! Each resource and data source becomes a `terraform_data` whose `input` lists every expression
//! of the original body as it was written; `count`, `for_each`, `depends_on`, conditions and
//! provisioners stay. Each called module becomes a stub with the same inputs and the outputs that
//! are used. Names are replaced in the text, not in a tree, so that what the analysis fails to see
//! is still in front of Terraform.

use std::collections::{BTreeMap, BTreeSet};

use hcl_edit::{
    Span as _,
    expr::Expression,
    structure::{Attribute, Block, BlockLabel, Body, Structure},
};

use super::generate::Files;

/// New names of resources by old ones (`aws_x.y`, `data.aws_x.y`).
pub(crate) type Names = BTreeMap<String, String>;

/// Arguments that mean the same for every resource, and those without a counterpart.
const KEPT: &[&str] = &["count", "for_each", "depends_on"];
const DROPPED: &[&str] = &[
    "provider",
    "source",
    "version",
    "providers",
    "ignore_changes",
];

pub(crate) struct Translation {
    pub(crate) files: Files,
    pub(crate) names: Names,
}

/// Translates the files of one directory, by name. `None` where one is not native syntax.
pub(crate) fn translate(sources: &BTreeMap<String, String>) -> Option<Translation> {
    let mut parsed = Vec::new();
    for (name, text) in sources {
        parsed.push((name, text, text.parse::<Body>().ok()?));
    }
    let mut names = Names::new();
    for (_, _, body) in &parsed {
        for block in body.blocks() {
            let labels = labels(block);
            match (block.ident.as_str(), labels.as_slice()) {
                ("resource", [kind, name]) => {
                    let new = format!("terraform_data.{kind}__{name}");
                    names.insert(format!("{kind}.{name}"), new);
                }
                ("data", [kind, name]) => {
                    let new = format!("terraform_data.data__{kind}__{name}");
                    names.insert(format!("data.{kind}.{name}"), new);
                }
                _ => {}
            }
        }
    }
    let mut files = Files::new();
    for (name, text, body) in &parsed {
        let mut out = String::new();
        for block in body.blocks() {
            top_level(block, text, &names, &mut out);
        }
        files.insert((*name).clone(), out);
    }
    let all: String = files.values().cloned().collect();
    for (_, _, body) in &parsed {
        for call in body
            .blocks()
            .filter(|block| block.ident.as_str() == "module")
        {
            let name = labels(call)[0].clone();
            files.insert(format!("stubs/{name}/main.tf"), stub(&name, call, &all));
        }
    }
    Some(Translation { files, names })
}

fn labels(block: &Block) -> Vec<String> {
    let label = |label: &BlockLabel| match label {
        BlockLabel::Ident(label) => label.as_str().to_owned(),
        BlockLabel::String(label) => label.value().clone(),
    };
    block.labels.iter().map(label).collect()
}

fn slice<'t>(text: &'t str, expression: &Expression) -> &'t str {
    &text[expression.span().expect("parsed from this text")]
}

fn top_level(block: &Block, text: &str, names: &Names, out: &mut String) {
    let labels = labels(block);
    match block.ident.as_str() {
        "resource" | "data" => {
            let prefix = if block.ident.as_str() == "data" {
                "data__"
            } else {
                ""
            };
            let header = format!("{prefix}{}__{}", labels[0], labels[1]);
            out.push_str(&format!("resource \"terraform_data\" \"{header}\" {{\n"));
            let mut rest = Vec::new();
            for structure in &block.body {
                match structure {
                    Structure::Attribute(attribute) => {
                        argument(attribute, text, names, &mut rest, out);
                    }
                    Structure::Block(inner) if keeps(inner) => kept(inner, text, names, out),
                    Structure::Block(inner) => gather(&inner.body, text, &mut rest),
                }
            }
            out.push_str("  input = [\n");
            for expression in rest {
                out.push_str(&format!("(\n{}\n),\n", rename(expression, names)));
            }
            out.push_str("  ]\n}\n");
        }
        "module" => {
            out.push_str(&format!(
                "module \"{0}\" {{\n  source = \"./stubs/{0}\"\n",
                labels[0]
            ));
            for attribute in block.body.attributes() {
                if !DROPPED.contains(&attribute.key.as_str()) {
                    let value = rename(slice(text, &attribute.value), names);
                    out.push_str(&format!("  {} = {value}\n", attribute.key.as_str()));
                }
            }
            out.push_str("}\n");
        }
        "variable" | "output" | "locals" => {
            let span = block.span().expect("parsed from this text");
            out.push_str(&format!("{}\n", rename(&text[span], names)));
        }
        _ => {}
    }
}

fn argument<'t>(
    attribute: &Attribute,
    text: &'t str,
    names: &Names,
    rest: &mut Vec<&'t str>,
    out: &mut String,
) {
    let name = attribute.key.as_str();
    let value = slice(text, &attribute.value);
    if KEPT.contains(&name) {
        out.push_str(&format!("  {name} = {}\n", rename(value, names)));
    } else if !DROPPED.contains(&name) {
        rest.push(value);
    }
}

/// Blocks that `terraform_data` has too.
fn keeps(block: &Block) -> bool {
    match block.ident.as_str() {
        "lifecycle" | "connection" => true,
        "provisioner" => labels(block)[0] == "local-exec",
        _ => false,
    }
}

fn kept(block: &Block, text: &str, names: &Names, out: &mut String) {
    let labels: String = labels(block)
        .iter()
        .map(|label| format!(" \"{label}\""))
        .collect();
    out.push_str(&format!("{}{labels} {{\n", block.ident.as_str()));
    for structure in &block.body {
        match structure {
            Structure::Attribute(attribute) => {
                let name = attribute.key.as_str();
                if !DROPPED.contains(&name) {
                    let value = rename(slice(text, &attribute.value), names);
                    out.push_str(&format!("  {name} = {value}\n"));
                }
            }
            Structure::Block(inner) => kept(inner, text, names, out),
        }
    }
    out.push_str("}\n");
}

/// Every expression anywhere in a body.
fn gather<'t>(body: &Body, text: &'t str, rest: &mut Vec<&'t str>) {
    for structure in body {
        match structure {
            Structure::Attribute(attribute) => rest.push(slice(text, &attribute.value)),
            Structure::Block(inner) => gather(&inner.body, text, rest),
        }
    }
}

/// A module that takes what the call gives, with the outputs that `users` mention. No output
/// depends on an input: which do is not known, and a guess may close a circle.
fn stub(name: &str, call: &Block, users: &str) -> String {
    let mut text = String::new();
    let mut inputs = Vec::new();
    for attribute in call.body.attributes() {
        let input = attribute.key.as_str();
        if !KEPT.contains(&input) && !DROPPED.contains(&input) {
            text.push_str(&format!("variable \"{input}\" {{}}\n"));
            inputs.push(format!("var.{input}"));
        }
    }
    text.push_str(&format!(
        "resource \"terraform_data\" \"all\" {{ input = [{}] }}\n",
        inputs.join(", ")
    ));
    text.push_str("resource \"terraform_data\" \"aside\" {}\n");
    let mut outputs = BTreeSet::new();
    let start = format!("module.{name}");
    for (at, _) in users.match_indices(&start) {
        let mut rest = &users[at + start.len()..];
        if let Some(inner) = rest.strip_prefix('[') {
            rest = inner.split_once(']').map_or("", |(_, rest)| rest);
        }
        let Some(rest) = rest.strip_prefix('.') else {
            continue;
        };
        let output: String = rest.chars().take_while(|rune| is_word(*rune)).collect();
        if !output.is_empty() {
            outputs.insert(output);
        }
    }
    for output in outputs {
        text.push_str(&format!(
            "output \"{output}\" {{ value = terraform_data.aside.output }}\n"
        ));
    }
    text
}

fn is_word(rune: char) -> bool {
    rune.is_alphanumeric() || rune == '_' || rune == '-'
}

/// Replaces the names of resources wherever they stand alone in `text`.
pub(crate) fn rename(text: &str, names: &Names) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(rune) = rest.chars().next() {
        let begins = (rune.is_alphabetic() || rune == '_') && !is_word(before) && before != '.';
        if begins {
            let path: &str = rest
                .split(|rune: char| !is_word(rune) && rune != '.')
                .next()
                .unwrap_or_default();
            let words: Vec<&str> = path.split('.').collect();
            let length = if words[0] == "data" { 3 } else { 2 };
            let name = words
                .iter()
                .take(length)
                .copied()
                .collect::<Vec<_>>()
                .join(".");
            if let Some(new) = names.get(&name) {
                out.push_str(new);
                rest = &rest[name.len()..];
                before = 'x';
                continue;
            }
            let word = words[0];
            out.push_str(word);
            rest = &rest[word.len()..];
            before = 'x';
            continue;
        }
        out.push(rune);
        rest = &rest[rune.len_utf8()..];
        before = rune;
    }
    out
}
