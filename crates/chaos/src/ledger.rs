//! What the databases hold at the end of a run: the ledger with its versions, what is kept, and the index in Redis.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::plan::Times;

/// Everything, as it was written down. Ids are UUIDs without hyphens; times are microseconds since 1970.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    pub times: Option<Times>,
    pub states: Vec<State>,
    pub reservations: Vec<Reservation>,
    pub claims: Vec<Claim>,
    pub versions: Vec<Version>,
    pub rows: Vec<Row>,
    pub kept: Vec<Kept>,
    pub marks: Vec<Mark>,
    pub runs: Vec<Run>,
    /// The index, of each state that has one.
    pub index: Vec<Index>,
    /// The newest version of each state as it is read in two ways.
    pub documents: Vec<ReadBack>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub id: String,
    pub name: String,
    pub workspace: String,
    pub head_seq: i64,
    pub token: i64,
    pub r#gen: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservation {
    pub id: String,
    pub state_id: String,
    pub run_id: Option<String>,
    pub lane: String,
    pub idem_key: String,
    pub token: i64,
    pub incarnation: i64,
    pub status: String,
    pub expires_us: Option<i64>,
    pub granted_gen: i64,
    pub ended_gen: Option<i64>,
    pub created_us: i64,
    pub ended_us: Option<i64>,
    pub began: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub reservation_id: String,
    pub path: Vec<String>,
    pub mode: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Version {
    pub state_id: String,
    pub seq: i64,
    pub serial: Option<u64>,
    pub incarnation: i64,
    pub run_id: Option<String>,
    pub reservation_id: Option<String>,
    pub token: Option<i64>,
    pub created_us: i64,
    pub sha256: Option<String>,
    pub rows_digest: String,
}

/// What stood at an address from one version until another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    pub state_id: String,
    pub address: String,
    pub born_seq: i64,
    pub dies_seq: Option<i64>,
    pub value: String,
    pub before: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    pub reservation_id: String,
    pub digest: String,
    pub lock_id: Option<String>,
    pub kept_us: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub reservation_id: String,
    pub path: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    pub state_id: String,
    pub idem_key: String,
    pub status: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub state_id: String,
    /// The highest gen up to which it knows everything.
    pub wm: i64,
    pub held: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBack {
    pub state_id: String,
    pub seq: i64,
    /// As plain Terraform reads it, and as the history shows it.
    pub plain_sha256: String,
    pub history_sha256: String,
    /// Worked out anew from the document.
    pub rows_digest: String,
}

/// An id as the ledger has it: without prefix and hyphens.
#[must_use]
pub fn bare(id: &str) -> String {
    let id = id.rsplit('_').next().unwrap_or(id);
    id.chars().filter(|c| *c != '-').collect()
}

impl Ledger {
    /// # Errors
    ///
    /// When the file is not one.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
