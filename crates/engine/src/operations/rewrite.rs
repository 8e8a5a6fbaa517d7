//! Dependency lists that follow a move. Pure.
//!
//! Terraform leaves the old address behind in the lists of those who depend on what moved, and plans on with a dependency on
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::work::{Piece, cannot};
use crate::EngineError;

/// Where blocks went: what is to stand in lists instead of each.
#[derive(Debug, Default)]
pub(super) struct Renames(BTreeMap<String, BTreeSet<String>>);

impl Renames {
    /// Some instances of `from` belong to `to` now. The old name stays in lists while some of them still bear it.
    pub(super) fn add(&mut self, from: String, to: String, some_stay: bool) {
        let names = self.0.entry(from.clone()).or_default();
        names.insert(to);
        if some_stay {
            names.insert(from);
        }
    }

    /// The blocks whose names in lists change.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        let changes = |(from, to): &(&String, &BTreeSet<String>)| !is_only(to, from);
        self.0.iter().filter(changes).map(|(from, _)| from.as_str())
    }

    /// The piece with its list brought up to date; false when that changes nothing.
    pub(super) fn follow(&self, piece: &mut Piece) -> Result<bool, EngineError> {
        let Some(members) = tfstate::instance_members(&piece.body) else {
            return Ok(false);
        };
        let list = members.dependencies.map(tfstate::string_array);
        let list = list.unwrap_or_default();
        if !list.iter().any(|name| self.0.contains_key(name)) {
            return Ok(false);
        }
        let mut renamed: BTreeSet<String> = BTreeSet::new();
        for name in &list {
            match self.0.get(name) {
                Some(names) => renamed.extend(names.iter().cloned()),
                None => _ = renamed.insert(name.clone()),
            }
        }
        let renamed: Vec<String> = renamed.into_iter().collect();
        if renamed == list {
            return Ok(false);
        }
        piece.body = tfstate::body_with_dependencies(&piece.body, &renamed)
            .ok_or_else(|| cannot("a dependency list cannot be rewritten"))?;
        Ok(true)
    }
}

fn is_only(names: &BTreeSet<String>, name: &str) -> bool {
    names.len() == 1 && names.contains(name)
}
