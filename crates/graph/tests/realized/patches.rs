//! Graphs that follow a state from version to version.

use std::collections::BTreeSet;

use graph::{ConfigAddress, GraphError, Patch, RealizedGraph, RowRef, Seq};

use crate::support::rows::{self, Name, Row, State, Which};
use crate::support::{Rng, random};

const STATE: [u8; 16] = [7; 16];

/// Changes some rows of `state` and brings `graph` along.
fn step(rng: &mut Rng, state: &mut State, graph: RealizedGraph) -> RealizedGraph {
    let from = Seq(state.seq);
    state.seq += 1 + rng.below(3) as u64;
    let mut closed: BTreeSet<Name> = BTreeSet::new();
    for name in state.rows.keys() {
        if rng.one_in(6) {
            closed.insert(name.clone());
        }
    }
    let mut born: Vec<(Name, Row)> = Vec::new();
    for _ in 0..rng.below(12) {
        let (name, row) = random::row(rng, state.seq);
        if born.iter().any(|(other, _)| *other == name) {
            continue;
        }
        if state.rows.contains_key(&name) {
            closed.insert(name.clone());
        }
        born.push((name, row));
    }
    state.rows.retain(|name, _| !closed.contains(name));
    state.rows.extend(born.iter().cloned());
    let closed: Vec<RowRef<'_>> = closed.iter().map(rows::row_ref).collect();
    let born: Vec<_> = born
        .iter()
        .map(|(name, row)| rows::borrowed(name, row))
        .collect();
    let to = Seq(state.seq);
    graph
        .patched(&Patch {
            from,
            to,
            closed: &closed,
            born: &born,
        })
        .unwrap()
}

#[test]
fn a_patched_graph_is_the_graph_built_anew() {
    for seed in 0..150 {
        let mut rng = Rng(seed);
        let rows = rng.below(60);
        let mut state = random::state(&mut rng, rows);
        let mut graph = state.graph();
        // One that was read has no table of its rows until many are looked up.
        if rng.one_in(2) {
            graph = RealizedGraph::decode(&graph.encode(STATE), STATE, 1 << 24).unwrap();
        }
        for _ in 0..12 {
            let (before, text) = (graph.clone(), graph.encode(STATE));
            graph = step(&mut rng, &mut state, graph);
            assert_eq!(before.encode(STATE), text, "a copy shares the change");
            assert_eq!(graph.seq(), Seq(state.seq));
            assert_eq!(
                graph.encode(STATE),
                state.graph().encode(STATE),
                "seed {seed}"
            );
        }
        assert_answers(&graph, &state);
    }
}

#[test]
fn a_graph_that_was_patched_very_often_is_packed_and_stays_the_same() {
    let mut rng = Rng(1);
    let mut state = random::state(&mut rng, 200);
    let mut graph = state.graph();
    for _ in 0..200 {
        graph = step(&mut rng, &mut state, graph);
    }
    assert_eq!(graph.encode(STATE), state.graph().encode(STATE));
    assert_answers(&graph, &state);
}

#[test]
fn graphs_of_one_shape_have_the_same_edges() {
    let (mut alike, mut unlike) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let mut state = random::state(&mut rng, 30);
        let before = state.graph();
        let unchanged = state.clone();
        // Each row that changes gets another attribute, and few of them other dependencies, also those of another one.
        let rows: Vec<(Name, Row)> = state
            .rows
            .iter()
            .map(|(name, row)| (name.clone(), row.clone()))
            .collect();
        state.seq += 1;
        let mut changed: Vec<(Name, Row)> = Vec::new();
        for (name, row) in &rows {
            if rng.one_in(8) {
                let dependencies = match rng.below(8) {
                    0 => rng.pick(&rows).1.dependencies.clone(),
                    1 => Vec::new(),
                    _ => row.dependencies.clone(),
                };
                let born = state.seq;
                let row = Row {
                    dependencies,
                    born,
                    ..row.clone()
                };
                changed.push((name.clone(), row));
            }
        }
        state.rows.extend(changed.iter().cloned());
        let closed: Vec<RowRef<'_>> = changed
            .iter()
            .map(|(name, _)| rows::row_ref(name))
            .collect();
        let born: Vec<_> = changed
            .iter()
            .map(|(name, row)| rows::borrowed(name, row))
            .collect();
        let patch = Patch {
            from: before.seq(),
            to: Seq(state.seq),
            closed: &closed,
            born: &born,
        };
        let after = before.clone().patched(&patch).unwrap();
        if after.has_shape_of(&before) {
            alike += 1;
            assert_eq!(edges(&state), edges(&unchanged), "seed {seed}");
            assert_eq!(after.managed_blocks(), before.managed_blocks());
        } else {
            unlike += 1;
        }
        // A row that comes or goes is another shape, and so is a graph of its own.
        let one = &closed[..closed.len().min(1)];
        let gone = before.clone().patched(&Patch {
            closed: one,
            born: &[],
            ..patch
        });
        assert_eq!(gone.unwrap().has_shape_of(&before), one.is_empty());
        assert!(!state.graph().has_shape_of(&before));
    }
    assert!(alike > 50 && unlike > 50, "{alike} {unlike}");
}

/// Each block with the dependency lists of its rows.
fn edges(state: &State) -> Vec<(&str, BTreeSet<&str>)> {
    let mut edges: Vec<_> = state
        .rows
        .values()
        .map(|row| {
            let dependencies = row.dependencies.iter().map(String::as_str);
            (row.config_address.as_str(), dependencies.collect())
        })
        .collect();
    edges.sort_unstable();
    edges
}

/// Asks the graph everything and compares with a look through all rows.
fn assert_answers(graph: &RealizedGraph, state: &State) {
    assert_eq!(graph.instance_count(), state.rows.len());
    let all: BTreeSet<Name> = graph
        .instances()
        .map(|instance| name(instance.row))
        .collect();
    assert!(all.iter().eq(state.rows.keys()));
    let blocks = state.rows.values().flat_map(|row| {
        let named = row.dependencies.iter();
        named.chain([&row.config_address]).cloned()
    });
    for block in blocks.collect::<BTreeSet<String>>() {
        let address: ConfigAddress = block.parse().unwrap();
        let of_block = || {
            state
                .rows
                .iter()
                .filter(|(_, row)| row.config_address == block)
        };
        let instances: BTreeSet<(Name, u64)> = graph
            .instances_of(&address)
            .map(|instance| (name(instance.row), instance.born.0))
            .collect();
        let expected: BTreeSet<(Name, u64)> = of_block()
            .map(|(name, row)| (name.clone(), row.born))
            .collect();
        assert_eq!(instances, expected, "{block}");
        let dependencies: BTreeSet<&str> = of_block()
            .flat_map(|(_, row)| row.dependencies.iter().map(String::as_str))
            .collect();
        assert!(
            graph.dependencies_of(&address).into_iter().eq(dependencies),
            "{block}"
        );
        let dependents: BTreeSet<&str> = state
            .rows
            .values()
            .filter(|row| row.dependencies.contains(&block))
            .map(|row| row.config_address.as_str())
            .collect();
        assert!(
            graph.dependents_of(&address).into_iter().eq(dependents),
            "{block}"
        );
    }
}

fn name(row: RowRef<'_>) -> Name {
    let object = match row.object {
        graph::Object::Current => Which::Current,
        graph::Object::Deposed(key) => Which::Deposed(key.to_owned()),
        graph::Object::Shell => Which::Shell,
    };
    (row.address.to_owned(), object)
}

#[test]
fn a_patch_for_another_version_is_refused() {
    let mut state = State {
        seq: 5,
        ..State::default()
    };
    state.add("t.a", &[]);
    let patch = |from, to| Patch {
        from: Seq(from),
        to: Seq(to),
        closed: &[],
        born: &[],
    };
    for (from, to) in [(4, 6), (6, 7), (5, 5), (5, 4)] {
        let refused = state
            .graph()
            .patched(&patch(from, to))
            .map(|graph| graph.seq());
        let expected = GraphError::WrongVersion {
            from: Seq(from),
            seq: Seq(5),
        };
        assert_eq!(refused, Err(expected), "{from} to {to}");
    }
    // After a restored database numbers jump.
    assert_eq!(
        state.graph().patched(&patch(5, 1_005)).unwrap().seq(),
        Seq(1_005)
    );
}

#[test]
fn a_patch_that_does_not_fit_the_rows_is_refused() {
    let mut state = State {
        seq: 5,
        ..State::default()
    };
    state.add("t.a", &[]);
    let row = &state.rows[&("t.a".to_owned(), Which::Current)];
    let there = ("t.a".to_owned(), Which::Current);
    let deposed = ("t.a".to_owned(), Which::Deposed("0000abcd".to_owned()));
    let patched = |closed: &[RowRef<'_>], born: &[_]| {
        let patch = Patch {
            from: Seq(5),
            to: Seq(6),
            closed,
            born,
        };
        state
            .graph()
            .patched(&patch)
            .map(|graph| graph.instance_count())
    };
    let not_there = patched(&[rows::row_ref(&deposed)], &[]);
    assert!(matches!(not_there, Err(GraphError::NotThere { row }) if row.contains("0000abcd")));
    let twice = patched(&[], &[rows::borrowed(&there, row)]);
    assert!(matches!(twice, Err(GraphError::Twice { row }) if row == "t.a"));
    let replaced = patched(&[rows::row_ref(&there)], &[rows::borrowed(&there, row)]);
    assert_eq!(replaced, Ok(1));
    let mut later = row.clone();
    later.born = 7;
    let unborn = patched(&[], &[rows::borrowed(&deposed, &later)]);
    assert!(matches!(unborn, Err(GraphError::Unborn { .. })));
}
