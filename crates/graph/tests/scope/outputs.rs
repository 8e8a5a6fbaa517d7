//! Which outputs a scope decides about.

use graph::confidence::Finding;
use graph::scope::{OutputBeyond, expand};

use crate::support::config::{self, configuration, request};
use crate::support::rows::State;

#[test]
fn an_output_belongs_to_a_scope_with_all_or_with_nothing() {
    let mut known = configuration(&[("t.a", &[]), ("t.b", &["t.a"]), ("t.c", &[])]);
    config::output(&mut known, "a", &["t.a"]);
    config::output(&mut known, "ab", &["t.a", "t.b"]);
    config::output(&mut known, "bc", &["t.b", "t.c", "t.gone"]);
    config::output(&mut known, "c", &["t.c"]);
    // What it depends on in the scope is only read: nothing about it can go out of date.
    config::output(&mut known, "ac", &["t.a", "t.c"]);
    config::output(&mut known, "fixed", &[]);
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for address in ["t.a", "t.b", "t.c"] {
        state.add(address, &[]);
    }
    let contract = expand(&state.graph(), &request(&known, &["t.b"]));
    assert_eq!(contract.outputs.inside, ["a", "ab"]);
    assert_eq!(contract.outputs.written, ["ab"]);
    let outside = vec!["t.c".to_owned(), "t.gone".to_owned()];
    assert_eq!(
        contract.outputs.beyond,
        [OutputBeyond {
            name: "bc".to_owned(),
            outside
        }]
    );
    assert_eq!(contract.findings, [Finding::OutputBeyond("bc".to_owned())]);
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn an_output_of_something_that_depends_on_a_write_may_change() {
    // A cycle arises when a recorded dependency was turned round in the configuration.
    let mut known = configuration(&[("t.a", &["t.b"]), ("t.b", &[]), ("t.c", &["t.a"])]);
    config::output(&mut known, "b", &["t.b"]);
    config::output(&mut known, "c", &["t.c"]);
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    state.add("t.a", &[]);
    state.add("t.b", &["t.a"]);
    state.add("t.c", &["t.a"]);
    let contract = expand(&state.graph(), &request(&known, &["t.a", "t.c"]));
    assert_eq!(contract.outputs.written, ["b", "c"]);
}
