//! What a plan does, for `--json` and for questions.

use serde::Serialize;

use super::json::{Action, Plan};

/// One planned change of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedChange {
    pub(crate) address: String,
    pub(crate) action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deposed: Option<String>,
}

/// All that a plan changes, without values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) changes: Vec<PlannedChange>,
    pub(crate) outputs: Vec<String>,
    /// Objects found to differ from the record; the record follows with the apply.
    pub(crate) drifted: Vec<String>,
}

impl Summary {
    pub(crate) fn of(plan: &Plan) -> Self {
        let changes = plan
            .resource_changes
            .iter()
            .filter(|change| change.action() != Action::NoOp)
            .map(|change| PlannedChange {
                address: change.address.clone(),
                action: change.action(),
                previous_address: change.previous_address.clone(),
                deposed: change.deposed.clone(),
            });
        let outputs = plan
            .output_changes
            .iter()
            .filter(|(_, change)| change.is_change());
        Self {
            changes: changes.collect(),
            outputs: outputs.map(|(name, _)| name.clone()).collect(),
            drifted: plan
                .resource_drift
                .iter()
                .map(|drift| drift.label())
                .collect(),
        }
    }

    /// Whether applying the plan changes anything, as `-detailed-exitcode` counts it.
    pub(crate) fn has_changes(&self) -> bool {
        !self.outputs.is_empty()
            || self
                .changes
                .iter()
                .any(|change| change.action != Action::Read)
    }

    /// The objects that the plan destroys, replaces or lets go of.
    pub(crate) fn destructive(&self) -> impl Iterator<Item = &PlannedChange> {
        self.changes.iter().filter(|change| {
            matches!(
                change.action,
                Action::Delete | Action::Replace | Action::Forget
            )
        })
    }
}
