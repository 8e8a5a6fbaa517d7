//! Reads the object that a `moved`, `removed` or `import` block names.

use std::iter::Peekable;

use tfstate::{Key, ModuleStep};

use super::raw::RawPath;
use crate::{
    address::Mode,
    reference::Step,
    target::{Target, TargetResource},
};

/// The object that `path` names: module steps, then perhaps a resource.
pub(super) fn of(path: &RawPath) -> Option<Target> {
    let mut words = path.steps.iter().peekable();
    let mut word = path.root.as_str();
    let mut module = Vec::new();
    while word == "module" {
        let Some(Step::Attribute(name)) = words.next() else {
            return None;
        };
        let key = next_key(&mut words);
        module.push(ModuleStep {
            name: name.clone(),
            key,
        });
        match words.next() {
            None => {
                return Some(Target {
                    module,
                    resource: None,
                });
            }
            Some(Step::Attribute(next)) => word = next,
            Some(_) => return None,
        }
    }
    let mode = match word {
        "data" => Mode::Data,
        "ephemeral" => Mode::Ephemeral,
        _ => Mode::Managed,
    };
    if mode != Mode::Managed || word == "resource" {
        let Some(Step::Attribute(kind)) = words.next() else {
            return None;
        };
        word = kind;
    }
    let Some(Step::Attribute(name)) = words.next() else {
        return None;
    };
    let key = next_key(&mut words);
    if words.next().is_some() {
        return None;
    }
    let resource = TargetResource {
        mode,
        kind: word.to_owned(),
        name: name.clone(),
        key,
    };
    Some(Target {
        module,
        resource: Some(resource),
    })
}

fn next_key<'s>(words: &mut Peekable<impl Iterator<Item = &'s Step>>) -> Option<Key> {
    match words.next_if(|step| matches!(step, Step::Key(_) | Step::Dynamic)) {
        Some(Step::Key(key)) => Some(key.clone()),
        _ => None,
    }
}
