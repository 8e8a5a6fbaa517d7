//! Who depends on what a scope writes.

use std::collections::BTreeSet;

use graph::scope::{Target, dependents, dependents_at_once};
use graph::{ConfigAddress, Dependents};

use crate::support::{Rng, config, random};

#[test]
fn dependents_are_the_blocks_outside_that_record_a_dependency_on_something_inside() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let count = rng.below(40);
        let state = random::state(&mut rng, count);
        let graph = state.graph();
        let block = random::block(&mut rng);
        let instance = block.instance(&mut rng);
        let texts = match rng.below(3) {
            0 => vec!["module.m", "module.k[0]"],
            1 => vec![instance.as_str()],
            _ => vec![instance.as_str(), "module.m.module.k"],
        };
        let targets = config::targets(&texts);
        let is_meant = |block: &str| {
            let block: ConfigAddress = block.parse().unwrap();
            targets.iter().any(|target| match target {
                Target::Resource(_) => target.block() == Some(block.clone()),
                _ => {
                    let steps = target.to_string().replace("[0]", "");
                    block.module() == steps || block.module().starts_with(&format!("{steps}."))
                }
            })
        };
        let expected: BTreeSet<&str> = state
            .rows
            .values()
            .filter(|row| !is_meant(&row.config_address))
            .filter(|row| row.dependencies.iter().any(|on| is_meant(on)))
            .map(|row| row.config_address.as_str())
            .collect();
        let found = dependents(&graph, &Dependents::of(&graph), &targets);
        assert!(
            found.iter().eq(expected),
            "seed {seed}: {texts:?}: {found:?}"
        );
        assert_eq!(dependents_at_once(&graph, &targets), found, "seed {seed}");
    }
}
