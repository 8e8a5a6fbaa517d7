//! Restoring versions one by one into a state that nobody sees. Small ones share a transaction.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use archive::{Frame, Origin, Run, Verified, Version, VersionContent, VersionRows};
use bytes::Bytes;
use chrono::Utc;
use protocol::{JobId, VersionId};
use serde_json::{Value, json};
use store::{
    Form, NewInstance, NewOutput, RestoredVersion, SealedKind, SealedPlace, SealingKey, WorkspaceTx,
};
use uuid::Uuid;

use super::attempt::Attempt;
use super::export::ToldRun;
use super::import::{origin_word, seq_of};
use super::outcome::Failure;
use crate::compare::compare;
use crate::write::prepare::{new_instance, opaque_reason};
use crate::write::{is_indexable, unindexable};

/// For so long, and for so many bytes of rows, versions are added to a transaction. One of a larger document is not left
/// open: reading the next one may take longer than a transaction may be idle.
const BATCH_TIME: Duration = Duration::from_millis(500);
const BATCH_BYTES: usize = 8 << 20;
const BATCH_DOCUMENT_BYTES: u64 = 64 << 20;

/// Restores versions in the order of the archive. What it restored counts once it has [finished](Restorer::finish).
pub(super) struct Restorer<'a> {
    attempt: &'a Attempt,
    verified: &'a Verified,
    batch: Option<Batch>,
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

/// A transaction with the last versions in it.
struct Batch {
    tx: WorkspaceTx,
    began: Instant,
    bytes: usize,
}

/// What is stored of a version beside its facts.
#[derive(Default)]
struct Prepared<'v> {
    closed: Vec<Vec<u8>>,
    outputs_closed: Vec<String>,
    instances: Vec<NewInstance<'v>>,
    outputs: Vec<NewOutput<'v>>,
    parts: Vec<([u8; 32], &'v [u8])>,
    header: Option<Vec<u8>>,
    opaque_reason: Option<String>,
    instance_count: u64,
}

impl Prepared<'_> {
    /// About what it adds to a transaction.
    fn bytes(&self) -> usize {
        let instances = self.instances.iter().map(|row| row.body.len());
        let outputs = self.outputs.iter().map(|row| row.body.len());
        let parts = self.parts.iter().map(|(_, body)| body.len());
        instances.chain(outputs).chain(parts).sum()
    }
}

impl<'a> Restorer<'a> {
    pub(super) fn new(attempt: &'a Attempt, verified: &'a Verified) -> Result<Self, Failure> {
        Ok(Self {
            attempt,
            verified,
            batch: None,
            runs: verified
                .runs
                .iter()
                .map(|run| (run.id.as_str(), run))
                .collect(),
            rows_digest: [0; 32],
            diverged: false,
            key: None,
        })
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

    /// Restores one version; answers its id here.
    pub(super) fn restore(&mut self, version: &Version<'_>) -> Result<Uuid, Failure> {
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
        self.insert(version, form, &prepared, &rows_digest, document.as_deref())
    }

    /// Commits what is restored so far.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match self.batch.take() {
            Some(batch) => Ok(self.attempt.wait(batch.tx.commit())?),
            None => Ok(()),
        }
    }

    /// Compares a whole state with the rows that live here, where the archive's own comparison does not hold.
    fn compared<'v>(&mut self, rows: &'v VersionRows<'_>) -> Result<Prepared<'v>, Failure> {
        self.finish()?;
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

    fn insert(
        &mut self,
        version: &Version<'_>,
        form: Form,
        prepared: &Prepared<'_>,
        rows_digest: &[u8; 32],
        document: Option<&[u8]>,
    ) -> Result<Uuid, Failure> {
        let (attempt, state) = (self.attempt, self.attempt.job.state_id);
        let meta = &version.entry.meta;
        let seq = seq_of(meta.seq);
        let changed = prepared.closed.len().max(prepared.instances.len())
            + prepared.outputs_closed.len().max(prepared.outputs.len());
        let provenance = self.provenance(version);
        let Batch {
            mut tx,
            began,
            bytes,
        } = match self.batch.take() {
            Some(batch) => batch,
            None => Batch {
                tx: attempt.begin()?,
                began: Instant::now(),
                bytes: 0,
            },
        };
        let bytes = bytes + prepared.bytes() + document.map_or(0, <[u8]>::len);
        let (id, batch) = attempt.wait(async {
            let wanted = meta.id.parse::<VersionId>().ok().map(|id| id.as_uuid());
            let id = match wanted {
                Some(id) if !store::version_id_is_taken(&mut tx, id).await? => id,
                _ => Uuid::now_v7(),
            };
            let restored = RestoredVersion {
                state_id: state,
                seq,
                id,
                serial: meta.serial,
                lineage: meta.lineage.as_deref(),
                terraform_version: meta.terraform_version.as_deref(),
                source: &meta.source,
                created_at: meta.created_at,
                created_by: &meta.created_by,
                principal_id: attempt.job.principal.as_str(),
                forced: meta.forced,
                unlocked: meta.unlocked,
                form,
                opaque_reason: prepared.opaque_reason.as_deref(),
                header: prepared.header.as_deref(),
                rows_digest,
                sha256: &meta.sha256.0,
                byte_size: i64::try_from(meta.bytes).unwrap_or(i64::MAX),
                instance_count: i64::try_from(prepared.instance_count).unwrap_or(i64::MAX),
                rows_changed: i64::try_from(changed).unwrap_or(i64::MAX),
                provenance,
            };
            store::insert_restored_version(&mut tx, &restored).await?;
            store::close_instances(&mut tx, state, seq, &prepared.closed).await?;
            store::close_outputs(&mut tx, state, seq, &prepared.outputs_closed).await?;
            store::insert_instances(&mut tx, state, seq, &prepared.instances).await?;
            store::insert_outputs(&mut tx, state, seq, &prepared.outputs).await?;
            store::insert_parts(&mut tx, state, &prepared.parts).await?;
            if let Some(document) = document {
                store::insert_document(&mut tx, state, seq, document).await?;
            }
            let is_full = bytes >= BATCH_BYTES
                || began.elapsed() >= BATCH_TIME
                || meta.bytes > BATCH_DOCUMENT_BYTES;
            let batch = if is_full {
                tx.commit().await?;
                None
            } else {
                Some(Batch { tx, began, bytes })
            };
            Ok::<_, Failure>((id, batch))
        })?;
        self.batch = batch;
        Ok(id)
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
        instances: instances
            .iter()
            .map(|&index| new_instance(state, index))
            .collect(),
        outputs: outputs
            .iter()
            .map(|&index| {
                let output = &state.outputs[index];
                NewOutput {
                    name: &output.name,
                    name_token: output.name_token,
                    body: &output.body,
                    digest: output.digest.0,
                }
            })
            .collect(),
        parts: state
            .parts
            .iter()
            .map(|part| (part.digest.0, &*part.body))
            .collect(),
        header: Some(state.header.encode()),
        instance_count: rows.instance_count,
        ..Prepared::default()
    }
}
