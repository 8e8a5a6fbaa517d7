//! What a scope gets besides its targets, because a plan would write it in any case.

use crate::address::{self, BlockMode, ConfigAddress};

use super::Target;
use super::drawn::Drawn;
use super::moves::Move;
use super::shape::{CallShapes, KeyKind, Keys};
use super::union::Union;

/// Targets to add, and why.
#[derive(Default)]
pub(super) struct Wider {
    /// Ends of pending moves.
    pub(super) moved: Vec<Target>,
    /// Blocks and calls whose instances get other keys.
    pub(super) reshaped: Vec<Target>,
}

impl Wider {
    pub(super) fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.reshaped.is_empty()
    }
}

/// What the scope drawn from `write` must have besides. Nothing in it is part of `write` already, so
/// that repeating this comes to an end.
pub(super) fn widen(
    union: &Union<'_>,
    drawn: &Drawn,
    write: &[Target],
    pending: &[&Move],
) -> Wider {
    let mut wider = Wider::default();
    let is_new = |target: &Target, others: &[Target]| {
        let mut known = write.iter().chain(others);
        !known.any(|other| other.includes(target))
    };
    for one in touched(union, drawn, write, pending) {
        for end in one.ends() {
            if is_new(end, &wider.moved) {
                wider.moved.push(end.clone());
            }
        }
    }
    for target in reshaped(union, drawn) {
        if is_new(&target, &wider.reshaped) {
            wider.reshaped.push(target);
        }
    }
    wider
}

/// The pending moves that have to do with the scope.
pub(super) fn touched<'a>(
    union: &Union<'_>,
    drawn: &Drawn,
    write: &[Target],
    pending: &[&'a Move],
) -> Vec<&'a Move> {
    if pending.is_empty() {
        return Vec::new();
    }
    let names = drawn.closure.iter().map(|node| union.name(node));
    let blocks = names.filter_map(|name| name.parse::<ConfigAddress>().ok());
    let blocks: Vec<Target> = blocks.map(|block| Target::from(&block)).collect();
    let touches = |one: &&&Move| blocks.iter().chain(write).any(|target| one.meets(target));
    pending.iter().filter(touches).copied().collect()
}

/// The blocks and calls of the scope that have instances with keys other than their `count` or
/// `for_each` will give them.
///
/// Terraform moves `x` to `x[0]` and back by itself, and replaces the others; a plan of anything that
/// depends on one of them includes that. Data sources are only read again.
fn reshaped(union: &Union<'_>, drawn: &Drawn) -> Vec<Target> {
    let calls = CallShapes::of(union.configuration);
    let mut reshaped = Vec::new();
    let mut add = |target: Target| {
        if !reshaped.contains(&target) {
            reshaped.push(target);
        }
    };
    for node in drawn.closure.iter() {
        if union.mode(node) != Some(BlockMode::Managed) || union.declaration(node).is_none() {
            continue;
        }
        let (name, module) = (union.name(node), union.module(node));
        for instance in union.graph.instances_at(node) {
            let Some(keys) = Keys::of(name, instance.row.address) else {
                continue;
            };
            let of_calls = keys
                .calls
                .into_iter()
                .chain(std::iter::repeat(KeyKind::None));
            let mut on_the_way = address::calls_to(module).zip(of_calls);
            if let Some((call, _)) = on_the_way.find(|(call, key)| !calls.get(call).gives(*key)) {
                add(Target::module(call));
            } else if !union.repetition(node).gives(keys.own)
                && let Ok(block) = name.parse::<ConfigAddress>()
            {
                add(Target::from(&block));
            }
        }
    }
    reshaped
}
