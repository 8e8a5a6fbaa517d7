//! Situations from practice.

use graph::claims::Access;
use graph::confidence::Finding;
use graph::scope::{
    Calls, Operation, Repetition, ScopeContract, ScopeRequest, Target, expand, orphans,
};

use crate::support::config::{self, configuration, request, targets};
use crate::support::rows::{State, Which};

/// Locals, module inputs and depends_on as a client resolves them, before anything was deployed in
/// `module.m` with them: all edges come from the configuration.
fn deps() -> (State, graph::scope::Configuration) {
    let mut known = configuration(&[
        ("t.root", &[]),
        ("t.unrelated", &[]),
        ("t.by_local", &["t.root"]),
        ("t.many", &["t.by_local"]),
        ("t.one_of_many", &["t.many"]),
        ("module.m.t.inner", &["t.many", "t.gate"]),
        ("t.gate", &[]),
        ("t.after_module", &["t.gate"]),
        ("t.checked", &["t.gate"]),
    ]);
    config::repeat(&mut known, "t.many", Repetition::ForEach);
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for address in [
        "t.root",
        "t.unrelated",
        "t.by_local",
        "t.many[\"x\"]",
        "t.many[\"y\"]",
        "t.one_of_many",
        "module.m.t.inner",
        "t.gate",
        "t.after_module",
        "t.checked",
    ] {
        state.add(address, &[]);
    }
    (state, known)
}

#[test]
fn a_target_drags_in_what_terraform_plans_with_it() {
    let (state, known) = deps();
    for (target, fetched) in [
        (
            "module.m",
            &[
                "module.m.t.inner",
                "t.by_local",
                "t.gate",
                "t.many[\"x\"]",
                "t.many[\"y\"]",
                "t.root",
            ][..],
        ),
        ("t.after_module", &["t.after_module", "t.gate"]),
        (
            "t.one_of_many",
            &[
                "t.by_local",
                "t.many[\"x\"]",
                "t.many[\"y\"]",
                "t.one_of_many",
                "t.root",
            ],
        ),
        (
            "t.many[\"x\"]",
            &["t.by_local", "t.many[\"x\"]", "t.many[\"y\"]", "t.root"],
        ),
        ("t.checked", &["t.checked", "t.gate"]),
    ] {
        let contract = expand(&state.graph(), &request(&known, &[target]));
        assert_eq!(contract.fetch_addresses, fetched, "{target}");
        assert_eq!(contract.confidence.as_str(), "safe", "{target}");
    }
}

#[test]
fn an_unknown_target_or_reference_is_unsafe_and_named() {
    let (state, mut known) = deps();
    let contract = expand(
        &state.graph(),
        &request(&known, &["t.nowhere", "t.gate[7]"]),
    );
    assert_eq!(contract.missing_from_state, ["t.gate[7]", "t.nowhere"]);
    assert_eq!(contract.undeployed_candidates, ["t.gate[7]"]);
    assert_eq!(contract.unknown_missing_from_state, ["t.nowhere"]);
    assert_eq!(
        contract.findings,
        [Finding::Unknown("t.nowhere".to_owned())]
    );
    assert_eq!(contract.confidence.as_str(), "unsafe");

    known.nodes[2]
        .dependencies
        .push("module.gone.t.x".parse().unwrap());
    let contract = expand(&state.graph(), &request(&known, &["t.many"]));
    assert_eq!(contract.unknown_missing_from_state, ["module.gone.t.x"]);
    assert!(contract.missing_from_state.is_empty());
    // What is not reached does not matter.
    let contract = expand(&state.graph(), &request(&known, &["t.gate"]));
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn the_client_may_vouch_for_what_is_undeployed_or_removed() {
    let (state, mut known) = deps();
    known.nodes[0]
        .dependencies
        .push("t.undeclared".parse().unwrap());
    let mut asked = request(&known, &["t.nowhere", "t.root"]);
    asked.undeployed = targets(&["t.nowhere", "t.undeclared"]);
    let contract = expand(&state.graph(), &asked);
    assert_eq!(
        contract.undeployed_candidates,
        ["t.nowhere", "t.undeclared"]
    );
    assert_eq!(contract.confidence.as_str(), "safe");
    asked.undeployed.clear();
    asked.removed = targets(&["t.nowhere", "t.undeclared"]);
    let contract = expand(&state.graph(), &asked);
    assert!(contract.undeployed_candidates.is_empty());
    assert_eq!(contract.removed_config_nodes, ["t.nowhere", "t.undeclared"]);
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn nothing_is_proven_without_the_configuration_or_with_doubts() {
    let (state, mut known) = deps();
    let mut asked = ScopeRequest {
        write: targets(&["t.gate"]),
        ..ScopeRequest::default()
    };
    let contract = expand(&state.graph(), &asked);
    assert_eq!(contract.fetch_addresses, ["t.gate"]);
    assert_eq!(contract.findings, [Finding::ConfigurationUnknown]);
    known.doubts.push("main.tf:3: not understood".to_owned());
    asked.configuration = Some(known);
    let contract = expand(&state.graph(), &asked);
    assert_eq!(
        contract.findings,
        [Finding::Doubt("main.tf:3: not understood".to_owned())]
    );
    assert_eq!(contract.confidence.as_str(), "unsafe");
}

#[test]
fn a_recorded_dependency_that_cannot_be_read_is_unsafe() {
    let (mut state, known) = deps();
    let name = ("t.gate".to_owned(), Which::Current);
    state.rows.get_mut(&name).unwrap().dependencies = vec!["what is this?".to_owned()];
    let contract = expand(&state.graph(), &request(&known, &["t.checked"]));
    assert_eq!(
        contract.findings,
        [Finding::Unreadable("what is this?".to_owned())]
    );
    assert_eq!(contract.confidence.as_str(), "unsafe");
}

#[test]
fn a_recorded_dependency_that_is_long_gone_is_not_missed() {
    let (mut state, known) = deps();
    let name = ("t.gate".to_owned(), Which::Current);
    state.rows.get_mut(&name).unwrap().dependencies = vec!["t.long_gone".to_owned()];
    let contract = expand(&state.graph(), &request(&known, &["t.checked"]));
    assert_eq!(contract.fetch_addresses, ["t.checked", "t.gate"]);
    assert_eq!(contract.confidence.as_str(), "safe");
}

fn undeployed_root(change: impl FnOnce(&mut graph::scope::Configuration)) -> ScopeContract {
    let (mut state, mut known) = deps();
    state
        .rows
        .remove(&("t.root".to_owned(), Which::Current))
        .unwrap();
    change(&mut known);
    expand(&state.graph(), &request(&known, &["t.by_local"]))
}

#[test]
fn what_a_target_needs_and_is_not_deployed_will_be_created_and_is_claimed() {
    let contract = undeployed_root(|_| {});
    assert_eq!(contract.config_required_nodes, ["t.root"]);
    assert_eq!(contract.findings, [Finding::Created("t.root".to_owned())]);
    assert_eq!(contract.confidence.as_str(), "widened");
    let root = "t.root".parse().unwrap();
    assert!(contract.reservation_candidates.grants(&root, Access::Write));
}

#[test]
fn a_block_that_is_empty_by_design_is_only_read() {
    let contract = undeployed_root(|known| config::repeat(known, "t.root", Repetition::Count));
    assert_eq!(contract.config_required_nodes, ["t.root"]);
    assert_eq!(contract.confidence.as_str(), "safe");
    let root = "t.root".parse().unwrap();
    assert!(!contract.reservation_candidates.grants(&root, Access::Write));
    assert!(contract.reservation_candidates.grants(&root, Access::Read));
}

#[test]
fn a_shell_is_fetched_and_is_no_object() {
    let (mut state, known) = deps();
    state
        .rows
        .remove(&("t.root".to_owned(), Which::Current))
        .unwrap();
    state.add_object("t.root", Which::Shell, &[]);
    let contract = expand(&state.graph(), &request(&known, &["t.root"]));
    assert_eq!(contract.fetch_addresses, ["t.root"]);
    assert_eq!(contract.missing_from_state, ["t.root"]);
    assert_eq!(contract.undeployed_candidates, ["t.root"]);
}

#[test]
fn ephemeral_blocks_pass_dependencies_on_and_are_nothing_themselves() {
    let (state, mut known) = deps();
    let more = configuration(&[("ephemeral.t.secret", &["t.gate"])]);
    known.nodes.extend(more.nodes);
    known.nodes[0]
        .dependencies
        .push("ephemeral.t.secret".parse().unwrap());
    let contract = expand(
        &state.graph(),
        &request(&known, &["t.root", "ephemeral.t.secret"]),
    );
    assert_eq!(contract.fetch_addresses, ["t.gate", "t.root"]);
    assert!(contract.config_required_nodes.is_empty());
    assert!(contract.missing_from_state.is_empty());
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn destroying_follows_recorded_and_configured_dependents() {
    let (mut state, known) = deps();
    state.add("t.orphan", &["t.checked"]);
    let mut asked = request(&known, &["t.gate"]);
    asked.operation = Operation::Destroy;
    let contract = expand(&state.graph(), &asked);
    let destroyed = [
        "module.m.t.inner",
        "t.after_module",
        "t.checked",
        "t.gate",
        "t.orphan",
    ];
    assert_eq!(contract.write_addresses, destroyed);
    // What the dependents need is looked at, too.
    let read = ["t.by_local", "t.many[\"x\"]", "t.many[\"y\"]", "t.root"];
    assert_eq!(contract.read_addresses, read);
    let dependents = contract
        .findings
        .iter()
        .filter(|finding| matches!(finding, Finding::Dependent(_)));
    assert_eq!(dependents.count(), 4);
    for address in destroyed {
        let path = address.parse().unwrap();
        assert!(
            contract.reservation_candidates.grants(&path, Access::Write),
            "{address}"
        );
    }
}

#[test]
fn the_whole_state_is_a_scope() {
    let (state, known) = deps();
    let mut asked = request(&known, &[]);
    asked.write = vec![Target::Everything];
    let contract = expand(&state.graph(), &asked);
    assert_eq!(contract.write_addresses.len(), state.rows.len());
    assert!(contract.read_addresses.is_empty());
    assert_eq!(contract.confidence.as_str(), "safe");
    assert!(
        contract
            .reservation_candidates
            .grants(&graph::claims::Path::root(), Access::Write)
    );
}

#[test]
fn reads_asked_for_are_read_with_what_they_need() {
    let (state, known) = deps();
    let mut asked = request(&known, &["t.gate"]);
    asked.read = targets(&["t.by_local", "t.never"]);
    let contract = expand(&state.graph(), &asked);
    assert_eq!(contract.write_addresses, ["t.gate"]);
    assert_eq!(contract.read_addresses, ["t.by_local", "t.root"]);
    assert_eq!(contract.unknown_missing_from_state, ["t.never"]);
}

#[test]
fn orphans_are_listed_and_never_dragged_in() {
    let (mut state, known) = deps();
    state.add("t.orphan", &["t.gate"]);
    state.add("module.old[\"a\"].t.n", &[]);
    state.add("data.t.old", &[]);
    state.add_object("t.shell", Which::Shell, &[]);
    let asked = request(&known, &["t.gate"]);
    assert_eq!(
        orphans(&state.graph(), &asked),
        ["module.old.t.n", "t.orphan"]
    );
    let contract = expand(&state.graph(), &asked);
    assert_eq!(contract.fetch_addresses, ["t.gate"]);
    // Chosen, they are written like anything else.
    let contract = expand(
        &state.graph(),
        &request(&known, &["module.old", "t.orphan"]),
    );
    assert_eq!(
        contract.write_addresses,
        ["module.old[\"a\"].t.n", "t.orphan"]
    );
    assert_eq!(
        contract.removed_config_nodes,
        ["module.old.t.n", "t.orphan"]
    );
    assert_eq!(contract.confidence.as_str(), "safe");
}

#[test]
fn a_call_that_changes_its_keys_is_written_as_a_whole() {
    let mut known = configuration(&[
        ("module.m.t.r", &[]),
        ("module.m.t.s", &["module.m.t.r"]),
        ("t.user", &["module.m.t.s"]),
    ]);
    config::repeat_call(&mut known, "module.m", Repetition::Count);
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    state.add("module.m.t.r", &[]);
    state.add("module.m.t.s", &["module.m.t.r"]);
    state.add("t.user", &["module.m.t.s", "module.m.t.r"]);
    // Seen with Terraform 1.11: any target in or behind the call destroys the old instances.
    for target in ["module.m[0]", "module.m[0].t.s", "t.user"] {
        let contract = expand(&state.graph(), &request(&known, &[target]));
        assert!(
            contract
                .write_addresses
                .iter()
                .any(|text| text == "module.m.t.r"),
            "{target}"
        );
        let expected = Finding::Reshaped("module.m".to_owned());
        assert!(
            contract.findings.contains(&expected),
            "{target}: {:?}",
            contract.findings
        );
        let call = "module.m".parse().unwrap();
        assert!(
            contract.reservation_candidates.grants(&call, Access::Write),
            "{target}"
        );
    }
}

#[test]
fn a_client_that_does_not_say_what_is_repeated_gets_the_same_scope_with_wider_claims() {
    let (state, mut known) = deps();
    known.calls = Calls::Unknown;
    known
        .nodes
        .iter_mut()
        .for_each(|node| node.repetition = Repetition::Unknown);
    let contract = expand(&state.graph(), &request(&known, &["module.m.t.inner"]));
    assert_eq!(contract.write_addresses, ["module.m.t.inner"]);
    assert_eq!(contract.confidence.as_str(), "safe");
    let call = "module.m".parse().unwrap();
    assert!(contract.reservation_candidates.grants(&call, Access::Write));
}
