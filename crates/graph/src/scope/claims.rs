//! The claims a scope needs.
//!
//! What is written is claimed as it was targeted, so that a claim on `x` covers keys that the run
//! adds. What is read is claimed as blocks. What lies in a module call that has keys, or may have, is
//! claimed as the call.

use std::collections::BTreeSet;

use crate::address::{self, BlockMode};
use crate::claims::{Access, Claim, Path};
use crate::realized::NodeId;

use super::drawn::Drawn;
use super::shape::{CallShapes, KeyKind, Keys};
use super::union::Union;
use super::{Repetition, Target};

pub(super) struct Claims<'a> {
    calls: CallShapes<'a>,
    /// Paths of the calls that have keys in the state.
    keyed: BTreeSet<&'a str>,
    claims: Vec<Claim>,
    /// Paths of the calls that are claimed in place of something in them.
    pub(super) whole_calls: BTreeSet<String>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(union: &Union<'a>, drawn: &Drawn) -> Self {
        let mut keyed = BTreeSet::new();
        for node in drawn.closure.iter() {
            let (name, module) = (union.name(node), union.module(node));
            for instance in union.graph.instances_at(node) {
                match Keys::of(name, instance.row.address) {
                    Some(keys) => {
                        let calls = address::calls_to(module).zip(keys.calls);
                        let with_key = calls.filter(|(_, key)| *key != KeyKind::None);
                        keyed.extend(with_key.map(|(call, _)| call));
                    }
                    // What cannot be read may be anything.
                    None => keyed.extend(address::calls_to(module)),
                }
            }
        }
        Self {
            calls: CallShapes::of(union.configuration),
            keyed,
            claims: Vec::new(),
            whole_calls: BTreeSet::new(),
        }
    }

    pub(super) fn target(&mut self, target: &Target, access: Access) {
        if let Some(path) = target.path() {
            self.add(target.config_module().as_str(), path, access);
        }
    }

    pub(super) fn block(&mut self, union: &Union<'_>, node: NodeId, access: Access) {
        let Some(parts) = address::parts(union.name(node)) else {
            return;
        };
        if let Some(mode) = parts.mode.in_state() {
            let path = Target::module(parts.module);
            let path = Path::resource(path.steps(), mode, parts.kind, parts.name, None);
            self.add(parts.module, path, access);
        }
    }

    pub(super) fn output(&mut self, name: &str) {
        self.claims.push(Claim::write(Path::output(name)));
    }

    pub(super) fn into_claims(self) -> Vec<Claim> {
        self.claims
    }

    /// Adds a claim on something in the module with this config-level path, or on the module.
    fn add(&mut self, module: &str, path: Path, access: Access) {
        let may_have_keys =
            |call: &&str| self.keyed.contains(call) || self.calls.get(call) != Repetition::Single;
        let path = match address::calls_to(module).find(may_have_keys) {
            Some(call) => {
                self.whole_calls.insert(call.to_owned());
                Path::module(Target::module(call).steps())
            }
            None => path,
        };
        self.claims.push(Claim { path, access });
    }
}

/// Whether a block of the scope that is not in the state will be created, even though no target
/// names it: it has one instance for sure. A block with `count` or `for_each` may well be empty by
/// design, and writing it would make every run that depends on it exclude all others.
pub(super) fn is_created(union: &Union<'_>, calls: &CallShapes<'_>, node: NodeId) -> bool {
    let is_empty_by_design =
        |repetition| matches!(repetition, Repetition::Count | Repetition::ForEach);
    union.mode(node) == Some(BlockMode::Managed)
        && union.declaration(node).is_some()
        && !union.is_realized(node)
        && !is_empty_by_design(union.repetition(node))
        && !address::calls_to(union.module(node)).any(|call| is_empty_by_design(calls.get(call)))
}
