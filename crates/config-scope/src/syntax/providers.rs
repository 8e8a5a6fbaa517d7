//! Reads the names of provider configurations: the `provider` argument, the `providers` of a module
//! call, and what `required_providers` calls which provider.

use hcl_edit::expr::{Expression, ObjectKey, TraversalOperator};

use super::{
    collect::Reading,
    raw::{RawBody, RawExpr, RawPath},
};
use crate::{
    facts::{Form, Parts, ProviderName},
    reference::{References, Step},
};

/// The provider that an argument names; `None` for what is no name.
pub(super) fn name(expression: RawExpr<'_>) -> Option<ProviderName> {
    of_path(&expression.path()?)
}

fn of_path(path: &RawPath) -> Option<ProviderName> {
    let alias = match path.steps.as_slice() {
        [] | [Step::Key(_) | Step::Dynamic, ..] => None,
        [Step::Attribute(alias), ..] => Some(alias.clone()),
    };
    Some(ProviderName {
        local: path.root.clone(),
        alias,
    })
}

/// The pairs of a `providers` argument: name inside the module, name outside.
pub(super) fn pairs(
    reading: &Reading<'_>,
    given: RawExpr<'_>,
    body: &mut Parts,
) -> Option<Vec<(ProviderName, ProviderName)>> {
    let mut pairs = Vec::new();
    match given {
        RawExpr::Hcl(expression) => {
            for (key, value) in expression.as_object()? {
                let inside = match key {
                    ObjectKey::Ident(local) => ProviderName {
                        local: local.as_str().to_owned(),
                        alias: None,
                    },
                    ObjectKey::Expression(key) => name(RawExpr::Hcl(key))?,
                };
                let value = RawExpr::Hcl(value.expr());
                collect_keys(reading, value, body);
                pairs.push((inside, name(value)?));
            }
        }
        RawExpr::Json(json) => {
            for (key, value) in json.members() {
                let inside = RawPath::parse(key).and_then(|path| of_path(&path))?;
                pairs.push((inside, name(RawExpr::Json(value))?));
            }
        }
    }
    Some(pairs)
}

/// OpenTofu's provider instances are chosen by an index that is an expression of its own: adds
/// what it points at to `body`.
pub(super) fn collect_keys(reading: &Reading<'_>, provider: RawExpr<'_>, body: &mut Parts) {
    let RawExpr::Hcl(Expression::Traversal(traversal)) = provider else {
        return;
    };
    let mut references = References::new();
    for operator in &traversal.operators {
        if let TraversalOperator::Index(index) = operator.value() {
            reading.collect(RawExpr::Hcl(index), &mut references);
        }
    }
    if !references.is_empty() {
        body.push("provider", Form::Attribute, references);
    }
}

/// Local names and sources. A source that is not written out counts as none.
pub(super) fn required(body: RawBody<'_>) -> Vec<(String, String)> {
    match body {
        RawBody::Hcl(body) => body
            .attributes()
            .filter_map(|required| {
                let mut members = required.value.as_object()?.iter();
                let source = members.find(|(key, _)| {
                    key.as_ident().is_some_and(|key| key.as_str() == "source")
                        || key.as_expr().and_then(|key| key.as_str()) == Some("source")
                })?;
                let source = source.1.expr().as_str()?;
                Some((required.key.as_str().to_owned(), source.to_owned()))
            })
            .collect(),
        RawBody::Json(json) => json
            .members()
            .iter()
            .filter_map(|(name, value)| {
                let source = RawBody::Json(value).attribute("source")?.text()?;
                Some((name.to_string(), source.to_owned()))
            })
            .collect(),
    }
}
