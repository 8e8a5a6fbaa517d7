//! Neighbours of a block against a search over rows, and what else is asked of a whole graph.

use std::collections::{BTreeMap, BTreeSet};

use graph::{ConfigAddress, Dependents, Reach};

use crate::support::rows::{State, Which};
use crate::support::{Rng, random};

type Edges = BTreeMap<String, BTreeSet<String>>;

fn edges(state: &State) -> (Edges, Edges) {
    let (mut forwards, mut backwards) = (Edges::new(), Edges::new());
    for row in state.rows.values() {
        for dependency in &row.dependencies {
            let (from, to) = (row.config_address.clone(), dependency.clone());
            forwards.entry(from.clone()).or_default().insert(to.clone());
            backwards.entry(to).or_default().insert(from);
        }
    }
    (forwards, backwards)
}

fn reached(edges: &Edges, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(block) = open.pop() {
        for next in edges.get(&block).into_iter().flatten() {
            if next != from && found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

#[test]
fn neighbours_are_what_rows_record() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let count = rng.below(40);
        let state = random::state(&mut rng, count);
        let graph = state.graph();
        let dependents = Dependents::of(&graph);
        let (forwards, backwards) = edges(&state);
        for block in forwards.keys().chain(backwards.keys()) {
            let address: ConfigAddress = block.parse().unwrap();
            let all = graph.neighbours(&dependents, &address, Reach::Transitive);
            assert!(
                all.dependencies.into_iter().eq(reached(&forwards, block)),
                "seed {seed}"
            );
            assert!(
                all.dependents.into_iter().eq(reached(&backwards, block)),
                "seed {seed}"
            );
            let near = graph.neighbours(&dependents, &address, Reach::Direct);
            for (found, edges) in [
                (near.dependencies, &forwards),
                (near.dependents, &backwards),
            ] {
                let steps = &edges.get(block).cloned().unwrap_or_default();
                let is_direct = |one: &&String| {
                    let others = steps
                        .iter()
                        .filter(|other| *other != *one && *other != block);
                    let mut beyond =
                        others.flat_map(|other| edges.get(other).into_iter().flatten());
                    *one != block && !beyond.any(|further| further == *one)
                };
                let direct: Vec<&String> = steps.iter().filter(is_direct).collect();
                assert!(found.iter().eq(direct), "seed {seed}: {block}");
            }
        }
    }
}

#[test]
fn a_chain_has_one_neighbour_on_each_side() {
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    state.add("t.a", &[]);
    state.add("t.b", &["t.a"]);
    state.add("t.c[0]", &["t.a", "t.b"]);
    state.add("t.c[1]", &["t.a", "t.b"]);
    state.add("t.d", &["t.a", "t.b", "t.c"]);
    let graph = state.graph();
    let dependents = Dependents::of(&graph);
    let neighbours = |block: &str, reach| {
        let found = graph.neighbours(&dependents, &block.parse().unwrap(), reach);
        (found.dependencies.join(" "), found.dependents.join(" "))
    };
    let texts = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(neighbours("t.b", Reach::Direct), texts("t.a", "t.c"));
    assert_eq!(
        neighbours("t.b", Reach::Transitive),
        texts("t.a", "t.c t.d")
    );
    assert_eq!(neighbours("t.none", Reach::Transitive), texts("", ""));
}

#[test]
fn the_managed_blocks_are_those_with_an_object() {
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    state.add("t.b[0]", &["t.gone"]);
    state.add("t.b[1]", &[]);
    state.add("data.t.d", &[]);
    state.add_object("t.shell", Which::Shell, &[]);
    state.add_object("module.m[\"k\"].t.a", Which::Deposed("0".repeat(8)), &[]);
    assert_eq!(state.graph().managed_blocks(), ["module.m.t.a", "t.b"]);
}

#[test]
fn a_graph_knows_about_how_large_it_is() {
    let mut rng = Rng(3);
    let small = random::state(&mut rng, 10).graph().size_bytes();
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for number in 0..10_000 {
        state.add(
            &format!("module.m[\"some key\"].t.name_{number}"),
            &["t.a", "t.b"],
        );
    }
    let large = state.graph().size_bytes();
    assert!(small < 20_000, "{small}");
    // An address of forty bytes, twice, and some numbers.
    assert!((1_000_000..6_000_000).contains(&large), "{large}");
}
