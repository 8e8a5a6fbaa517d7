//! Turns what was selected into options for a plan.

use std::collections::HashSet;

use super::PlanTarget;
use crate::{address::ConfigModule, configuration::Configuration, target::Target};

impl Configuration {
    /// Drops what is said twice, and what a module among the targets says already.
    pub(super) fn plan_targets(&self, mut targets: Vec<Target>) -> Vec<PlanTarget> {
        let mut seen = HashSet::new();
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
