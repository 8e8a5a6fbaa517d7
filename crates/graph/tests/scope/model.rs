//! A slow model of the closure: sets of texts, gone through until nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use tfstate::{Address, ModulePath, ModuleStep};

use crate::support::rows::{State, Which};

/// Blocks and what they refer to.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) fetch: BTreeSet<String>,
    pub(crate) write: BTreeSet<String>,
    pub(crate) required: BTreeSet<String>,
    pub(crate) missing: BTreeSet<String>,
}

pub(crate) fn answer(state: &State, declared: &Edges, targets: &[String], destroy: bool) -> Answer {
    let mut edges = declared.clone();
    for row in state.rows.values() {
        let of_block = edges.entry(row.config_address.clone()).or_default();
        of_block.extend(row.dependencies.iter().cloned());
    }
    let blocks: Vec<String> = edges.keys().cloned().collect();
    let targeted = |block: &String| targets.iter().any(|target| is_of(block, target, false));
    let written: BTreeSet<String> = blocks
        .iter()
        .filter(|block| targeted(block))
        .cloned()
        .collect();
    let mut dependents = written.clone();
    if destroy {
        grow(&mut dependents, |known| {
            let depends = |(_, to): &(&String, &BTreeSet<String>)| !to.is_disjoint(known);
            edges
                .iter()
                .filter(depends)
                .map(|(block, _)| block.clone())
                .collect()
        });
    }
    let mut closure = dependents.clone();
    grow(&mut closure, |known| {
        known
            .iter()
            .filter_map(|block| edges.get(block))
            .flatten()
            .cloned()
            .collect()
    });
    let mut answer = Answer::default();
    for ((address, _), row) in &state.rows {
        if closure.contains(&row.config_address) {
            answer.fetch.insert(address.clone());
        }
        let is_dependent =
            dependents.contains(&row.config_address) && !written.contains(&row.config_address);
        if is_dependent || targets.iter().any(|target| is_of(address, target, true)) {
            answer.write.insert(address.clone());
        }
    }
    let has_object = |of: &dyn Fn(&String, &String) -> bool| {
        let mut rows = state
            .rows
            .iter()
            .filter(|((_, object), _)| *object != Which::Shell);
        rows.any(|((address, _), row)| of(address, &row.config_address))
    };
    for block in declared.keys().filter(|block| closure.contains(*block)) {
        if !has_object(&|_, of| of == block) {
            answer.required.insert(block.clone());
        }
    }
    for target in targets {
        if !has_object(&|address, _| is_of(address, target, true)) {
            answer.missing.insert(target.clone());
        }
    }
    answer
}

fn grow(set: &mut BTreeSet<String>, more: impl Fn(&BTreeSet<String>) -> BTreeSet<String>) {
    loop {
        let before = set.len();
        let found = more(set);
        set.extend(found);
        if set.len() == before {
            return;
        }
    }
}

/// Whether `address` (of a block or an instance) is meant by `target`, with regard to keys or not.
fn is_of(address: &str, target: &str, with_keys: bool) -> bool {
    let address: Address = address.parse().unwrap();
    let (module, own): (Vec<ModuleStep>, Option<Address>) = match target.parse::<Address>() {
        Ok(resource) => (resource.module.clone(), Some(resource)),
        Err(_) => (target.parse::<ModulePath>().unwrap().0, None),
    };
    if module.len() > address.module.len() {
        return false;
    }
    for (wanted, step) in module.iter().zip(&address.module) {
        let key_differs = with_keys && wanted.key.is_some() && wanted.key != step.key;
        if wanted.name != step.name || key_differs {
            return false;
        }
    }
    let Some(own) = own else {
        return true;
    };
    let key_differs = with_keys && own.key.is_some() && own.key != address.key;
    module.len() == address.module.len()
        && (own.mode, own.kind, own.name) == (address.mode, address.kind, address.name)
        && !key_differs
}
