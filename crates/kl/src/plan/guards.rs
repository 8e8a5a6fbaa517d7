//! What keeps a plan from being applied: everything in it that its scope did not announce.

use std::collections::BTreeSet;

use config_scope::{ConfigAddress, Target};
use protocol::scope::{ClaimMode, ScopeContract};
use tfstate::Address;

use super::json::{Action, Plan, ResourceChange};
use crate::scope::{covers, parse_target};

/// What a plan is held against.
pub(crate) struct Held<'a> {
    pub(crate) contract: &'a ScopeContract,
    /// Every managed block in the state, where that was asked for.
    pub(crate) inventory: Option<&'a BTreeSet<String>>,
}

/// One way in which a plan leaves its contract: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

/// Holds a plan against the contract; an empty list is a plan that may be applied.
pub(crate) fn breaches(plan: &Plan, held: &Held<'_>) -> Vec<Breach> {
    let claims = Claims::of(held.contract);
    let mut breaches = Vec::new();
    if plan.errored == Some(true) {
        breaches.push(Breach {
            what: "the plan is not complete: Terraform stopped at an error".to_owned(),
            remedy: "read the error above, and plan again",
        });
    }
    if !plan.deferred_changes.is_empty() {
        breaches.push(Breach {
            what: "the plan is not complete: Terraform put off some changes".to_owned(),
            remedy: "plan the whole state with `kl plan --protocol http`",
        });
    }
    let writes = || {
        plan.resource_changes
            .iter()
            .filter(|change| is_write(change))
    };
    for change in writes() {
        if let Some(address) = claims.outside(change) {
            breaches.push(Breach {
                what: format!(
                    "{} would be {}, and is outside the scope",
                    address,
                    done(change)
                ),
                remedy: "add it with --target, or the file that declares it with -f",
            });
        }
    }
    for change in writes().filter(|change| exists_elsewhere(change, held)) {
        breaches.push(Breach {
            what: format!(
                "{} would be created, and the state has it already",
                change.address
            ),
            remedy: "the slice is not large enough: add it with --target, or plan the whole state with `--protocol http`",
        });
    }
    let whole = claims.whole;
    for (name, change) in &plan.output_changes {
        if change.is_change() && !whole && !held.contract.outputs_inside.contains(name) {
            breaches.push(Breach {
                what: format!(
                    "output {name} would change, and depends on something outside the scope"
                ),
                remedy: "add what it depends on with --target, or plan the whole state with `--protocol http`",
            });
        }
    }
    breaches
}

fn is_write(change: &ResourceChange) -> bool {
    !matches!(change.action(), Action::NoOp | Action::Read)
}

fn done(change: &ResourceChange) -> &'static str {
    match change.action() {
        Action::Create => "created",
        Action::Update => "updated",
        Action::Delete => "destroyed",
        Action::Replace => "replaced",
        Action::Forget => "forgotten",
        Action::Move => "moved",
        Action::Import => "imported",
        Action::NoOp | Action::Read => "read",
    }
}

/// The write claims of a contract.
struct Claims {
    whole: bool,
    written: Vec<Target>,
}

impl Claims {
    fn of(contract: &ScopeContract) -> Self {
        let written = contract
            .reservation_candidates
            .iter()
            .filter(|claim| claim.mode == ClaimMode::Write);
        Self {
            whole: written.clone().any(|claim| claim.address == "*"),
            written: written
                .filter_map(|claim| parse_target(&claim.address))
                .collect(),
        }
    }

    /// The address of the change that no claim covers.
    fn outside<'c>(&self, change: &'c ResourceChange) -> Option<&'c str> {
        let ends = [Some(&change.address), change.previous_address.as_ref()];
        let mut ends = ends.into_iter().flatten();
        ends.find(|address| !self.whole && !self.covers(address))
            .map(String::as_str)
    }

    fn covers(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<Address>() else {
            return false;
        };
        self.written.iter().any(|target| covers(target, &address))
    }
}

/// Whether a change creates an object of a block that the state has and the slice does not show.
///
/// Of each block in a scope the slice has all instances, so an object that is created beside them
/// is a new one.
fn exists_elsewhere(change: &ResourceChange, held: &Held<'_>) -> bool {
    if change.action() != Action::Create || change.mode == "data" {
        return false;
    }
    let (Some(block), Some(inventory)) = (block(&change.address), held.inventory) else {
        return false;
    };
    inventory.contains(&block) && !shows(held.contract, &block)
}

/// The managed blocks that a plan creates objects of and the slice shows nothing of: whether the
/// state has them is worth a question.
pub(crate) fn created_beside_slice(plan: &Plan, contract: &ScopeContract) -> bool {
    plan.resource_changes
        .iter()
        .filter(|change| change.action() == Action::Create && change.mode != "data")
        .filter_map(|change| block(&change.address))
        .any(|block| !shows(contract, &block))
}

fn shows(contract: &ScopeContract, wanted: &str) -> bool {
    contract
        .fetch_addresses
        .iter()
        .any(|address| block(address).as_deref() == Some(wanted))
}

/// The config-level address of an instance.
fn block(address: &str) -> Option<String> {
    let address = Target::from(&address.parse::<Address>().ok()?);
    address
        .config_address()
        .map(|block: ConfigAddress| block.to_string())
}

#[cfg(test)]
mod tests {
    use protocol::scope::{ScopeClaim, ScopeConfidence, ScopeDiagnostics};
    use serde_json::json;

    use super::*;

    fn contract(writes: &[&str], fetch: &[&str], outputs: &[&str]) -> ScopeContract {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ScopeContract {
            fetch_addresses: texts(fetch),
            write_addresses: Vec::new(),
            read_addresses: Vec::new(),
            config_required_nodes: Vec::new(),
            removed_config_nodes: Vec::new(),
            missing_from_state: Vec::new(),
            undeployed_candidates: Vec::new(),
            unknown_missing_from_state: Vec::new(),
            reservation_candidates: writes
                .iter()
                .map(|address| ScopeClaim {
                    address: (*address).to_owned(),
                    mode: ClaimMode::Write,
                })
                .collect(),
            write_targets: texts(writes),
            outputs_inside: texts(outputs),
            outputs_written: Vec::new(),
            outputs_beyond: Vec::new(),
            dependents: Vec::new(),
            confidence: ScopeConfidence::Safe,
            notes: Vec::new(),
            diagnostics: ScopeDiagnostics::default(),
        }
    }

    fn change(address: &str, actions: &[&str]) -> serde_json::Value {
        json!({"address": address, "mode": "managed", "change": {"actions": actions}})
    }

    fn found(plan: serde_json::Value, contract: &ScopeContract, inventory: &[&str]) -> Vec<String> {
        let plan = Plan::parse(plan.to_string().as_bytes()).unwrap();
        let inventory: BTreeSet<String> = inventory.iter().map(|text| (*text).to_owned()).collect();
        let held = Held {
            contract,
            inventory: Some(&inventory),
        };
        let breaches = breaches(&plan, &held);
        breaches.into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn what_stays_within_the_contract_passes() {
        let contract = contract(&["t.a", "module.m"], &["t.a", "t.read"], &["o"]);
        let plan = json!({
            "resource_changes": [
                change("t.a", &["update"]),
                change("t.a[1]", &["create"]),
                change("module.m[\"k\"].t.x", &["create", "delete"]),
                change("t.read", &["no-op"]),
                {"address": "data.t.d", "mode": "data", "change": {"actions": ["read"]}},
            ],
            "output_changes": {"o": {"actions": ["update"]}, "other": {"actions": ["no-op"]}},
            "errored": false, "complete": false,
        });
        assert!(found(plan, &contract, &["t.a", "t.read"]).is_empty());
    }

    #[test]
    fn each_guard_names_the_address() {
        let contract = contract(&["t.a", "t.b"], &["t.a"], &[]);
        for (plan, expected) in [
            (
                json!({"resource_changes": [change("t.z", &["delete"])]}),
                "t.z would be destroyed",
            ),
            (
                json!({"resource_changes": [change("t.ab", &["update"])]}),
                "t.ab would be updated",
            ),
            (
                json!({"resource_changes": [{"address": "t.a", "previous_address": "t.old", "mode": "managed", "change": {"actions": ["no-op"]}}]}),
                "t.old would be moved",
            ),
            (
                json!({"resource_changes": [{"address": "t.y", "mode": "managed", "change": {"actions": ["no-op"], "importing": {"id": "i"}}}]}),
                "t.y would be imported",
            ),
            (
                json!({"resource_changes": [change("t.b", &["create"])]}),
                "t.b would be created, and the state has it already",
            ),
            (
                json!({"output_changes": {"o": {"actions": ["create"]}}}),
                "output o would change",
            ),
            (json!({"errored": true}), "not complete"),
            (json!({"deferred_changes": [{"reason": "x"}]}), "put off"),
        ] {
            let found = found(plan, &contract, &["t.a", "t.b"]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }
}
