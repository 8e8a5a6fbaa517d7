//! Real configurations: all are read, and depend on what Terraform says once it can be asked.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use config_scope::{Configuration, DiskTree, DoubtKind, Flavour, MemoryTree, ParseCache};

use crate::{
    oracle::{assert_agrees, write},
    support::{
        shared::{directories, entries, file_name},
        translate,
    },
};

/// Native configuration files of a directory, by name.
fn sources(directory: &Path) -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    for path in entries(directory) {
        let file = file_name(&path);
        if file.ends_with(".tf") || file.ends_with(".tf.json") {
            sources.insert(file, fs::read_to_string(&path).expect("a text"));
        }
    }
    sources
}

#[test]
fn every_real_configuration_is_read_without_remainder() {
    let mut resources = 0;
    for directory in directories("corpus/configs") {
        for flavour in [Flavour::Terraform, Flavour::OpenTofu] {
            let tree = DiskTree::new(&directory, ".terraform");
            let configuration =
                Configuration::load_with(&tree, flavour, &ParseCache::new()).unwrap();
            for doubt in configuration.doubts() {
                // The modules these call are not part of the corpus.
                assert_eq!(
                    doubt.kind,
                    DoubtKind::UnknownModule,
                    "{directory:?}: {doubt}"
                );
            }
            resources += configuration.nodes().len();
            for node in configuration.nodes() {
                assert!(
                    configuration
                        .closure([&node.address])
                        .contains(&node.address)
                );
                assert!(
                    configuration
                        .declared_in(&node.at.file)
                        .declares
                        .contains(&node.address)
                );
            }
        }
    }
    assert!(resources > 2 * 1_000, "{resources} resources");
}

#[test]
fn real_configurations_depend_on_what_terraform_says() {
    let (mut compared, mut translated) = (0, 0);
    for directory in directories("corpus/configs") {
        // Three are not native syntax, or use what only the crate's own parser gets around.
        let Some(translation) = translate::translate(&sources(&directory)) else {
            continue;
        };
        translated += 1;
        let target = tempfile::tempdir().unwrap();
        write(target.path(), &translation.files);
        assert_agrees(&file_name(&directory), target.path());
        let original = Configuration::load(&DiskTree::new(&directory, ".terraform")).unwrap();
        let rewritten = Configuration::load(&DiskTree::new(target.path(), ".terraform")).unwrap();
        for node in original.nodes() {
            // The data source of a check is left out of the translation.
            let Some(new) = translation.names.get(&node.address.to_string()) else {
                continue;
            };
            compared += 1;
            let old = original.dependencies(&node.address);
            let mut expected = rewritten.dependencies(&new.parse().unwrap());
            expected.retain(|needed| needed.module.is_root());
            for needed in expected {
                let same = |old: &config_scope::ConfigAddress| {
                    translation.names.get(&old.to_string()) == Some(&needed.to_string())
                };
                assert!(
                    old.iter().any(same),
                    "{directory:?}: {} needs {needed}",
                    node.address
                );
            }
        }
    }
    println!("{translated} configurations, {compared} resources");
    assert!(
        translated >= 20 && compared > 1_000,
        "{translated} {compared}"
    );
}

/// Prints the speed; asserts only that the cache spares the parsing.
#[test]
fn parsing_is_measured_and_the_cache_spares_it() {
    let mut tree = MemoryTree::new();
    let mut bytes = 0;
    for directory in directories("corpus/configs") {
        let module = file_name(&directory);
        let call = format!("module \"m{module}\" {{\n  source = \"./{module}\"\n}}\n");
        tree.insert(&format!("{module}.tf"), call);
        for (file, text) in sources(&directory) {
            bytes += text.len();
            tree.insert(&format!("{module}/{file}"), text);
        }
    }
    let cache = ParseCache::new();
    let cold = Instant::now();
    let first = Configuration::load_with(&tree, Flavour::Terraform, &cache).unwrap();
    let cold = cold.elapsed();
    let warm = Instant::now();
    let second = Configuration::load_with(&tree, Flavour::Terraform, &cache).unwrap();
    let warm = warm.elapsed();
    let rate = bytes as f64 / 1e6 / cold.as_secs_f64();
    println!("{bytes} bytes: {cold:?} ({rate:.1} MB/s), {warm:?} with the cache");
    assert_eq!(first.nodes().len(), second.nodes().len());
    assert!(warm < cold, "{warm:?} {cold:?}");
}
