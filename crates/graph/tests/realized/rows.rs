//! What rows mean.

use graph::{ConfigAddress, Object};

use crate::support::rows::{State, Which};

fn block(text: &str) -> ConfigAddress {
    text.parse().unwrap()
}

#[test]
fn a_block_has_its_instances_in_all_module_instances() {
    let mut state = State {
        seq: 3,
        ..State::default()
    };
    state.add("module.k[\"a.b\"].t.n[0]", &[]);
    state.add("module.k[\"x\"].t.n[1]", &[]);
    state.add("module.k2.t.n", &[]);
    state.add_object(
        "module.k[\"x\"].t.n[1]",
        Which::Deposed("00c0ffee".to_owned()),
        &[],
    );
    let graph = state.graph();
    let mut rows: Vec<_> = graph
        .instances_of(&block("module.k.t.n"))
        .map(|instance| (instance.row.address, instance.row.object))
        .collect();
    rows.sort();
    let expected = [
        ("module.k[\"a.b\"].t.n[0]", Object::Current),
        ("module.k[\"x\"].t.n[1]", Object::Current),
        ("module.k[\"x\"].t.n[1]", Object::Deposed("00c0ffee")),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn lists_of_all_instances_count() {
    let mut state = State {
        seq: 3,
        ..State::default()
    };
    state.add("t.n[0]", &["t.a", "t.b"]);
    state.add("t.n[1]", &["t.b", "t.c", "t.b"]);
    let graph = state.graph();
    assert_eq!(graph.dependencies_of(&block("t.n")), ["t.a", "t.b", "t.c"]);
    assert_eq!(graph.dependents_of(&block("t.b")), ["t.n"]);
    assert!(graph.dependents_of(&block("t.n")).is_empty());
    assert!(graph.dependents_of(&block("t.unheard_of")).is_empty());
}

#[test]
fn a_recorded_instance_stands_for_its_block() {
    let mut state = State {
        seq: 3,
        ..State::default()
    };
    state.add("t.n", &["module.m[\"x\"].t.a[0]", "t.b[\"k\"]"]);
    let graph = state.graph();
    assert_eq!(
        graph.dependencies_of(&block("t.n")),
        ["module.m.t.a", "t.b"]
    );
}
