//! One view of bodies and expressions over both syntaxes, so that blocks are interpreted once.
//!
//! Nothing here knows what a block means; `decode` does.

use std::cell::RefCell;

use hcl_edit::{
    Span as _,
    expr::Expression,
    structure::{Block, BlockLabel, Body, Structure},
};

use super::{
    json::{Json, Kind},
    native,
    walk::{self, Walk},
};
use crate::reference::{References, Step};

/// What reading one file's expressions needs and finds out.
pub(crate) struct Reading<'t> {
    pub(crate) source: &'t str,
    /// Offset and what; any of them makes the whole file unread.
    pub(crate) faults: RefCell<Vec<(usize, String)>>,
}

#[derive(Clone, Copy)]
pub(crate) enum RawExpr<'t> {
    Hcl(&'t Expression),
    Json(&'t Json<'t>),
}

#[derive(Clone, Copy)]
pub(crate) enum RawBody<'t> {
    Hcl(&'t Body),
    /// An object.
    Json(&'t Json<'t>),
}

pub(crate) struct RawBlock<'t> {
    pub(crate) labels: Vec<&'t str>,
    pub(crate) offset: usize,
    pub(crate) body: RawBody<'t>,
}

/// A traversal that stands alone, like `module.a.terraform_data.b[0]`.
pub(crate) struct RawPath {
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
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

impl<'t> RawExpr<'t> {
    pub(crate) fn offset(self) -> usize {
        match self {
            Self::Hcl(expression) => expression.span().map_or(0, |span| span.start),
            Self::Json(json) => json.offset,
        }
    }

    /// The value, if it is a string without templates.
    pub(crate) fn text(self) -> Option<&'t str> {
        match self {
            Self::Hcl(Expression::String(text)) => Some(text.value()),
            Self::Hcl(_) => None,
            Self::Json(json) => json
                .as_text()
                .filter(|text| !text.contains("${") && !text.contains("%{")),
        }
    }

    pub(crate) fn bool(self) -> Option<bool> {
        match self {
            Self::Hcl(expression) => expression.as_bool(),
            Self::Json(Json {
                kind: Kind::Bool(value),
                ..
            }) => Some(*value),
            Self::Json(json) => json.as_text().and_then(|text| text.parse().ok()),
        }
    }

    /// The expression as a traversal, also one in quotes.
    pub(crate) fn path(self) -> Option<RawPath> {
        match self {
            Self::Hcl(Expression::String(text)) => RawPath::parse(text.value()),
            Self::Hcl(expression) => RawPath::of(expression),
            Self::Json(json) => RawPath::parse(json.as_text()?),
        }
    }

    /// The items of a list that is written out.
    pub(crate) fn items(self) -> Option<Vec<Self>> {
        match self {
            Self::Hcl(Expression::Array(items)) => Some(items.iter().map(Self::Hcl).collect()),
            Self::Json(Json {
                kind: Kind::Array(items),
                ..
            }) => Some(items.iter().map(Self::Json).collect()),
            _ => None,
        }
    }
}

impl RawPath {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::of(&native::parse_expression(text).ok()?)
    }

    pub(crate) fn of(expression: &Expression) -> Option<Self> {
        match expression {
            Expression::Variable(root) => Some(Self {
                root: root.as_str().to_owned(),
                steps: Vec::new(),
            }),
            Expression::Traversal(traversal) => Some(Self {
                root: traversal.expr.as_variable()?.as_str().to_owned(),
                steps: walk::steps(traversal),
            }),
            _ => None,
        }
    }
}

impl<'t> RawBody<'t> {
    /// The attribute `name`; in JSON the last member of that name.
    pub(crate) fn attribute(self, name: &str) -> Option<RawExpr<'t>> {
        match self {
            Self::Hcl(body) => body
                .get_attribute(name)
                .map(|found| RawExpr::Hcl(&found.value)),
            Self::Json(json) => {
                let mut found = json
                    .members()
                    .iter()
                    .rev()
                    .filter(|(member, _)| member == name);
                found.next().map(|(_, value)| RawExpr::Json(value))
            }
        }
    }

    /// The blocks `keyword` with exactly `labels` labels. Blocks with another number of labels go
    /// to `misshapen` with their offsets.
    pub(crate) fn blocks(
        self,
        keyword: &str,
        labels: usize,
        misshapen: &mut Vec<usize>,
    ) -> Vec<RawBlock<'t>> {
        let mut found = Vec::new();
        match self {
            Self::Hcl(body) => {
                let blocks = body
                    .blocks()
                    .filter(|block| block.ident.as_str() == keyword);
                for block in blocks.map(RawBlock::hcl) {
                    if block.labels.len() == labels {
                        found.push(block);
                    } else {
                        misshapen.push(block.offset);
                    }
                }
            }
            Self::Json(json) => {
                for (_, value) in json.members().iter().filter(|(name, _)| name == keyword) {
                    json_blocks(value, labels, &mut Vec::new(), &mut found, misshapen);
                }
            }
        }
        found
    }
}

impl<'t> RawBlock<'t> {
    pub(crate) fn hcl(block: &'t Block) -> Self {
        let labels = block.labels.iter().map(|label| match label {
            BlockLabel::Ident(label) => label.as_str(),
            BlockLabel::String(label) => label.value().as_str(),
        });
        Self {
            labels: labels.collect(),
            offset: block.span().map_or(0, |span| span.start),
            body: RawBody::Hcl(&block.body),
        }
    }
}

/// JSON nests one object per label; an array at any level means several.
fn json_blocks<'t>(
    value: &'t Json<'t>,
    labels: usize,
    path: &mut Vec<&'t str>,
    found: &mut Vec<RawBlock<'t>>,
    misshapen: &mut Vec<usize>,
) {
    match &value.kind {
        Kind::Array(items) => {
            items
                .iter()
                .for_each(|item| json_blocks(item, labels, path, found, misshapen));
        }
        Kind::Object(_) if labels == 0 => found.push(RawBlock {
            labels: path.clone(),
            offset: value.offset,
            body: RawBody::Json(value),
        }),
        Kind::Object(members) => {
            for (name, inner) in members.iter().filter(|(name, _)| name != "//") {
                path.push(name);
                json_blocks(inner, labels - 1, path, found, misshapen);
                path.pop();
            }
        }
        Kind::Null => {}
        _ => misshapen.push(value.offset),
    }
}

impl<'t> Json<'t> {
    /// The members of an object; none of anything else.
    pub(crate) fn members(&self) -> &[(std::borrow::Cow<'t, str>, Json<'t>)] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }
}
