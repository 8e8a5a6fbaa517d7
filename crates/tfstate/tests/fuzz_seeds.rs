//! The fuzz targets' checks over mutated seeds, a bounded number of times, so that every build
//! runs them without a nightly compiler.

mod support;

#[path = "../../../fuzz/src/checks.rs"]
#[expect(
    unreachable_pub,
    reason = "the functions are the fuzz crate's public ones"
)]
mod checks;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{corpus_file, shared, state};

/// Small seeds of every kind: large ones only slow the search down.
fn documents() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for folder in ["corpus/states", "cases/files"] {
        for entry in std::fs::read_dir(shared(folder)).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            let wanted = path
                .extension()
                .is_some_and(|ext| ext == "tfstate" || ext == "json");
            if !wanted {
                continue;
            }
            let bytes = std::fs::read(path).expect("a seed is readable");
            if bytes.len() < 8 * 1024 {
                seeds.push(bytes);
            }
        }
    }
    assert!(seeds.len() > 40, "{} seeds", seeds.len());
    seeds
}

/// One edit of a seed: put bytes over, in or out at a place, or repeat a stretch.
#[derive(Clone, Debug)]
enum Edit {
    Over(prop::sample::Index, Vec<u8>),
    In(prop::sample::Index, Vec<u8>),
    Out(prop::sample::Index, usize),
    Again(prop::sample::Index, usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "null",
        "true",
        "-0",
        "1e400",
        "4",
        "\n",
        " ",
        "\"index_key\": 1,",
        "\"deposed\": \"0123abcd\",",
        "\"instances\": []",
        "\"serial\": 1,",
        "\"Serial\": 2,",
        "\"module\": \"module.a[0]\",",
        "\u{2028}",
        "$${",
        "%{",
    ];
    let token = prop::sample::select(tokens.map(|token| token.as_bytes().to_vec()).to_vec());
    let bytes = prop_oneof![3 => token, 1 => prop::collection::vec(any::<u8>(), 1..4)];
    let place = any::<prop::sample::Index>;
    let edit = prop_oneof![
        (place(), bytes.clone()).prop_map(|(place, bytes)| Edit::Over(place, bytes)),
        (place(), bytes).prop_map(|(place, bytes)| Edit::In(place, bytes)),
        (place(), 1..80_usize).prop_map(|(place, length)| Edit::Out(place, length)),
        (place(), 1..400_usize).prop_map(|(place, length)| Edit::Again(place, length)),
    ];
    prop::collection::vec(edit, 0..4)
}

fn edited(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut data = seed.to_vec();
    for edit in edits {
        let (Edit::Over(place, _)
        | Edit::In(place, _)
        | Edit::Out(place, _)
        | Edit::Again(place, _)) = edit;
        let start = place.index(data.len() + 1);
        let until = |length: usize| (start + length).min(data.len());
        match edit {
            Edit::Over(_, bytes) => {
                drop(data.splice(start..until(bytes.len()), bytes.iter().copied()))
            }
            Edit::In(_, bytes) => drop(data.splice(start..start, bytes.iter().copied())),
            Edit::Out(_, length) => drop(data.drain(start..until(*length))),
            Edit::Again(_, length) => {
                let stretch = data[start..until(*length)].to_vec();
                drop(data.splice(start..start, stretch));
            }
        }
    }
    data
}

fn run(seeds: Vec<Vec<u8>>, cases: u32, check: fn(&[u8])) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (prop::sample::select(seeds), edits());
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&strategy, |(seed, edits)| {
        check(&edited(&seed, &edits));
        Ok(())
    })
    .expect("the property holds");
}

#[test]
fn documents_hold_together() {
    let seeds = documents();
    seeds.iter().for_each(|seed| checks::document(seed));
    run(seeds, 4000, checks::document);
}

#[test]
fn addresses_hold_together() {
    let texts = include_str!("data/printed_keys.json");
    let pairs: Vec<(String, String)> = serde_json::from_str(texts).unwrap();
    let mut seeds: Vec<_> = pairs
        .into_iter()
        .map(|(_, line)| line.into_bytes())
        .collect();
    seeds.push(b"module.a[\"x\"].module.b[0].data.c.d[\"e\"]".to_vec());
    run(seeds, 20_000, checks::address);
}

#[test]
fn stored_forms_hold_together() {
    let bytes = corpus_file("203-made-deposed-many.tfstate");
    let split = state(&bytes);
    let mut seeds: Vec<Vec<u8>> = split.instances.iter().map(|row| row.ord.to_vec()).collect();
    let pairs: Vec<_> = seeds
        .iter()
        .zip(seeds.iter().skip(1))
        .map(|(a, b)| [&a[..], b].concat())
        .collect();
    seeds.extend(pairs);
    seeds.push(split.header.encode());
    run(seeds, 20_000, checks::rows);
}

#[test]
fn members_hold_together() {
    let bytes = corpus_file("104-github-1.15-identity.tfstate");
    let split = state(&bytes);
    let mut seeds: Vec<Vec<u8>> = split
        .instances
        .iter()
        .map(|row| row.body.to_vec())
        .collect();
    seeds.push(br#""a\u003c\ud83d\ude00\n""#.to_vec());
    seeds.push(br#"["a", "b", {"c": [1, 2]}]"#.to_vec());
    run(seeds, 10_000, checks::members);
}
