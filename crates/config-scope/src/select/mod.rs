//! What a set of files and targets selects: the write set, and everything it needs.

mod files;

use std::collections::BTreeSet;

pub use files::{FileReport, FileRole};

use crate::{
    address::{ConfigAddress, ConfigModule},
    configuration::Configuration,
    doubt::Confidence,
    moves::{self, Move, Named},
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
    pub moves: Vec<TouchedMove>,
    /// One report for each file asked for.
    pub files: Vec<FileReport>,
    pub unmatched: Vec<Unmatched>,
    pub confidence: Confidence,
}

impl WriteSet {
    /// Everything the write set names, declared or not.
    fn named(&self) -> Named {
        Named {
            addresses: self.addresses.union(&self.former).cloned().collect(),
            modules: self.modules.clone(),
        }
    }
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
        let touched = self.touched_moves(&write, &closure);
        write.targets = self.plan_targets(targets);
        Selection {
            write,
            closure,
            moves: touched,
            files,
            unmatched,
            confidence: self.trust(widened),
        }
    }

    /// Adds what `target` means to the write set. False if nothing declared or moved matches.
    fn take(&self, target: &Target, write: &mut WriteSet) -> bool {
        let Some(address) = target.config_address() else {
            return self.take_module(&target.config_module(), write);
        };
        if self.find_node(&address).is_some() {
            write.addresses.insert(address);
            return true;
        }
        let mut known = self.is_within_unknown_module(&address.module);
        known |= self.moves.iter().any(|moved| moved.concerns(&address));
        known |= self.removed.iter().any(|removed| {
            removed.from.config_address().as_ref() == Some(&address)
                || (removed.from.resource.is_none()
                    && removed.from.config_module().contains(&address.module))
        });
        write.former.insert(address);
        known
    }

    fn take_module(&self, module: &ConfigModule, write: &mut WriteSet) -> bool {
        let beneath = self
            .nodes()
            .filter(|node| module.contains(&node.address.module));
        write
            .addresses
            .extend(beneath.map(|node| node.address.clone()));
        write.modules.insert(module.clone());
        self.modules().any(|known| known == module)
            || self.is_within_unknown_module(module)
            || self.moves.iter().any(|moved| moved.concerns_module(module))
            || self.removed.iter().any(|removed| {
                removed.from.resource.is_none() && removed.from.config_module() == *module
            })
    }

    /// Adds the other ends of all moves that the write set has a part in. Returns why the write
    /// set became larger.
    fn follow_moves(&self, write: &mut WriteSet, targets: &mut Vec<Target>) -> Vec<String> {
        let asked = write.addresses.clone();
        let mut touched = Vec::new();
        // A module that joins brings what is declared in it, which may have moved in its turn. As
        // in `follow`, each move counts once.
        for _ in 0..=self.moves.len() {
            let named = write.named();
            let (found, all) = moves::follow(&self.moves, &named);
            touched = found;
            if all == named {
                break;
            }
            for module in all.modules.difference(&named.modules) {
                targets.push(Target::from(module));
                self.take_module(module, write);
            }
            for address in all.addresses.difference(&named.addresses) {
                targets.push(Target::from(address));
                self.take(&Target::from(address), write);
            }
        }
        let added: Vec<String> = write
            .addresses
            .difference(&asked)
            .map(ToString::to_string)
            .collect();
        if added.is_empty() {
            return Vec::new();
        }
        let places: Vec<String> = touched.iter().map(|moved| moved.at.to_string()).collect();
        vec![format!(
            "{} joined the selection through moved blocks at {}",
            added.join(", "),
            places.join(", ")
        )]
    }

    fn touched_moves(
        &self,
        write: &WriteSet,
        closure: &BTreeSet<ConfigAddress>,
    ) -> Vec<TouchedMove> {
        let mut named = write.named();
        let (in_write_set, _) = moves::follow(&self.moves, &named);
        named.addresses.extend(closure.iter().cloned());
        let (all, _) = moves::follow(&self.moves, &named);
        let touched = all.into_iter().map(|moved| TouchedMove {
            moved: moved.clone(),
            in_write_set: in_write_set.contains(&moved),
        });
        touched.collect()
    }

    /// Drops what is said twice, and what a module among the targets says already.
    fn plan_targets(&self, mut targets: Vec<Target>) -> Vec<PlanTarget> {
        let mut seen = std::collections::HashSet::new();
        targets.retain(|target| seen.insert(target.clone()));
        let wholes: Vec<Target> = targets
            .iter()
            .filter(|target| target.resource.is_none())
            .cloned()
            .collect();
        targets.retain(|target| {
            !wholes
                .iter()
                .any(|whole| *whole != *target && covers(whole, target))
        });
        let plan = targets.into_iter().map(|target| {
            let unkeyed_call = self.unkeyed_call(&target);
            PlanTarget {
                target,
                unkeyed_call,
            }
        });
        plan.collect()
    }

    fn unkeyed_call(&self, target: &Target) -> Option<ConfigModule> {
        let depth =
            target.module.len() - usize::from(target.resource.is_none()).min(target.module.len());
        let mut caller = ConfigModule::root();
        for step in &target.module[..depth] {
            let path = caller.child(&step.name);
            if step.key.is_none() && self.is_repeated_call(&caller, &step.name) {
                return Some(path);
            }
            caller = path;
        }
        None
    }

    fn is_repeated_call(&self, caller: &ConfigModule, name: &str) -> bool {
        let module = self
            .loaded
            .modules
            .iter()
            .find(|module| module.path == *caller);
        let call = module.and_then(|module| module.facts.calls.get(name));
        call.is_some_and(|call| call.facts.repetition.is_some())
    }

    fn is_within_unknown_module(&self, module: &ConfigModule) -> bool {
        self.loaded
            .unresolved
            .iter()
            .any(|(path, ..)| path.contains(module))
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

/// Whether targeting the module `whole` targets all that `target` does.
fn covers(whole: &Target, target: &Target) -> bool {
    let Some((last, above)) = whole.module.split_last() else {
        return false;
    };
    let Some((path, _)) = target.module.split_at_checked(whole.module.len()) else {
        return false;
    };
    path.split_last().is_some_and(|(step, path)| {
        path == above && step.name == last.name && (last.key.is_none() || last.key == step.key)
    })
}
