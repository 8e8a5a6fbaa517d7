//! What must hold for every configuration, shown on generated ones.

use std::collections::{BTreeMap, BTreeSet};

use config_scope::{
    ConfigAddress, Configuration, DiskTree, FileRole, Flavour, MemoryTree, ParseCache, Selectors,
    SourcePath, Target,
};
use proptest::prelude::*;

use crate::{
    oracle::write,
    support::generate::{Files, Layout, configuration, configuration_in},
};

fn tree(files: &Files) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for (path, text) in files {
        tree.insert(path, text.as_str());
    }
    tree
}

fn load(files: &Files) -> Configuration {
    Configuration::load(&tree(files)).expect("a generated configuration")
}

/// Everything each resource needs directly.
fn graph(configuration: &Configuration) -> BTreeMap<ConfigAddress, BTreeSet<ConfigAddress>> {
    let nodes = configuration.nodes();
    nodes
        .map(|node| {
            (
                node.address.clone(),
                configuration.dependencies(&node.address),
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_files_blocks_stand_in_do_not_matter(seed: u64) {
        let native = graph(&load(&configuration_in(seed, Layout::Native)));
        let json = graph(&load(&configuration_in(seed, Layout::Json)));
        prop_assert_eq!(native, json);
    }

    #[test]
    fn a_closure_is_closed_and_dependents_are_its_inverse(seed: u64, choice: prop::sample::Index) {
        let configuration = load(&configuration(seed));
        let nodes: Vec<ConfigAddress> =
            configuration.nodes().map(|node| node.address.clone()).collect();
        prop_assume!(!nodes.is_empty());
        let one = choice.get(&nodes);
        let closure = configuration.closure([one]);
        prop_assert_eq!(&configuration.closure(&closure), &closure);
        for other in &nodes {
            let needs = closure.contains(other);
            prop_assert_eq!(needs, configuration.dependents([other]).contains(one));
            let both = configuration.closure([one, other]);
            let union: BTreeSet<_> =
                closure.union(&configuration.closure([other])).cloned().collect();
            prop_assert_eq!(both, union);
        }
        // Going from neighbour to neighbour finds the same.
        let mut stepwise = BTreeSet::from([one.clone()]);
        let mut todo = vec![one.clone()];
        while let Some(next) = todo.pop() {
            for needed in configuration.dependencies(&next) {
                if stepwise.insert(needed.clone()) {
                    todo.push(needed);
                }
            }
        }
        prop_assert_eq!(stepwise, closure);
    }

    #[test]
    fn files_select_what_stands_in_them(seed: u64) {
        let files = configuration(seed);
        let loaded = load(&files);
        let mut declared = BTreeSet::new();
        for path in files.keys() {
            let report = loaded.declared_in(&SourcePath::new(path));
            let is_hidden = path.ends_with(".hidden.tf");
            let expected = if is_hidden { FileRole::Unknown } else { FileRole::Configuration };
            // A module that a deeper one replaced may be left uncalled.
            prop_assert!(report.role == expected || report.role == FileRole::Unknown);
            declared.extend(report.declares);
        }
        let nodes: BTreeSet<_> = loaded.nodes().map(|node| node.address.clone()).collect();
        prop_assert_eq!(&declared, &nodes);
        let all = Selectors { files: files.keys().map(|path| SourcePath::new(path)).collect(), ..Selectors::default() };
        let selection = loaded.select(&all);
        prop_assert_eq!(&selection.write.addresses, &nodes);
        prop_assert_eq!(&selection.closure, &nodes);
    }

    #[test]
    fn a_target_selects_itself_in_every_spelling(seed: u64, choice: prop::sample::Index) {
        let loaded = load(&configuration(seed));
        let nodes: Vec<ConfigAddress> = loaded.nodes().map(|node| node.address.clone()).collect();
        prop_assume!(!nodes.is_empty());
        let address = choice.get(&nodes);
        for spelling in [address.to_string(), format!("{address}[0]"), format!("{address}[\"a.b\"]")] {
            let target: Target = spelling.parse().unwrap();
            prop_assert_eq!(target.to_string(), spelling);
            let selectors = Selectors { targets: vec![target], ..Selectors::default() };
            let selection = loaded.select(&selectors);
            prop_assert!(selection.unmatched.is_empty());
            prop_assert!(selection.write.addresses.contains(address));
            prop_assert!(selection.closure.is_superset(&loaded.closure([address])));
        }
        prop_assert_eq!(&address.to_string().parse::<ConfigAddress>().unwrap(), address);
    }

    #[test]
    fn disk_memory_and_cache_tell_the_same(seed in 0_u64..1_000) {
        let files = configuration(seed);
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &files);
        let cache = ParseCache::new();
        let expected = graph(&load(&files));
        for _ in 0..2 {
            let disk = DiskTree::new(directory.path(), ".terraform");
            let loaded = Configuration::load_with(&disk, Flavour::Terraform, &cache).unwrap();
            prop_assert_eq!(&graph(&loaded), &expected);
        }
    }
}
