//! Damaged files: nothing panics, nothing hangs, and what is unread is said to be.

use std::{
    fs,
    time::{Duration, Instant},
};

use config_scope::{Configuration, MemoryTree};

use crate::support::{
    generate::{Rng, configuration},
    shared::{directories, entries},
};

/// Far more than any of these texts takes, also on a busy machine without optimisation.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pieces that change how the rest is read.
pub(crate) const PIECES: &[&str] = &[
    "\"",
    "${",
    "%{",
    "}",
    "{",
    "(",
    "[",
    "<<EOT\n",
    "<<-EOT\n",
    "\nEOT\n",
    "/*",
    "*/",
    "#",
    "=",
    "%{ for x in ",
    "%{ if ",
    "%{ endfor }",
    "%{ else }",
    "\\",
    "\\u12",
    "$${",
    "\r\n",
    "\u{a0}",
    "\u{feff}",
    "..",
    "...",
    "::",
    "0",
    ".0",
    "[*]",
    "for ",
    "resource \"a\" \"b\" {\n",
    "\0",
    "é",
];

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for directory in directories("corpus/configs").into_iter().step_by(3) {
        for path in entries(&directory) {
            let is_json = path
                .extension()
                .is_some_and(|extension| extension == "json");
            let name = if is_json { "x.tf.json" } else { "x.tf" };
            let bytes = fs::read(path).expect("a readable file");
            if bytes.len() < 6_000 {
                seeds.push((name, bytes));
            }
        }
    }
    for seed in 0..20 {
        for (path, text) in configuration(seed) {
            let name = if path.ends_with(".json") {
                "x.tf.json"
            } else {
                "x.tf"
            };
            seeds.push((name, text.into_bytes()));
        }
    }
    seeds
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(40)).min(bytes.len());
        match rng.below(5) {
            0 => _ = bytes.drain(at..end),
            1 => {
                let piece = bytes[at..end].to_vec();
                let to = rng.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            2 if at < bytes.len() => bytes[at] = rng.below(256) as u8,
            _ => {
                let piece = rng.pick(PIECES).bytes();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Loads one file as a configuration; what it declares must be asked without a panic too.
fn survive(name: &str, bytes: &[u8]) {
    let mut tree = MemoryTree::new();
    tree.insert(name, bytes);
    let started = Instant::now();
    let loaded = Configuration::load(&tree).expect("a root module");
    for node in loaded.nodes() {
        assert!(node.at.line >= 1);
    }
    _ = loaded.outputs();
    assert!(
        loaded
            .doubts()
            .iter()
            .all(|doubt| doubt.at.line as usize <= bytes.len() + 1),
        "{:?}",
        loaded.doubts()
    );
    let took = started.elapsed();
    assert!(
        took < PATIENCE,
        "{took:?} for {} bytes: {:?}",
        bytes.len(),
        String::from_utf8_lossy(bytes)
    );
}

#[test]
fn mutated_files_are_read_or_refused() {
    let rounds = std::env::var("KL_FUZZ_ROUNDS").map_or(3_000, |rounds| rounds.parse().unwrap());
    let seeds = seeds();
    let mut rng = Rng::new(0x5eed);
    for _ in 0..rounds {
        let (name, mut bytes) = rng.pick(&seeds).clone();
        mutate(&mut rng, &mut bytes);
        survive(name, &bytes);
    }
}

#[test]
fn towers_and_chains_are_read_or_refused() {
    let tower = |open: &str, close: &str, height: usize| {
        format!(
            "locals {{\n  a = {}1{}\n}}\n",
            open.repeat(height),
            close.repeat(height)
        )
    };
    let mut texts = Vec::new();
    for height in [10, 60, 70, 1_000, 20_000] {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{a=", "}"),
            ("\"${", "}\""),
            ("f(", ")"),
            ("!", ""),
            ("-", ""),
            ("1+", ""),
            ("x?1:", ""),
            ("[for x in ", ": x]"),
            ("\"%{if x}", "%{endif}\""),
            ("a.", ""),
            ("a[", "]"),
        ] {
            texts.push(tower(open, close, height));
        }
        texts.push("a {\n".repeat(height) + &"}\n".repeat(height));
        texts.push("%{ if x }".repeat(height));
        texts.push(format!("locals {{ a = \"{}\" }}", "${a}".repeat(height)));
        texts.push(format!(
            "locals {{\n a = <<E\n{}\nE\n}}",
            "E x\n".repeat(height)
        ));
        texts.push("locals {\n a = <<E\nE\n}\n".repeat(height.min(200)));
        texts.push(format!(
            "locals {{\n a = {{{}}}\n}}",
            "k = 1, ".repeat(height.min(1_000))
        ));
        texts.push("#".repeat(height * 50));
        texts.push("/*".repeat(height));
        texts.push("\n".repeat(height * 50));
    }
    for text in texts {
        survive("x.tf", text.as_bytes());
    }
    for height in [50, 99, 110, 20_000] {
        survive(
            "x.tf.json",
            ("[".repeat(height) + &"]".repeat(height)).as_bytes(),
        );
        let nested = "{\"locals\":".repeat(height) + "1" + &"}".repeat(height);
        survive("x.tf.json", nested.as_bytes());
    }
}
