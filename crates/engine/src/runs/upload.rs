//! `POST` of a run: the slice comes back, and what it changed within the write claims is committed.

use bytes::Bytes;
use graph::claims::{ClaimSet, Path};
use locking::{Rule, holds};
use protocol::LockInfo;
use protocol::runs::RunKind;
use sha2::{Digest as _, Sha256};
use store::{RecordedSource, RunRecord};
use tfstate::{Document, State};
use uuid::Uuid;

use super::difference::{Difference, difference};
use super::document::{Seen, seal};
use super::keep::Refused;
use super::standing::{Standing, kind, standing};
use super::{may_write, owned, run_of};
use crate::commit::{Commit, Committed, Delta, First, OutputPlace, Place, commit};
use crate::reservations::left_out_paths;
use crate::tries::Tries;
use crate::write::{keep_whole_if_unindexable, new_instance, new_output};
use crate::{Caller, Engine, EngineError};

/// What became of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uploaded {
    /// Nothing within the claims changed.
    Unchanged,
    /// It is this version of the state.
    Version { seq: i64, serial: u64 },
}

/// An upload, hashed.
struct Upload<'a> {
    lock_id: Option<&'a str>,
    body: &'a Bytes,
    sha256: [u8; 32],
}

impl Engine {
    /// Takes the slice back.
    ///
    /// # Errors
    ///
    /// What cannot be committed is kept before it is refused: the infrastructure it describes has changed.
    pub async fn upload(
        &self,
        caller: &Caller,
        lock_id: Option<&str>,
        body: Bytes,
    ) -> Result<Uploaded, EngineError> {
        let _large = self.admit_document(body.len()).await;
        let sha256 = tokio::task::block_in_place(|| Sha256::digest(&body).into());
        let upload = Upload {
            lock_id,
            body: &body,
            sha256,
        };
        let mut tries = Tries::default();
        loop {
            match self.try_upload(caller, &upload).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_upload(
        &self,
        caller: &Caller,
        upload: &Upload<'_>,
    ) -> Result<Uploaded, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = store::find_run(&mut tx, run_of(caller)?).await?;
        let record = owned(record.ok_or(EngineError::NoRun)?, caller)?;
        let claims = match record.reservation_id {
            Some(id) => store::find_claims(&mut tx, &[id]).await?.remove(&id),
            None => None,
        };
        tx.commit().await?;
        if kind(&record) == RunKind::Plan {
            return Err(EngineError::RunIsReadOnly);
        }
        may_write(caller)?;
        let seen = self.seen(caller, &record).await?;
        let judged = self
            .judge_and_commit(caller, &record, upload, &seen, &claims.unwrap_or_default())
            .await;
        match judged {
            Err(error) if is_final(&error) => {
                Err(self.refuse(caller, &record, upload, error).await?)
            }
            outcome => outcome,
        }
    }

    /// Keeps the upload, and says so in the refusal.
    async fn refuse(
        &self,
        caller: &Caller,
        record: &RunRecord,
        upload: &Upload<'_>,
        error: EngineError,
    ) -> Result<EngineError, EngineError> {
        let surprises = match &error {
            EngineError::OutsideScope(addresses) => addresses
                .iter()
                .filter_map(|address| address.parse().ok())
                .collect(),
            _ => Vec::new(),
        };
        let kept = self
            .keep_upload(
                caller,
                &Refused {
                    record,
                    lock_id: upload.lock_id.unwrap_or_default(),
                    sha256: &upload.sha256,
                    body: upload.body,
                    surprises,
                },
            )
            .await?;
        Ok(match error {
            EngineError::LeaseLost { reason, .. } => EngineError::LeaseLost { reason, kept },
            error => error,
        })
    }

    async fn judge_and_commit(
        &self,
        caller: &Caller,
        record: &RunRecord,
        upload: &Upload<'_>,
        seen: &Seen,
        claims: &ClaimSet,
    ) -> Result<Uploaded, EngineError> {
        match standing(record)? {
            Standing::Alive => {}
            Standing::Lost { .. } if !holds(Rule::Liveness) => {}
            Standing::Lost { reason } => {
                return Err(EngineError::LeaseLost {
                    reason,
                    kept: false,
                });
            }
        }
        held_by(record, upload.lock_id)?;
        if seen.sha256 == upload.sha256 && holds(Rule::Receipts) {
            self.keep_alive(caller, record).await?;
            return Ok(Uploaded::Unchanged);
        }
        let before = parse(&seen.bytes)?;
        let mut after = parse(upload.body)?;
        follows(&before, &after, seen)?;
        let difference = tokio::task::block_in_place(|| {
            let is_known = |ord: &[u8], digest: &tfstate::Digest| {
                let found = before.instances.binary_search_by(|row| (*row.ord).cmp(ord));
                found.is_ok_and(|index| before.instances[index].digest == *digest)
            };
            after.canonicalise(is_known);
            let all = ClaimSet::whole_state();
            let within = if holds(Rule::WriteCover) {
                claims
            } else {
                &all
            };
            difference(&before, &after, within)
        });
        if !difference.surprises.is_empty() {
            let surprises = difference.surprises.into_iter().collect();
            return Err(EngineError::OutsideScope(surprises));
        }
        self.commit_upload(caller, record, upload, &after, &difference, seen)
            .await
    }

    /// Renews the lease of a run that had nothing to say.
    async fn keep_alive(&self, caller: &Caller, record: &RunRecord) -> Result<(), EngineError> {
        let Some(id) = record.reservation_id else {
            return Ok(());
        };
        let mut tx = self.begin(caller).await?;
        if let Some(held) = store::lock_active(&mut tx, id).await? {
            store::record_activity(&mut tx, id, held.base_seq).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Commits what changed within the claims, and remembers the upload as what the run last saw, in one transaction.
    async fn commit_upload(
        &self,
        caller: &Caller,
        record: &RunRecord,
        upload: &Upload<'_>,
        after: &State<'_>,
        difference: &Difference,
        seen: &Seen,
    ) -> Result<Uploaded, EngineError> {
        let Some(reservation) = record.reservation_id else {
            return Err(EngineError::RunIsReadOnly);
        };
        let delta = delta(after, difference);
        let key = self.sealing_key(caller).await?;
        let document = seal(caller, &key, record.id, after.serial, upload.body)?;
        let sources = sources(record);
        let commit_key = crate::hex(&upload.sha256);

        locking::point!(CommitStaged);
        let mut tx = self.begin(caller).await?;
        store::lock_run(&mut tx, record.id).await?;
        let now = store::find_run_document(&mut tx, record.id).await?;
        if now.is_none_or(|now| now.sha256 != seen.sha256) {
            return Err(store::Error::Moved("another upload of the run came first").into());
        }
        let mut held = store::lock_active(&mut tx, reservation).await?;
        if !holds(Rule::Liveness) {
            held = store::find_reservation(&mut tx, reservation).await?;
        }
        let Some(held) = held else {
            // The next try sees that it has ended, and keeps the upload.
            return Err(store::Error::Moved("the reservation ended meanwhile").into());
        };
        let committed = commit(
            &mut tx,
            caller,
            &Commit {
                run: record.id,
                state: record.state_id,
                held: (held.id, held.token),
                key: &commit_key,
                request_digest: upload.sha256,
                delta: &delta,
                first: First {
                    terraform_version: &after.terraform_version,
                    lineage: &after.lineage,
                },
                sources: &sources,
                was_applied: true,
            },
        )
        .await?;
        store::put_run_document(&mut tx, record.id, &document).await?;
        note_left_out(&mut tx, record, difference).await?;
        tx.commit().await?;
        locking::point!(CommitAfterCommit);
        Ok(match committed {
            Committed {
                seq,
                serial,
                made: Some(_),
            } => Uploaded::Version { seq, serial },
            Committed { made: None, .. } => Uploaded::Unchanged,
        })
    }
}

/// Whether an error refuses the upload for good, so that it is kept.
fn is_final(error: &EngineError) -> bool {
    !matches!(
        error,
        EngineError::Store(_)
            | EngineError::Seal(_)
            | EngineError::NoDataKey
            | EngineError::LateUpload
            | EngineError::RunIsReadOnly
            | EngineError::Refused(_)
    )
}

/// Fails unless the upload comes from the Terraform that holds the lock of the run's own backend, if one does.
fn held_by(record: &RunRecord, lock_id: Option<&str>) -> Result<(), EngineError> {
    let holder = record.backend_lock.as_deref();
    let holder = holder.and_then(|lock| LockInfo::from_slice(lock.as_bytes()).ok());
    match (holder, lock_id) {
        (None, _) => Ok(()),
        (Some(holder), Some(id)) if holder.id == id => Ok(()),
        (Some(holder), _) => Err(EngineError::OtherBackendLock(Box::new(holder))),
    }
}

/// Reads a slice. What has no rows cannot be compared.
fn parse(bytes: &[u8]) -> Result<State<'_>, EngineError> {
    let document =
        tokio::task::block_in_place(|| tfstate::parse(bytes).map(keep_whole_if_unindexable))?;
    match document {
        Document::State(state) => Ok(state),
        Document::Opaque(_) => Err(EngineError::NotNative(
            "the upload is encrypted, or of an unknown version".to_owned(),
        )),
    }
}

/// Fails for a document of another history, and for one that came before what the run last saw: a duplicate that was
/// delayed on its way would undo the upload after it.
fn follows(before: &State<'_>, after: &State<'_>, seen: &Seen) -> Result<(), EngineError> {
    if before.lineage != after.lineage {
        return Err(EngineError::OtherLineage);
    }
    let is_late = after.serial <= seen.serial;
    let is_repeat = after.serial == seen.serial && !holds(Rule::Receipts);
    if is_late && !is_repeat && holds(Rule::LateDuplicates) {
        return Err(EngineError::LateUpload);
    }
    Ok(())
}

/// The changed places with what stands there now.
fn delta<'a>(after: &'a State<'_>, difference: &Difference) -> Delta<'a> {
    let instances = difference.instances.iter().map(|written| Place {
        ord: written.ord.clone(),
        path: written.path.clone(),
        row: written.row.map(|index| new_instance(after, index)),
    });
    let outputs = difference.outputs.iter().map(|(name, row)| OutputPlace {
        name: name.clone(),
        row: row.map(|index| new_output(&after.outputs[index])),
    });
    Delta {
        instances: instances.collect(),
        outputs: outputs.collect(),
    }
}

/// From which file each block is written, as the run said when it began.
fn sources(record: &RunRecord) -> Vec<RecordedSource> {
    let scope: protocol::scope::ScopeRequest =
        serde_json::from_str(&record.scope).unwrap_or_default();
    // They were read when the run began.
    crate::scope::read_sources(&scope).unwrap_or_default()
}

async fn note_left_out(
    tx: &mut store::WorkspaceTx,
    record: &RunRecord,
    difference: &Difference,
) -> Result<(), EngineError> {
    let known = left_out_paths(&record.left_out);
    let mut all: std::collections::BTreeSet<String> = known.iter().map(Path::to_string).collect();
    let before = all.len();
    all.extend(difference.left_out.iter().cloned());
    if all.len() > before {
        let id: Uuid = record.id;
        store::set_left_out(tx, id, &super::begin::json(&all)?).await?;
    }
    Ok(())
}
