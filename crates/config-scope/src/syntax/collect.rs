//! Collects what expressions and bodies point at, in either syntax.

use std::cell::RefCell;

use hcl_edit::{expr::Expression, structure::Structure};

use super::{
    json::{Json, Kind},
    native,
    raw::{RawBody, RawExpr},
    walk::Walk,
};
use crate::reference::References;

/// What reading one file's expressions needs and finds out.
pub(crate) struct Reading<'t> {
    pub(crate) source: &'t str,
    /// Offset and what; any of them makes the whole file unread.
    pub(crate) faults: RefCell<Vec<(usize, String)>>,
}

impl<'t> Reading<'t> {
    pub(crate) fn new(source: &'t str) -> Self {
        Self {
            source,
            faults: RefCell::default(),
        }
    }

    fn fault(&self, offset: usize, what: impl Into<String>) {
        self.faults.borrow_mut().push((offset, what.into()));
    }

    fn walk(
        &self,
        source: &str,
        base: usize,
        out: &mut References,
        step: impl FnOnce(&mut Walk<'_>),
    ) {
        let mut faults = Vec::new();
        step(&mut Walk::new(source, out, &mut faults));
        for (offset, what) in faults {
            self.fault(base + offset, what);
        }
    }

    /// Adds everything `expression` points at.
    pub(crate) fn collect(&self, expression: RawExpr<'_>, out: &mut References) {
        match expression {
            RawExpr::Hcl(expression) => {
                self.walk(self.source, 0, out, |walk| walk.expression(expression));
            }
            RawExpr::Json(json) => self.collect_json(json, out),
        }
    }

    /// Adds everything that stands anywhere in `body`, nested blocks included.
    pub(crate) fn collect_body(&self, body: RawBody<'_>, out: &mut References) {
        match body {
            RawBody::Hcl(body) => {
                for structure in body {
                    match structure {
                        Structure::Attribute(attribute) => {
                            self.collect(RawExpr::Hcl(&attribute.value), out);
                        }
                        Structure::Block(block) => {
                            self.collect_body(RawBody::Hcl(&block.body), out);
                        }
                    }
                }
            }
            RawBody::Json(json) => self.collect_json(json, out),
        }
    }

    /// In JSON every string is a template, member names included.
    fn collect_json(&self, json: &Json<'_>, out: &mut References) {
        match &json.kind {
            Kind::Object(members) => {
                for (name, value) in members {
                    // A comment in a body, but a plain key in an expression: a text that is no
                    // template can only be the former.
                    if name == "//" {
                        let lenient = Reading::new(self.source);
                        lenient.collect_json(value, out);
                        continue;
                    }
                    self.collect_template(name, json.offset, out);
                    self.collect_json(value, out);
                }
            }
            Kind::Array(items) => items.iter().for_each(|item| self.collect_json(item, out)),
            Kind::Text(text) => self.collect_template(text, json.offset, out),
            Kind::Bool(_) | Kind::Null | Kind::Number => {}
        }
    }

    fn collect_template(&self, text: &str, offset: usize, out: &mut References) {
        if !text.contains("${") && !text.contains("%{") {
            return;
        }
        match native::parse_template(text) {
            Ok(template) => self.walk(text, offset, out, |walk| walk.elements(&template)),
            Err(error) => self.fault(offset, format!("a template: {}", error.message())),
        }
    }

    /// Adds what a list of object names points at (`depends_on` and its like). In JSON, and in
    /// quotes as Terraform 0.11 wanted, the names are strings.
    pub(crate) fn collect_names(&self, expression: RawExpr<'_>, out: &mut References) {
        match (expression, expression.items()) {
            (_, Some(items)) => items
                .into_iter()
                .for_each(|item| self.collect_names(item, out)),
            (RawExpr::Hcl(Expression::String(name)), None) => {
                self.collect_name(name.value(), expression.offset(), out);
            }
            (
                RawExpr::Json(Json {
                    kind: Kind::Text(name),
                    ..
                }),
                None,
            ) => {
                self.collect_name(name, expression.offset(), out);
            }
            (RawExpr::Json(json), None) => {
                if let Kind::Object(members) = &json.kind {
                    for (_, value) in members {
                        self.collect_names(RawExpr::Json(value), out);
                    }
                }
            }
            (RawExpr::Hcl(_), None) => self.collect(expression, out),
        }
    }

    fn collect_name(&self, name: &str, offset: usize, out: &mut References) {
        match native::parse_expression(name) {
            Ok(expression) => self.walk(name, offset, out, |walk| walk.expression(&expression)),
            Err(_) => self.collect_template(name, offset, out),
        }
    }
}
