//! Generated configurations against Terraform's own graph.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    mutations,
    support::{
        generate,
        oracle::{self, Question},
        shared::put,
    },
};
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
    /// What Terraform takes and the analysis does not, and says so.
    refused: Vec<String>,
}

pub(crate) fn write(directory: &Path, files: &generate::Files) {
    for (path, text) in files {
        put(&directory.join(path), text.as_bytes());
    }
}

fn text(addresses: &BTreeSet<ConfigAddress>) -> BTreeSet<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// What the comparison makes of a configuration that one side does not take.
#[derive(Clone, Copy, PartialEq)]
enum Refusal {
    IsWrong,
    IsSkipped,
}

/// Adds the comparison of one directory to the tally.
fn compare(
    name: &str,
    directory: &Path,
    tally: &Mutex<Tally>,
    question: Question,
    refusal: Refusal,
) {
    let answer = match oracle::ask(directory, question) {
        Ok(answer) => answer,
        Err(_) if refusal == Refusal::IsSkipped => return,
        Err(error) => {
            tally
                .lock()
                .expect("no comparison panicked")
                .wrong
                .push(format!("{name}: {error}"));
            return;
        }
    };
    let ours =
        Configuration::load(&DiskTree::new(directory, ".terraform")).expect("what Terraform takes");
    let mut tally = tally.lock().expect("no comparison panicked");
    tally.configurations += 1;
    if refusal == Refusal::IsSkipped && !ours.doubts().is_empty() {
        tally
            .refused
            .extend(ours.doubts().iter().map(|doubt| format!("{name}: {doubt}")));
        return;
    }
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
    let Some(expected) = answer.outputs else {
        return;
    };
    let outputs = ours.outputs();
    let names: BTreeSet<&String> = outputs.iter().map(|output| &output.name).collect();
    if names != expected.keys().collect() {
        tally.wrong.push(format!("{name}: outputs {names:?}"));
    }
    for output in &outputs {
        let closure = text(&ours.closure(&output.dependencies));
        let Some(theirs) = expected.get(&output.name) else {
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
    compare(
        name,
        directory,
        &tally,
        Question::ResourcesAndOutputs,
        Refusal::IsWrong,
    );
    let tally = tally.into_inner().expect("no comparison panicked");
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert_eq!(
        (tally.ours, tally.outputs),
        (tally.theirs, tally.outputs_exact),
        "{name}"
    );
}

/// Compares one configuration for each seed, two at a time: each is a handful of processes.
#[expect(
    clippy::print_stdout,
    reason = "the figures are what a reader of the run wants"
)]
fn run(
    seeds: std::ops::Range<u64>,
    refusal: Refusal,
    files: impl Fn(u64) -> generate::Files + Sync,
) -> Tally {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let directory = tempfile::tempdir().expect("a temporary directory");
                    write(directory.path(), &files(seed));
                    // Outputs are made of the same expressions: a third of the processes saved.
                    let question = match seed % 4 {
                        0 => Question::ResourcesAndOutputs,
                        _ => Question::Resources,
                    };
                    let name = format!("seed {seed}");
                    compare(&name, directory.path(), &tally, question, refusal);
                }
            });
        }
    });
    let tally = tally.into_inner().expect("no comparison panicked");
    println!(
        "{} configurations, {} resources: closures {} (Terraform {}), {} exact; \
         {} of {} outputs exact; {} refused",
        tally.configurations,
        tally.resources,
        tally.ours,
        tally.theirs,
        tally.exact,
        tally.outputs_exact,
        tally.outputs,
        tally.refused.len()
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
    tally
}

/// `KL_ORACLE_SEEDS=from..to`, or the seeds given.
fn chosen_seeds(otherwise: &str) -> std::ops::Range<u64> {
    let seeds = std::env::var("KL_ORACLE_SEEDS").unwrap_or_else(|_| otherwise.to_owned());
    let (from, to) = seeds.split_once("..").expect("from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Pieces that a text often stays legal with.
const MILD: &[&str] = &[
    " ",
    "\t",
    "\n",
    "\r\n",
    "/* terraform_data.decoy */",
    "/*\n*/",
    "# c\n",
    "// ${c}\n",
    "$",
    "%",
    "$$",
    "%%",
    "~",
    "\\n",
    "\\\"",
    "<<EOT\nx\nEOT\n",
    "-",
    "0",
    ".0",
    "[0]",
    ".*",
    "[*]",
    ",",
    ":",
    "EOT\n",
    "\nEOT",
    "E",
    "null",
    "for ",
    " in ",
    " if ",
    "\u{a0}",
    "é",
    "!",
    "()",
    "[]",
    "{}",
    "\"\"",
    "${1}",
    "%{ if true }",
    "%{ endif }",
    "\"",
    "...",
];

/// One file of a generated configuration, slightly changed.
fn mutated(seed: u64) -> generate::Files {
    let mut rng = generate::Rng::new(seed);
    let native = rng.chance(60);
    let layout = if native {
        generate::Layout::Native
    } else {
        generate::Layout::Mixed
    };
    let mut files = generate::configuration_in(seed % 400, layout);
    let paths: Vec<String> = files.keys().cloned().collect();
    let text = files.get_mut(rng.pick(&paths)).expect("one of its own");
    for _ in 0..=rng.below(2) {
        let mut at = rng.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        if rng.chance(20) && !lines.is_empty() {
            let line = rng.below(lines.len());
            *text = lines
                .iter()
                .enumerate()
                .filter(|(place, _)| *place != line)
                .map(|(_, line)| *line)
                .collect();
        } else {
            text.insert_str(
                at,
                rng.pick::<&str>(if native { MILD } else { mutations::PIECES }),
            );
        }
    }
    files
}

#[test]
fn generated_configurations_depend_on_what_terraform_says() {
    run(0..100, Refusal::IsWrong, generate::configuration);
}

/// `KL_ORACLE_SEEDS=from..to` chooses others.
#[test]
#[ignore = "takes minutes: a thousand configurations"]
fn a_thousand_generated_configurations_depend_on_what_terraform_says() {
    run(
        chosen_seeds("1000..2000"),
        Refusal::IsWrong,
        generate::configuration,
    );
}

/// Where both take a damaged text they must read the same in it.
#[test]
#[ignore = "takes minutes: a thousand configurations"]
fn what_terraform_takes_of_mutated_configurations_is_read_as_it_does() {
    let tally = run(chosen_seeds("0..1000"), Refusal::IsSkipped, mutated);
    println!("{}", tally.refused.join("\n"));
}
