//! What a scope claims.

use graph::claims::{Access, NodeMode};
use graph::scope::{Configuration, Repetition, ScopeContract, expand};

use crate::support::config::{self, configuration, request};
use crate::support::rows::State;

fn world() -> (State, Configuration) {
    let mut known = configuration(&[
        ("t.net", &[]),
        ("t.cnt", &["t.net"]),
        ("module.plain.t.a", &["t.net"]),
        ("module.plain.t.b", &["module.plain.t.a"]),
        ("module.keyed.t.a", &["t.net"]),
        ("module.keyed.module.in.t.b", &["module.keyed.t.a"]),
        (
            "t.user",
            &["module.keyed.module.in.t.b", "module.plain.t.b"],
        ),
    ]);
    config::repeat(&mut known, "t.cnt", Repetition::Count);
    config::repeat_call(&mut known, "module.keyed", Repetition::ForEach);
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for address in [
        "t.net",
        "t.cnt[0]",
        "t.cnt[1]",
        "module.plain.t.a",
        "module.plain.t.b",
        "module.keyed[\"k\"].t.a",
        "module.keyed[\"k\"].module.in.t.b",
        "t.user",
    ] {
        state.add(address, &[]);
    }
    (state, known)
}

fn claimed(contract: &ScopeContract) -> Vec<String> {
    let claims = contract.reservation_candidates.iter();
    claims
        .map(|(path, access)| format!("{access} {path}"))
        .collect()
}

#[test]
fn what_is_written_is_claimed_as_targeted_and_what_is_read_as_blocks() {
    let (state, known) = world();
    for (target, expected) in [
        ("t.cnt", &["write t.cnt", "read t.net"][..]),
        ("t.cnt[1]", &["read t.cnt", "write t.cnt[1]", "read t.net"]),
        (
            "module.plain.t.a",
            &["write module.plain.t.a", "read t.net"],
        ),
        (
            "module.plain.t.b",
            &[
                "read module.plain.t.a",
                "write module.plain.t.b",
                "read t.net",
            ],
        ),
        ("module.plain", &["write module.plain", "read t.net"]),
        (
            "module.keyed[\"k\"].t.a",
            &["write module.keyed", "read t.net"],
        ),
        (
            "module.keyed.module.in",
            &["write module.keyed", "read t.net"],
        ),
        (
            "t.user",
            &[
                "read module.keyed",
                "read module.plain.t.a",
                "read module.plain.t.b",
                "read t.net",
                "write t.user",
            ],
        ),
    ] {
        let contract = expand(&state.graph(), &request(&known, &[target]));
        assert_eq!(claimed(&contract), expected, "{target}");
    }
}

#[test]
fn reading_all_keys_and_writing_one_is_six_on_the_resource() {
    let (state, known) = world();
    let contract = expand(&state.graph(), &request(&known, &["t.cnt[1]"]));
    let nodes = contract.reservation_candidates.nodes();
    let hash = graph::claims::NodeHash::of(&"t.cnt".parse().unwrap());
    assert_eq!(nodes.mode(hash), Some(NodeMode::Six));
}

#[test]
fn scopes_that_share_only_reads_run_side_by_side() {
    let (state, known) = world();
    let nodes = |target: &str| {
        let contract = expand(&state.graph(), &request(&known, &[target]));
        contract.reservation_candidates.nodes()
    };
    assert!(!nodes("t.cnt").conflict(&nodes("module.plain")));
    assert!(nodes("t.net").conflict(&nodes("module.plain")));
    assert!(nodes("t.user").conflict(&nodes("module.keyed[\"new\"]")));
    assert!(nodes("t.cnt[0]").conflict(&nodes("t.cnt[1]")));
}

#[test]
fn outputs_that_may_change_are_claimed() {
    let (state, mut known) = world();
    config::output(&mut known, "user", &["t.user"]);
    config::output(&mut known, "net", &["t.net"]);
    config::output(&mut known, "plain", &["module.plain.t.b"]);
    let contract = expand(
        &state.graph(),
        &request(&known, &["module.plain.t.a", "t.user"]),
    );
    assert_eq!(contract.outputs.inside, ["net", "plain", "user"]);
    assert_eq!(contract.outputs.written, ["plain", "user"]);
    let grants = |text: &str| {
        contract
            .reservation_candidates
            .grants(&text.parse().unwrap(), Access::Write)
    };
    assert!(grants("output.user") && grants("output.plain") && !grants("output.net"));
}
