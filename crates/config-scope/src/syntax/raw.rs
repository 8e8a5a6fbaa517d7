//! One view of bodies and expressions over both syntaxes, so that blocks are interpreted once.
//!
//! Nothing here knows what a block means; `decode` does.

use hcl_edit::{
    Span as _,
    expr::Expression,
    structure::{Block, BlockLabel, Body},
};

use super::{
    json::{Json, Kind},
    native, walk,
};
use crate::reference::Step;

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
