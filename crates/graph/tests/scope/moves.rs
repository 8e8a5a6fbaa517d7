//! Moves that the state still has before it.

use graph::confidence::Finding;
use graph::scope::{Configuration, Move, Operation, Repetition, ScopeContract, expand};
use tfstate::Address;

use crate::support::config::{self, configuration, request, target};
use crate::support::rows::State;

fn state(addresses: &[&str]) -> State {
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for address in addresses {
        state.add(address, &[]);
    }
    state
}

fn scope(state: &State, known: &Configuration, write: &[&str]) -> ScopeContract {
    expand(&state.graph(), &request(known, write))
}

fn written(contract: &ScopeContract) -> Vec<String> {
    contract
        .write_targets
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_chain_of_moves_brings_all_its_ends() {
    // Seen with Terraform 1.11: a target at the end, or one that depends on it, is refused unless
    // both ends of the chain are targeted.
    let mut known = configuration(&[("t.b3", &[]), ("t.z", &[]), ("t.u", &["t.b3"])]);
    config::moved(&mut known, "t.b2", "t.b3");
    config::moved(&mut known, "t.b", "t.b2");
    let state = state(&["t.b", "t.z"]);
    for target in ["t.b3", "t.b", "t.u"] {
        let contract = scope(&state, &known, &[target]);
        let mut ends = written(&contract);
        ends.retain(|text| text != "t.u");
        ends.sort();
        assert_eq!(ends, ["t.b", "t.b2", "t.b3"], "{target}");
        assert_eq!(contract.write_addresses, ["t.b"], "{target}");
        assert_eq!(contract.confidence.as_str(), "widened", "{target}");
    }
    let contract = scope(&state, &known, &["t.z"]);
    assert_eq!(written(&contract), ["t.z"]);
    assert!(contract.moves.is_empty());
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn a_move_that_was_made_or_cannot_be_made_widens_nothing() {
    let mut known = configuration(&[("t.b", &[])]);
    config::moved(&mut known, "t.a", "t.b");
    for addresses in [&["t.b"][..], &["t.a", "t.b"], &[]] {
        let contract = scope(&state(addresses), &known, &["t.b"]);
        assert_eq!(written(&contract), ["t.b"], "{addresses:?}");
        assert!(contract.moves.is_empty(), "{addresses:?}");
    }
}

#[test]
fn a_module_moves_with_all_that_is_in_it() {
    let mut known = configuration(&[("module.n.t.r", &["t.net"]), ("t.net", &[])]);
    config::repeat_call(&mut known, "module.n", Repetition::ForEach);
    config::moved(&mut known, "module.a", "module.n[\"k\"]");
    let state = state(&["module.a.t.r", "module.a.module.in.t.s", "t.net"]);
    let contract = scope(&state, &known, &["module.n"]);
    assert_eq!(written(&contract), ["module.n", "module.a"]);
    assert_eq!(
        contract.write_addresses,
        ["module.a.module.in.t.s", "module.a.t.r"]
    );
    assert_eq!(contract.read_addresses, ["t.net"]);
    assert_eq!(
        scope(&state, &known, &["t.net"]).confidence.as_str(),
        "safe"
    );
}

#[test]
fn a_whole_target_needs_no_widening_for_a_move_between_its_keys() {
    let mut known = configuration(&[("t.a", &[]), ("t.user", &["t.a"])]);
    config::repeat(&mut known, "t.a", Repetition::ForEach);
    config::moved(&mut known, "t.a[0]", "t.a[\"x\"]");
    let state = state(&["t.a[0]"]);
    let contract = scope(&state, &known, &["t.a"]);
    assert_eq!(contract.confidence.as_str(), "safe");
    assert_eq!(contract.moves.len(), 1);
    // One that only depends on it makes Terraform move, and so write, the object.
    let contract = scope(&state, &known, &["t.user"]);
    assert_eq!(contract.write_addresses, ["t.a[0]"]);
    assert_eq!(contract.confidence.as_str(), "widened");
}

#[test]
fn destroying_never_takes_along_the_other_end_of_a_move() {
    let mut known = configuration(&[("t.b", &[]), ("t.user", &["t.b"])]);
    config::moved(&mut known, "t.a", "t.b");
    let state = state(&["t.a", "t.user"]);
    let destroy = |write: &[&str]| {
        let mut asked = request(&known, write);
        asked.operation = Operation::Destroy;
        expand(&state.graph(), &asked)
    };
    for targets in [&["t.user"][..], &["t.b"], &["t.a"]] {
        let contract = destroy(targets);
        assert_eq!(written(&contract), targets);
        assert_eq!(contract.confidence.as_str(), "unsafe", "{targets:?}");
    }
    let refused = destroy(&["t.b"]).findings;
    assert!(
        refused.contains(&Finding::Unmovable("t.a".to_owned())),
        "{refused:?}"
    );
    let contract = destroy(&["t.a", "t.b"]);
    assert_eq!(contract.write_addresses, ["t.a", "t.user"]);
    assert_eq!(contract.confidence.as_str(), "widened");
}

#[test]
fn destroying_refuses_what_changes_its_keys() {
    let mut known = configuration(&[("t.a", &[]), ("t.user", &["t.a"]), ("t.needed", &[])]);
    known.nodes[1]
        .dependencies
        .push("t.needed".parse().unwrap());
    config::repeat(&mut known, "t.a", Repetition::Count);
    let mut asked = request(&known, &["t.user"]);
    asked.operation = Operation::Destroy;
    let contract = expand(&state(&["t.a", "t.user"]).graph(), &asked);
    assert_eq!(contract.write_addresses, ["t.user"]);
    assert_eq!(contract.findings, [Finding::Unmovable("t.a".to_owned())]);
    // What is not deployed will not be created by destroying something.
    assert_eq!(contract.config_required_nodes, ["t.needed"]);
}

#[test]
fn objects_are_relocated_as_terraform_does() {
    for (from, to, address, expected) in [
        ("t.a", "t.b", "t.a", Some("t.b")),
        ("t.a", "t.b", "t.a[3]", Some("t.b[3]")),
        ("t.a", "t.b", "data.t.a", None),
        ("t.a", "t.b", "module.m.t.a", None),
        ("t.a", "u.b", "t.a[\"k\"]", Some("u.b[\"k\"]")),
        ("t.a[0]", "t.b[\"k\"]", "t.a[0]", Some("t.b[\"k\"]")),
        ("t.a[0]", "t.b[\"k\"]", "t.a[1]", None),
        ("t.a", "t.a[\"k\"]", "t.a", Some("t.a[\"k\"]")),
        ("t.a", "t.a[\"k\"]", "t.a[\"z\"]", None),
        ("t.a[0]", "t.a", "t.a[0]", Some("t.a")),
        ("t.a", "module.m.t.a", "t.a[0]", Some("module.m.t.a[0]")),
        (
            "module.m.t.a",
            "module.m.t.b",
            "module.m[\"x\"].t.a",
            Some("module.m[\"x\"].t.b"),
        ),
        ("module.m.t.a", "t.a", "module.m.t.a", Some("t.a")),
        ("module.m[0].t.a", "t.a", "module.m[1].t.a", None),
        (
            "module.a",
            "module.b",
            "module.a[0].t.r",
            Some("module.b[0].t.r"),
        ),
        ("module.a", "module.b", "module.a2.t.r", None),
        (
            "module.a",
            "module.a[\"k\"]",
            "module.a.t.r",
            Some("module.a[\"k\"].t.r"),
        ),
        ("module.a", "module.a[\"k\"]", "module.a[\"k\"].t.r", None),
        (
            "module.a[0]",
            "module.b",
            "module.a[0].module.c.t.r[1]",
            Some("module.b.module.c.t.r[1]"),
        ),
        (
            "module.p.module.a",
            "module.p.module.b",
            "module.p[7].module.a.t.r",
            Some("module.p[7].module.b.t.r"),
        ),
        ("module.a", "t.a", "module.a.t.a", None),
    ] {
        let one = Move {
            from: target(from),
            to: target(to),
        };
        let address: Address = address.parse().unwrap();
        let moved = one.relocate(&address).map(|moved| moved.to_string());
        assert_eq!(moved.as_deref(), expected, "{from} to {to}: {address}");
    }
}
