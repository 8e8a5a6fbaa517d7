//! Generated configurations against Terraform's own graph.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::support::{generate, oracle};
use config_scope::{ConfigAddress, Configuration, DiskTree};

/// How a number of configurations compared.
#[derive(Default, Debug)]
struct Tally {
    configurations: usize,
    resources: usize,
    ours: usize,
    theirs: usize,
    exact: usize,
    outputs_exact: usize,
    outputs: usize,
    wrong: Vec<String>,
}

pub(crate) fn write(directory: &Path, files: &generate::Files) {
    for (path, text) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn text(addresses: &BTreeSet<ConfigAddress>) -> BTreeSet<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// Adds the comparison of one directory to the tally.
fn compare(name: &str, directory: &Path, tally: &Mutex<Tally>) {
    let answer = match oracle::ask(directory) {
        Ok(answer) => answer,
        Err(error) => {
            tally.lock().unwrap().wrong.push(format!("{name}: {error}"));
            return;
        }
    };
    let ours = Configuration::load(&DiskTree::new(directory, ".terraform")).unwrap();
    let mut tally = tally.lock().unwrap();
    tally.configurations += 1;
    for doubt in ours.doubts() {
        tally.wrong.push(format!("{name}: {doubt}"));
    }
    let declared: BTreeSet<String> = ours.nodes().map(|node| node.address.to_string()).collect();
    let expected: BTreeSet<String> = answer.resources.keys().cloned().collect();
    if declared != expected {
        let missing: Vec<_> = expected.difference(&declared).collect();
        let surplus: Vec<_> = declared.difference(&expected).collect();
        tally.wrong.push(format!(
            "{name}: not declared {missing:?}, not there {surplus:?}"
        ));
        return;
    }
    for node in ours.nodes() {
        let mut closure = text(&ours.closure([&node.address]));
        closure.remove(&node.address.to_string());
        let theirs = &answer.resources[&node.address.to_string()];
        let missing: Vec<_> = theirs.difference(&closure).collect();
        if !missing.is_empty() {
            tally
                .wrong
                .push(format!("{name}: {} also needs {missing:?}", node.address));
        }
        tally.resources += 1;
        tally.ours += closure.len();
        tally.theirs += theirs.len();
        tally.exact += usize::from(closure.len() == theirs.len());
    }
    let outputs = ours.outputs();
    let names: BTreeSet<&String> = outputs.iter().map(|output| &output.name).collect();
    if names != answer.outputs.keys().collect() {
        tally.wrong.push(format!("{name}: outputs {names:?}"));
    }
    for output in &outputs {
        let closure = text(&ours.closure(&output.dependencies));
        let Some(theirs) = answer.outputs.get(&output.name) else {
            continue;
        };
        let missing: Vec<_> = theirs.difference(&closure).collect();
        if !missing.is_empty() {
            tally.wrong.push(format!(
                "{name}: output {} also needs {missing:?}",
                output.name
            ));
        }
        tally.outputs += 1;
        tally.outputs_exact += usize::from(closure.len() == theirs.len());
    }
}

/// Fails unless the analysis of `directory` is what Terraform says, and exactly that.
pub(crate) fn assert_agrees(name: &str, directory: &Path) {
    let tally = Mutex::new(Tally::default());
    compare(name, directory, &tally);
    let tally = tally.into_inner().expect("no comparison panicked");
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert_eq!(
        (tally.ours, tally.outputs),
        (tally.theirs, tally.outputs_exact),
        "{name}"
    );
}

fn run(seeds: std::ops::Range<u64>) {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(seeds.start);
    // Two at a time: each is a handful of Terraform processes.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let directory = tempfile::tempdir().unwrap();
                    write(directory.path(), &generate::configuration(seed));
                    compare(&format!("seed {seed}"), directory.path(), &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!(
        "{} configurations, {} resources: closures {} (Terraform {}), {} exact; \
         {} of {} outputs exact",
        tally.configurations,
        tally.resources,
        tally.ours,
        tally.theirs,
        tally.exact,
        tally.outputs_exact,
        tally.outputs
    );
    assert!(
        tally.wrong.is_empty(),
        "{} faults:\n{}",
        tally.wrong.len(),
        tally.wrong.join("\n")
    );
    // Far too much would be safe and useless.
    assert!(
        tally.ours * 100 <= tally.theirs * 105,
        "closures are more than 5 % too large"
    );
}

#[test]
fn generated_configurations_depend_on_what_terraform_says() {
    run(0..100);
}

/// `KL_ORACLE_SEEDS=from..to` chooses others.
#[test]
#[ignore = "takes minutes: a thousand configurations"]
fn a_thousand_generated_configurations_depend_on_what_terraform_says() {
    let seeds = std::env::var("KL_ORACLE_SEEDS").unwrap_or_else(|_| "1000..2000".to_owned());
    let (from, to) = seeds.split_once("..").expect("from..to");
    run(from.parse().unwrap()..to.parse().unwrap());
}
