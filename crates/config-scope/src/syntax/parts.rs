//! Splits the body of a block into its arguments and nested blocks, each with what it points at.

use hcl_edit::structure::Structure;

use super::{
    collect::Reading,
    json::{Json, Kind},
    raw::{RawBlock, RawBody, RawExpr},
};
use crate::{
    facts::{Form, Parts},
    reference::References,
};

/// Arguments that name objects, in JSON and in old configurations as strings.
const NAMES: &[&str] = &["depends_on", "replace_triggered_by", "actions"];

/// Splits `body`; the arguments in `skip` are left out.
pub(super) fn of(reading: &Reading<'_>, body: RawBody<'_>, skip: &[&str]) -> Parts {
    let mut parts = Parts::default();
    match body {
        RawBody::Hcl(hcl) => {
            for structure in hcl {
                match structure {
                    Structure::Attribute(attribute) => {
                        let name = attribute.key.as_str();
                        if !skip.contains(&name) {
                            let value = RawExpr::Hcl(&attribute.value);
                            parts.push(name, Form::Attribute, argument(reading, name, value));
                        }
                    }
                    Structure::Block(block) => {
                        let keyword = block.ident.as_str();
                        let block = RawBlock::hcl(block);
                        // `dynamic "x"` makes blocks of type x, and is overridden as they are.
                        let name = match (keyword, block.labels.first()) {
                            ("dynamic", Some(label)) => label,
                            _ => keyword,
                        };
                        parts.push(name, Form::Block, nested(reading, keyword, block.body));
                    }
                }
            }
        }
        RawBody::Json(json) => {
            for (name, value) in json.members() {
                if name != "//" && !skip.contains(&name.as_ref()) {
                    of_member(reading, name, value, &mut parts);
                }
            }
        }
    }
    parts
}

fn of_member(reading: &Reading<'_>, name: &str, value: &Json<'_>, parts: &mut Parts) {
    let form = Form::Either {
        is_void: value.is_void(),
    };
    match (name, &value.kind) {
        ("dynamic", Kind::Object(members)) => {
            for (label, inner) in members {
                let form = Form::Either {
                    is_void: inner.is_void(),
                };
                parts.push(label, form, argument(reading, label, RawExpr::Json(inner)));
            }
        }
        ("dynamic", Kind::Array(items)) => {
            items
                .iter()
                .for_each(|item| of_member(reading, name, item, parts));
        }
        ("lifecycle", Kind::Array(items)) => {
            items
                .iter()
                .for_each(|item| of_member(reading, name, item, parts));
        }
        ("lifecycle", _) => parts.push(name, form, nested(reading, name, RawBody::Json(value))),
        _ => parts.push(name, form, argument(reading, name, RawExpr::Json(value))),
    }
}

fn argument(reading: &Reading<'_>, name: &str, value: RawExpr<'_>) -> References {
    let mut references = References::new();
    if NAMES.contains(&name) {
        reading.collect_names(value, &mut references);
    }
    reading.collect(value, &mut references);
    references
}

/// Everything in a nested block. Of a `lifecycle` block `ignore_changes` is left out: what it
/// names are arguments of the resource itself.
fn nested(reading: &Reading<'_>, keyword: &str, body: RawBody<'_>) -> References {
    let mut references = References::new();
    if keyword != "lifecycle" {
        reading.collect_body(body, &mut references);
        return references;
    }
    for part in of(reading, body, &["ignore_changes"]).0 {
        references.extend(part.references);
    }
    if let RawBody::Json(json) = body {
        let triggers = json
            .members()
            .iter()
            .filter(|(name, _)| name == "action_trigger");
        for (_, trigger) in triggers {
            action_names(reading, trigger, &mut references);
        }
    }
    references
}

fn action_names(reading: &Reading<'_>, trigger: &Json<'_>, out: &mut References) {
    match &trigger.kind {
        Kind::Array(items) => items
            .iter()
            .for_each(|item| action_names(reading, item, out)),
        _ => {
            for (_, actions) in trigger
                .members()
                .iter()
                .filter(|(name, _)| name == "actions")
            {
                reading.collect_names(RawExpr::Json(actions), out);
            }
        }
    }
}
