//! Restoring versions one by one into a state that nobody sees. What a version has changed is written while the next one is
//! read and proven.

mod writer;

use std::collections::HashMap;

use archive::{Frame, Origin, Run, Verified, Version, VersionContent, VersionRows};
use bytes::Bytes;
use chrono::Utc;
use protocol::JobId;
use serde_json::{Value, json};
use store::{Form, SealedKind, SealedPlace, SealingKey};
use uuid::Uuid;

use self::writer::{Item, Prepared, Writing};
use super::attempt::Attempt;
use super::export::ToldRun;
use super::import::{origin_word, seq_of};
use super::outcome::Failure;
use crate::compare::compare;
use crate::write::prepare::{Births, opaque_reason};
use crate::write::{is_indexable, unindexable};

/// Restores versions in the order of the archive. What it restored counts once it has [finished](Restorer::finish).
pub(super) struct Restorer<'a> {
    attempt: &'a Attempt,
    verified: &'a Verified,
    writing: Writing<'a>,
    /// By id.
    runs: HashMap<&'a str, &'a Run>,
    /// Digest of the rows that live now: what a version without rows carries on.
    rows_digest: [u8; 32],
    /// Whether the last version is kept whole here although it has rows in the archive, so that what the archive says has
    /// changed is not what changes here.
    diverged: bool,
    /// Made when the first document is to be sealed.
    key: Option<SealingKey>,
}

impl<'a> Restorer<'a> {
    pub(super) fn new(attempt: &'a Attempt, verified: &'a Verified) -> Self {
        Self {
            attempt,
            verified,
            writing: Writing::new(attempt),
            runs: verified
                .runs
                .iter()
                .map(|run| (run.id.as_str(), run))
                .collect(),
            rows_digest: [0; 32],
            diverged: false,
            key: None,
        }
    }

    /// Notes a version that an earlier attempt has restored.
    pub(super) fn step_over(&mut self, version: &Version<'_>) {
        self.follow(version);
    }

    /// Whether the version has rows here; keeps track of what lives.
    fn follow<'v, 'c>(&mut self, version: &'c Version<'v>) -> Option<&'c VersionRows<'v>> {
        let VersionContent::State(rows) = &version.content else {
            return None;
        };
        let whole = version.entry.frame == Frame::Key;
        if !is_indexable(&rows.state) || (self.diverged && !whole) {
            self.diverged = true;
            return None;
        }
        self.rows_digest = rows.rows_digest.to_bytes();
        Some(rows)
    }

    /// Restores one version.
    pub(super) fn restore(&mut self, version: &Version<'_>) -> Result<(), Failure> {
        let was_diverged = self.diverged;
        let carried = self.rows_digest;
        let rows = self.follow(version);
        let meta = &version.entry.meta;
        let (form, prepared) = match rows {
            None => {
                let reason = match &version.content {
                    VersionContent::Opaque(opaque) => opaque_reason(&opaque.reason),
                    VersionContent::State(_) => unindexable(),
                };
                let prepared = Prepared {
                    opaque_reason: Some(reason),
                    ..Prepared::default()
                };
                (Form::Opaque, prepared)
            }
            Some(rows) if was_diverged => (form_of(meta.verbatim), self.compared(rows)?),
            Some(rows) => (form_of(meta.verbatim), prepare(rows)),
        };
        if rows.is_some() {
            self.diverged = false;
        }
        let document = match form {
            Form::Rows => None,
            Form::Kept | Form::Opaque => Some(self.packed(version)?),
        };
        let rows_digest = if rows.is_some() {
            self.rows_digest
        } else {
            carried
        };
        self.writing.write(Item {
            meta: meta.clone(),
            form,
            prepared,
            rows_digest,
            document,
            provenance: self.provenance(version),
        })
    }

    /// Commits what is restored so far; answers the id that each version has here.
    pub(super) fn finish(mut self) -> Result<HashMap<u64, Uuid>, Failure> {
        self.writing.commit()?;
        Ok(self.writing.into_ids())
    }

    /// Compares a whole state with the rows that live here, where the archive's own comparison does not hold.
    fn compared<'v>(&mut self, rows: &'v VersionRows<'_>) -> Result<Prepared<'v>, Failure> {
        self.writing.commit()?;
        let (attempt, state) = (self.attempt, self.attempt.job.state_id);
        let mut tx = attempt.begin_read()?;
        let live = attempt.wait(store::list_live_rows(&mut tx, state))?;
        let outputs = attempt.wait(store::list_live_outputs(&mut tx, state))?;
        attempt.wait(tx.commit())?;
        let changes = compare(&rows.state, &live, &outputs);
        Ok(Prepared {
            closed: changes.closed,
            outputs_closed: changes.outputs_closed,
            ..born(rows, &changes.born, &changes.outputs_born)
        })
    }

    /// The version's document, compressed and sealed for its place.
    fn packed(&mut self, version: &Version<'_>) -> Result<Vec<u8>, Failure> {
        let attempt = self.attempt;
        let key = match &self.key {
            Some(key) => key.clone(),
            None => {
                let engine = &attempt.archives.engine;
                let key = attempt.wait(engine.sealing_key_of(attempt.workspace()))?;
                self.key.insert(key).clone()
            }
        };
        let written;
        let document: &[u8] = match version.key_frame() {
            Some(document) => document,
            None => {
                let mut bytes = Vec::new();
                version
                    .write_document(&mut bytes)
                    .map_err(|error| Failure::last("internal", error.to_string()))?;
                written = Bytes::from(bytes);
                &written
            }
        };
        let place = SealedPlace {
            workspace: attempt.workspace(),
            state: attempt.job.state_id,
            seq: seq_of(version.entry.meta.seq),
            kind: SealedKind::Document,
        };
        key.pack(&place, document)
            .map_err(|error| Failure::last("internal", error.to_string()))
    }

    /// All that the archive says of a run, or its id where it says no more.
    fn told_run(&self, id: Option<&str>) -> Value {
        match id.and_then(|id| self.runs.get(id)) {
            Some(run) => super::json(&ToldRun::from(*run)),
            None => json!(id),
        }
    }

    /// Where the version comes from, beside what it is.
    fn provenance(&self, version: &Version<'_>) -> Value {
        let (info, meta) = (&self.verified.info, &version.entry.meta);
        let key_id = match &self.verified.origin {
            Origin::Trusted { key_id } | Origin::Foreign { key_id, .. } => Some(key_id),
            Origin::Unsigned => None,
        };
        let earlier: Option<Value> = meta
            .provenance
            .as_ref()
            .and_then(|earlier| serde_json::from_str(earlier.get()).ok());
        json!({
            "imported_at": Utc::now(),
            "imported_by": self.attempt.job.display,
            "job": JobId::from_uuid(self.attempt.job.id),
            "origin": origin_word(&self.verified.origin),
            "key_id": key_id,
            "exported_at": info.exported_at,
            "exported_by": info.exported_by,
            "workspace": info.state.workspace,
            "environment": info.state.environment,
            "state": info.state.name,
            "state_id": info.state.id,
            "version_id": meta.id,
            "run": self.told_run(meta.run.as_deref()),
            "earlier": earlier,
        })
    }
}

fn form_of(verbatim: bool) -> Form {
    if verbatim { Form::Kept } else { Form::Rows }
}

/// What the archive says has changed.
fn prepare<'v>(rows: &'v VersionRows<'_>) -> Prepared<'v> {
    let changes = &rows.changes;
    Prepared {
        closed: changes.closed.iter().map(|ord| ord.to_vec()).collect(),
        outputs_closed: changes.outputs_closed.clone(),
        ..born(rows, &changes.born, &changes.outputs_born)
    }
}

fn born<'v>(rows: &'v VersionRows<'_>, instances: &[usize], outputs: &[usize]) -> Prepared<'v> {
    let state = &*rows.state;
    Prepared {
        births: Births::of(state, instances, outputs),
        header: Some(state.header.encode()),
        instance_count: rows.instance_count,
        ..Prepared::default()
    }
}
