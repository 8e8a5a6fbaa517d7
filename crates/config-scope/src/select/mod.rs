//! What a set of files and targets selects: the write set, and everything it needs.

mod files;
mod resolve;
mod targets;

use std::collections::BTreeSet;

pub use files::{FileReport, FileRole};

use crate::{
    address::{ConfigAddress, ConfigModule},
    configuration::Configuration,
    doubt::Confidence,
    moves::Move,
    near,
    source::SourcePath,
    target::Target,
};

/// What a person asked for.
#[derive(Clone, Default, Debug)]
pub struct Selectors {
    /// `--file`, and what changed since a revision; relative to the root module.
    pub files: Vec<SourcePath>,
    /// `--target`.
    pub targets: Vec<Target>,
}

/// What an operation on a selection may change.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct WriteSet {
    /// Declared resource blocks. Of a block all instances count as selected, also where a target
    /// names one: Terraform takes dependencies for all of them.
    pub addresses: BTreeSet<ConfigAddress>,
    /// Modules selected as a whole, whose objects in the state may be more than is declared.
    pub modules: BTreeSet<ConfigModule>,
    /// Addresses that are named (by a target, a `removed` block, the old end of a `moved` block)
    /// and not declared: the state may still have objects there.
    pub former: BTreeSet<ConfigAddress>,
    /// The same as options for a plan, as exact as they were asked for.
    pub targets: Vec<PlanTarget>,
}

/// One `-target` for a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanTarget {
    pub target: Target,
    /// The outermost module call on the path that has `count` or `for_each` and no key in
    /// `target`. With such a target Terraform selects nothing, and does not say so: the keys must
    /// be filled in from the state, or this module be targeted instead.
    pub unkeyed_call: Option<ConfigModule>,
}

/// A `moved` block that has to do with the selection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TouchedMove {
    pub moved: Move,
    /// Whether an end of it is in the write set; else one is among what that needs. If the move is
    /// pending, Terraform wants both ends among the targets in either case.
    pub in_write_set: bool,
}

/// A target that nothing in the configuration matches. The state may have objects there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unmatched {
    pub target: Target,
    /// What it may have meant, best first.
    pub near: Vec<String>,
}

/// The answer to [`Configuration::select`].
#[derive(Clone, Debug)]
pub struct Selection {
    pub write: WriteSet,
    /// The declared blocks of the write set and everything they need.
    pub closure: BTreeSet<ConfigAddress>,
    /// Addresses outside the closure at which its objects may be recorded, through moves that are
    /// still pending: where to look in a state. What the state has there belongs to the slice.
    pub recorded_as: BTreeSet<ConfigAddress>,
    /// The moves that lead there, and those of the write set. Where one of the others proves to be
    /// pending, select again with both its ends among the targets.
    pub moves: Vec<TouchedMove>,
    /// One report for each file asked for.
    pub files: Vec<FileReport>,
    pub unmatched: Vec<Unmatched>,
    pub confidence: Confidence,
}

impl Configuration {
    /// Works out what `selectors` select. Pure: it asks neither the disk nor the state.
    pub fn select(&self, selectors: &Selectors) -> Selection {
        let mut write = WriteSet::default();
        let mut targets: Vec<Target> = Vec::new();
        let files: Vec<FileReport> = selectors
            .files
            .iter()
            .map(|file| self.declared_in(file))
            .collect();
        for report in &files {
            write.addresses.extend(report.declares.iter().cloned());
            targets.extend(report.declares.iter().map(Target::from));
            for module in &report.calls {
                self.take_module(module, &mut write);
                targets.push(Target::from(module));
            }
            for target in &report.names {
                self.take(target, &mut write);
                targets.push(target.clone());
            }
        }
        let mut unmatched = Vec::new();
        for target in &selectors.targets {
            if !self.take(target, &mut write) {
                let near = self.near(&target.to_string());
                unmatched.push(Unmatched {
                    target: target.clone(),
                    near,
                });
            }
            targets.push(target.clone());
        }
        let widened = self.follow_moves(&mut write, &mut targets);
        let closure = self.closure(&write.addresses);
        let (moves, recorded_as) = self.touched_moves(&write, &closure);
        write.targets = self.plan_targets(targets);
        Selection {
            write,
            closure,
            recorded_as,
            moves,
            files,
            unmatched,
            confidence: self.trust(widened),
        }
    }

    fn trust(&self, widened: Vec<String>) -> Confidence {
        if !self.doubts().is_empty() {
            Confidence::Unsafe(self.doubts().iter().map(ToString::to_string).collect())
        } else if !widened.is_empty() {
            Confidence::Widened(widened)
        } else {
            Confidence::Safe
        }
    }

    /// Declared addresses and modules that resemble `text`, best first: for messages about what
    /// was not found. Keys in `text` count as differences.
    pub fn near(&self, text: &str) -> Vec<String> {
        let addresses = self.nodes().map(|node| node.address.to_string());
        let modules = self
            .modules()
            .filter(|module| !module.is_root())
            .map(ToString::to_string);
        let known: Vec<String> = addresses.chain(modules).collect();
        near::nearest(text, known.iter().map(String::as_str))
    }
}
