//! Finds every reference in an HCL expression.
//!
//! Written out by hand over all expression kinds rather than on hcl-edit's visitor: that one skips
//! the collection of a `%{ for }` directive (0.10.0), and a skipped reference is a wrong scope.

use hcl_edit::{
    Span as _,
    expr::{Expression, ForExpr, FuncCall, ObjectKey, Traversal, TraversalOperator},
    template::{Directive, Element},
};
use tfstate::Key;

use super::{files, heredoc};
use crate::reference::{Reference, References, Step};

/// What a walk works on and adds to.
pub(crate) struct Walk<'w> {
    /// The text the expression stands in; spans index it.
    source: &'w str,
    references: &'w mut References,
    /// Things that hcl-edit reads otherwise than Terraform: offset and what.
    faults: &'w mut Vec<(usize, &'static str)>,
    /// Names bound by the `for`s around the current expression: they hide what they are called.
    bound: Vec<String>,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(
        source: &'w str,
        references: &'w mut References,
        faults: &'w mut Vec<(usize, &'static str)>,
    ) -> Self {
        Self {
            source,
            references,
            faults,
            bound: Vec::new(),
        }
    }

    pub(crate) fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Null(_)
            | Expression::Bool(_)
            | Expression::Number(_)
            | Expression::String(_) => {}
            Expression::Array(items) => items.iter().for_each(|item| self.expression(item)),
            Expression::Object(object) => {
                for (key, value) in object {
                    // A bare word before `=` is a key, not a reference.
                    if let ObjectKey::Expression(key) = key {
                        self.expression(key);
                    }
                    self.expression(value.expr());
                }
            }
            Expression::StringTemplate(template) => self.elements(template),
            Expression::HeredocTemplate(heredoc) => {
                self.faults
                    .extend(heredoc::fault(self.source, expression.span()));
                self.elements(&heredoc.template);
            }
            Expression::Parenthesis(inner) => self.expression(inner.inner()),
            Expression::Variable(root) => self.path(root.as_str(), &[]),
            Expression::Conditional(conditional) => {
                self.expression(&conditional.cond_expr);
                self.expression(&conditional.true_expr);
                self.expression(&conditional.false_expr);
            }
            Expression::FuncCall(call) => self.call(call),
            Expression::Traversal(traversal) => self.traversal(traversal),
            Expression::UnaryOp(operation) => self.expression(&operation.expr),
            Expression::BinaryOp(operation) => {
                self.expression(&operation.lhs_expr);
                self.expression(&operation.rhs_expr);
            }
            Expression::ForExpr(for_expr) => self.for_expression(for_expr),
        }
    }

    pub(crate) fn elements<'e>(&mut self, elements: impl IntoIterator<Item = &'e Element>) {
        for element in elements {
            match element {
                Element::Literal(_) => {}
                Element::Interpolation(interpolation) => self.expression(&interpolation.expr),
                Element::Directive(directive) => self.directive(directive),
            }
        }
    }

    fn directive(&mut self, directive: &Directive) {
        match directive {
            Directive::If(directive) => {
                self.expression(&directive.if_expr.cond_expr);
                self.elements(&directive.if_expr.template);
                if let Some(otherwise) = &directive.else_expr {
                    self.elements(&otherwise.template);
                }
            }
            Directive::For(directive) => {
                let intro = &directive.for_expr;
                self.expression(&intro.collection_expr);
                let key = intro.key_var.as_ref().map(|key| key.as_str());
                self.binding(key, intro.value_var.as_str(), |walk| {
                    walk.elements(&intro.template)
                });
            }
        }
    }

    fn for_expression(&mut self, for_expr: &ForExpr) {
        let intro = &for_expr.intro;
        self.expression(&intro.collection_expr);
        let key = intro.key_var.as_ref().map(|key| key.as_str());
        self.binding(key, intro.value_var.as_str(), |walk| {
            if let Some(key) = &for_expr.key_expr {
                walk.expression(key);
            }
            walk.expression(&for_expr.value_expr);
            if let Some(condition) = &for_expr.cond {
                walk.expression(&condition.expr);
            }
        });
    }

    fn binding(&mut self, key: Option<&str>, value: &str, inner: impl FnOnce(&mut Self)) {
        let outside = self.bound.len();
        self.bound.extend(key.map(str::to_owned));
        self.bound.push(value.to_owned());
        inner(self);
        self.bound.truncate(outside);
    }

    fn call(&mut self, call: &FuncCall) {
        let namespace: Vec<&str> = call
            .name
            .namespace
            .iter()
            .map(|part| part.as_str())
            .collect();
        match namespace.as_slice() {
            ["provider", provider, ..] => {
                self.references
                    .insert(Reference::ProviderFunction((*provider).to_owned()));
            }
            [] | ["core", ..] => {
                self.references
                    .extend(files::read_by(call).map(Reference::File));
            }
            _ => {}
        }
        call.args
            .iter()
            .for_each(|argument| self.expression(argument));
    }

    fn traversal(&mut self, traversal: &Traversal) {
        for operator in &traversal.operators {
            if let TraversalOperator::Index(index) = operator.value() {
                self.expression(index);
            }
        }
        match &traversal.expr {
            Expression::Variable(root) => self.path(root.as_str(), &steps(traversal)),
            other => self.expression(other),
        }
    }

    fn path(&mut self, root: &str, steps: &[Step]) {
        if !self.bound.iter().any(|bound| bound == root) {
            self.references.extend(Reference::resolve(root, steps));
        }
    }
}

/// The steps of a traversal, as HCL's parser makes them: only an index that is a bare number or a
/// string without templates is a key, everything else is computed.
pub(crate) fn steps(traversal: &Traversal) -> Vec<Step> {
    traversal
        .operators
        .iter()
        .map(|operator| match operator.value() {
            TraversalOperator::GetAttr(name) => Step::Attribute(name.as_str().to_owned()),
            TraversalOperator::LegacyIndex(index) => match i64::try_from(*index.value()) {
                Ok(index) => Step::Key(Key::Int(index)),
                Err(_) => Step::Dynamic,
            },
            TraversalOperator::Index(Expression::String(key)) => {
                Step::Key(Key::Str(key.value().clone()))
            }
            TraversalOperator::Index(Expression::Number(key)) => {
                match key.value().as_i64().filter(|key| *key >= 0) {
                    Some(key) => Step::Key(Key::Int(key)),
                    None => Step::Dynamic,
                }
            }
            TraversalOperator::AttrSplat(_)
            | TraversalOperator::FullSplat(_)
            | TraversalOperator::Index(_) => Step::Dynamic,
        })
        .collect()
}
