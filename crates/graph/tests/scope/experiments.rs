//! What Terraform 1.11 was seen to need of a slice (facts D2), row by row.
//!
//! Configuration: `root → mid → leaf`, `other`, `fe` (for_each), `cnt` (count 3), `z` using `cnt[1]`,
//! `module.m` (for_each x, y) with `r` using `root` and `s` using `r`, `module.dep` that depends on
//! `other` as a whole, the data source `rs` and its user. Everything is deployed.

use graph::scope::{Configuration, Operation, Repetition, ScopeContract, ScopeRequest, expand};

use crate::support::config::{self, targets};
use crate::support::rows::{State, Which};

struct World {
    state: State,
    configuration: Configuration,
    request: ScopeRequest,
}

fn world() -> World {
    let mut configuration = config::configuration(&[
        ("t.root", &[]),
        ("t.mid", &["t.root"]),
        ("t.leaf", &["t.mid"]),
        ("t.other", &[]),
        ("t.fe", &[]),
        ("t.cnt", &[]),
        ("t.z", &["t.cnt"]),
        ("module.m.t.r", &["t.root"]),
        ("module.m.t.s", &["module.m.t.r"]),
        ("module.dep.t.d", &["t.other"]),
        ("data.d.rs", &[]),
        ("t.user", &["data.d.rs"]),
    ]);
    config::repeat(&mut configuration, "t.fe", Repetition::ForEach);
    config::repeat(&mut configuration, "t.cnt", Repetition::Count);
    config::repeat_call(&mut configuration, "module.m", Repetition::ForEach);
    for (name, dependencies) in [
        ("leaf", &["t.leaf"][..]),
        ("other", &["t.other"]),
        ("mx", &["module.m.t.s"]),
        ("both", &["t.mid", "t.other"]),
        ("static", &[]),
        ("sens", &["t.mid"]),
        ("c0", &["t.cnt"]),
        ("cs", &["t.cnt"]),
    ] {
        config::output(&mut configuration, name, dependencies);
    }
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    state.add("t.root", &[]);
    state.add("t.mid", &["t.root"]);
    state.add("t.leaf", &["t.mid", "t.root"]);
    state.add("t.other", &[]);
    state.add("t.fe[\"a\"]", &[]);
    for key in 0..3 {
        state.add(&format!("t.cnt[{key}]"), &[]);
    }
    state.add("t.z", &["t.cnt"]);
    for key in ["x", "y"] {
        state.add(&format!("module.m[\"{key}\"].t.r"), &["t.root"]);
        state.add(
            &format!("module.m[\"{key}\"].t.s"),
            &["module.m.t.r", "t.root"],
        );
    }
    state.add("module.dep.t.d", &["t.other"]);
    state.add("data.d.rs", &[]);
    state.add("t.user", &["data.d.rs"]);
    World {
        state,
        configuration,
        request: ScopeRequest::default(),
    }
}

/// One row of the table.
struct Row {
    row: &'static str,
    targets: &'static [&'static str],
    /// What is different from the world above.
    change: fn(&mut World),
    fetch: &'static [&'static str],
    write: &'static [&'static str],
    outputs: &'static [&'static str],
    confidence: &'static str,
}

fn unchanged(_: &mut World) {}

const ROWS: &[Row] = &[
    Row {
        row: "1, 3, 30: a target brings what it depends on; without `root` Terraform creates it anew",
        targets: &["t.mid"],
        change: unchanged,
        fetch: &["t.mid", "t.root"],
        write: &["t.mid"],
        outputs: &["sens"],
        confidence: "safe",
    },
    Row {
        row: "4: everything beneath a chain",
        targets: &["t.leaf"],
        change: unchanged,
        fetch: &["t.leaf", "t.mid", "t.root"],
        write: &["t.leaf"],
        outputs: &["leaf", "sens"],
        confidence: "safe",
    },
    Row {
        row: "5: without a target all that the slice lacks is planned as a create",
        targets: &[],
        change: unchanged,
        fetch: &[],
        write: &[],
        outputs: &[],
        confidence: "unsafe",
    },
    Row {
        row: "6: one instance of a module; the other one must be there, or `mx` becomes null",
        targets: &["module.m[\"x\"]"],
        change: unchanged,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.root",
        ],
        write: &["module.m[\"x\"].t.r", "module.m[\"x\"].t.s"],
        outputs: &["mx"],
        confidence: "safe",
    },
    Row {
        row: "6: the whole module, named without keys",
        targets: &["module.m"],
        change: unchanged,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.root",
        ],
        write: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
        ],
        outputs: &["mx"],
        confidence: "safe",
    },
    Row {
        row: "7: dependencies are taken in all module instances",
        targets: &["module.m[\"x\"].t.s"],
        change: unchanged,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.root",
        ],
        write: &["module.m[\"x\"].t.s"],
        outputs: &["mx"],
        confidence: "safe",
    },
    Row {
        row: "8, 9: z uses cnt[1] alone, and all of cnt is planned",
        targets: &["t.z"],
        change: unchanged,
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]", "t.z"],
        write: &["t.z"],
        outputs: &["c0", "cs"],
        confidence: "safe",
    },
    Row {
        row: "10: outputs over all of cnt are corrupted unless all of cnt is there",
        targets: &["t.cnt[1]"],
        change: unchanged,
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        write: &["t.cnt[1]"],
        outputs: &["c0", "cs"],
        confidence: "safe",
    },
    Row {
        row: "11: a key that the configuration dropped; `mx` needs the other one",
        targets: &["module.m[\"y\"]"],
        change: unchanged,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.root",
        ],
        write: &["module.m[\"y\"].t.r", "module.m[\"y\"].t.s"],
        outputs: &["mx"],
        confidence: "safe",
    },
    Row {
        row: "12: a key that does not exist writes nothing, and yet needs the others",
        targets: &["module.m[\"zzz\"]"],
        change: unchanged,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.root",
        ],
        write: &[],
        outputs: &["mx"],
        confidence: "safe",
    },
    Row {
        row: "13: count 3 → 1, all of it targeted",
        targets: &["t.cnt"],
        change: unchanged,
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        write: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        outputs: &["c0", "cs"],
        confidence: "safe",
    },
    Row {
        row: "14: count → no count, all of it targeted",
        targets: &["t.cnt"],
        change: |world| config::repeat(&mut world.configuration, "t.cnt", Repetition::Single),
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        write: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        outputs: &["c0", "cs"],
        confidence: "safe",
    },
    Row {
        row: "14: count → no count, one instance targeted: Terraform insists on all",
        targets: &["t.cnt[0]"],
        change: |world| config::repeat(&mut world.configuration, "t.cnt", Repetition::Single),
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        write: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]"],
        outputs: &["c0", "cs"],
        confidence: "widened",
    },
    Row {
        row: "15: a resource that the configuration dropped",
        targets: &["t.leaf"],
        change: |world| config::remove(&mut world.configuration, "t.leaf"),
        fetch: &["t.leaf", "t.mid", "t.root"],
        write: &["t.leaf"],
        outputs: &["leaf", "sens"],
        confidence: "safe",
    },
    Row {
        row: "15: a module that the configuration dropped; others are not dragged along",
        targets: &["module.dep"],
        change: |world| config::remove(&mut world.configuration, "module.dep.t.d"),
        fetch: &["module.dep.t.d", "t.other"],
        write: &["module.dep.t.d"],
        outputs: &["other"],
        confidence: "safe",
    },
    Row {
        row: "16: a module's depends_on counts for everything in it",
        targets: &["module.dep"],
        change: |world| {
            // Recorded before the depends_on was written.
            let name = ("module.dep.t.d".to_owned(), Which::Current);
            world
                .state
                .rows
                .get_mut(&name)
                .unwrap()
                .dependencies
                .clear();
        },
        fetch: &["module.dep.t.d", "t.other"],
        write: &["module.dep.t.d"],
        outputs: &["other"],
        confidence: "safe",
    },
    Row {
        row: "17: the data source of a target",
        targets: &["t.user"],
        change: unchanged,
        fetch: &["data.d.rs", "t.user"],
        write: &["t.user"],
        outputs: &[],
        confidence: "safe",
    },
    Row {
        row: "17: a data source that was never read is read, and nothing else is wider",
        targets: &["t.user"],
        change: |world| {
            world
                .state
                .rows
                .remove(&("data.d.rs".to_owned(), Which::Current))
                .unwrap();
        },
        fetch: &["t.user"],
        write: &["t.user"],
        outputs: &[],
        confidence: "safe",
    },
    Row {
        row: "18: a pending move: without its source the target is created a second time",
        targets: &["t.other2"],
        change: |world| move_other(world),
        fetch: &["t.other"],
        write: &["t.other"],
        outputs: &[],
        confidence: "widened",
    },
    Row {
        row: "19: a pending move elsewhere is left alone",
        targets: &["t.mid"],
        change: |world| move_other(world),
        fetch: &["t.mid", "t.root"],
        write: &["t.mid"],
        outputs: &["sens"],
        confidence: "safe",
    },
    Row {
        row: "20: a count removed elsewhere is left alone",
        targets: &["t.mid"],
        change: |world| config::repeat(&mut world.configuration, "t.cnt", Repetition::Single),
        fetch: &["t.mid", "t.root"],
        write: &["t.mid"],
        outputs: &["sens"],
        confidence: "safe",
    },
    Row {
        row: "20: a count removed from something the target needs is part of the plan",
        targets: &["t.z"],
        change: |world| config::repeat(&mut world.configuration, "t.cnt", Repetition::Single),
        fetch: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]", "t.z"],
        write: &["t.cnt[0]", "t.cnt[1]", "t.cnt[2]", "t.z"],
        outputs: &["c0", "cs"],
        confidence: "widened",
    },
    Row {
        row: "21: a removed block",
        targets: &[],
        change: |world| {
            config::remove(&mut world.configuration, "t.leaf");
            world.request.removed = targets(&["t.leaf"]);
        },
        fetch: &["t.leaf", "t.mid", "t.root"],
        write: &["t.leaf"],
        outputs: &["leaf", "sens"],
        confidence: "safe",
    },
    Row {
        row: "22: an import block whose object is not recorded yet",
        targets: &["t.imported"],
        change: |world| {
            let block = config::configuration(&[("t.imported", &[])]).nodes;
            world.configuration.nodes.extend(block);
        },
        fetch: &[],
        write: &[],
        outputs: &[],
        confidence: "safe",
    },
    Row {
        row: "24: an address of which only a deposed object is left",
        targets: &["t.other"],
        change: |world| {
            world
                .state
                .rows
                .remove(&("t.other".to_owned(), Which::Current))
                .unwrap();
            let deposed = Which::Deposed("00c0ffee".to_owned());
            world.state.add_object("t.other", deposed, &["t.root"]);
        },
        fetch: &["t.other", "t.root"],
        write: &["t.other"],
        outputs: &["other"],
        confidence: "safe",
    },
    Row {
        row: "26: destroying takes along all dependents",
        targets: &["t.root"],
        change: |world| world.request.operation = Operation::Destroy,
        fetch: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.leaf",
            "t.mid",
            "t.root",
        ],
        write: &[
            "module.m[\"x\"].t.r",
            "module.m[\"x\"].t.s",
            "module.m[\"y\"].t.r",
            "module.m[\"y\"].t.s",
            "t.leaf",
            "t.mid",
            "t.root",
        ],
        outputs: &["leaf", "mx", "sens"],
        confidence: "widened",
    },
    Row {
        row: "28: replace_triggered_by is a reference like any other",
        targets: &["t.rtb"],
        change: |world| {
            let block = config::configuration(&[("t.rtb", &["t.root"])]).nodes;
            world.configuration.nodes.extend(block);
            world.state.add("t.rtb", &[]);
        },
        fetch: &["t.root", "t.rtb"],
        write: &["t.rtb"],
        outputs: &[],
        confidence: "safe",
    },
];

/// `moved { from = t.other, to = t.other2 }`, before any apply.
fn move_other(world: &mut World) {
    for node in &mut world.configuration.nodes {
        if node.address.as_str() == "t.other" {
            node.address = "t.other2".parse().unwrap();
        }
        if node.address.as_str() == "module.dep.t.d" {
            node.dependencies = vec!["t.other2".parse().unwrap()];
        }
    }
    world.configuration.outputs.clear();
    config::output(&mut world.configuration, "sens", &["t.mid"]);
    config::moved(&mut world.configuration, "t.other", "t.other2");
}

fn run(row: &Row) -> ScopeContract {
    let mut world = world();
    (row.change)(&mut world);
    let mut request = world.request;
    request.write = targets(row.targets);
    request.configuration = Some(world.configuration);
    expand(&world.state.graph(), &request)
}

#[test]
fn slices_hold_what_terraform_was_seen_to_need() {
    for row in ROWS {
        let contract = run(row);
        let name = row.row;
        assert_eq!(contract.fetch_addresses, row.fetch, "{name}");
        assert_eq!(contract.write_addresses, row.write, "{name}");
        assert_eq!(contract.outputs.inside, row.outputs, "{name}");
        let why = contract.notes();
        assert_eq!(
            contract.confidence.as_str(),
            row.confidence,
            "{name}: {why:?}"
        );
    }
}

fn row(starts_with: &str) -> ScopeContract {
    run(ROWS
        .iter()
        .find(|row| row.row.starts_with(starts_with))
        .unwrap())
}

#[test]
fn a_pending_move_is_written_and_claimed_at_both_ends() {
    let contract = row("18");
    let written: Vec<String> = contract
        .write_targets
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(written, ["t.other2", "t.other"]);
    assert_eq!(contract.moves.len(), 1);
    assert_eq!(contract.missing_from_state, ["t.other2"]);
    assert_eq!(contract.undeployed_candidates, ["t.other2"]);
    let notes = contract.notes();
    assert_eq!(
        notes,
        ["t.other is one end of a pending move and was added"]
    );
    for end in ["t.other", "t.other2"] {
        let claims = &contract.reservation_candidates;
        assert!(
            claims.grants(&end.parse().unwrap(), graph::claims::Access::Write),
            "{end}"
        );
    }
}

#[test]
fn what_is_not_deployed_is_told_from_what_is_not_known() {
    let contract = row("12");
    assert_eq!(contract.missing_from_state, ["module.m[\"zzz\"]"]);
    assert_eq!(contract.undeployed_candidates, ["module.m[\"zzz\"]"]);
    assert!(contract.unknown_missing_from_state.is_empty());
    let contract = row("22");
    assert_eq!(contract.config_required_nodes, ["t.imported"]);
    let contract = row("17: a data source that was never read");
    assert_eq!(contract.config_required_nodes, ["data.d.rs"]);
}
