//! The part of `terraform show -json PLANFILE` that guards need.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A plan, without any value.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Plan {
    pub(crate) resource_changes: Vec<ResourceChange>,
    pub(crate) resource_drift: Vec<ResourceChange>,
    pub(crate) output_changes: BTreeMap<String, Change>,
    pub(crate) deferred_changes: Vec<IgnoredAny>,
    /// Absent before Terraform 1.6.
    pub(crate) errored: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceChange {
    pub(crate) address: String,
    pub(crate) previous_address: Option<String>,
    pub(crate) deposed: Option<String>,
    pub(crate) mode: String,
    pub(crate) change: Change,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Change {
    pub(crate) actions: Vec<String>,
    pub(crate) importing: Option<IgnoredAny>,
}

/// What a change does to an object, gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    NoOp,
    Read,
    Move,
    Import,
    Create,
    Update,
    Forget,
    Replace,
    Delete,
}

impl Plan {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl ResourceChange {
    pub(crate) fn action(&self) -> Action {
        let has = |word: &str| self.change.actions.iter().any(|action| action == word);
        match (has("create"), has("delete"), has("forget")) {
            (true, true, _) | (true, _, true) => Action::Replace,
            (true, ..) => Action::Create,
            (_, true, _) => Action::Delete,
            (_, _, true) => Action::Forget,
            _ if has("update") => Action::Update,
            _ if has("read") => Action::Read,
            _ if self.change.importing.is_some() => Action::Import,
            _ if self.previous_address.is_some() => Action::Move,
            _ => Action::NoOp,
        }
    }

    /// The address, and the key of a deposed object where it is one.
    pub(crate) fn label(&self) -> String {
        match &self.deposed {
            Some(key) => format!("{} (deposed object {key})", self.address),
            None => self.address.clone(),
        }
    }
}

impl Change {
    pub(crate) fn is_change(&self) -> bool {
        self.actions.iter().any(|action| action != "no-op")
    }
}
