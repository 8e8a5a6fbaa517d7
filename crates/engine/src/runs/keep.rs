//! Uploads that are kept instead of committed: what they describe has happened already.

use graph::claims::Path;
use locking::{Rule, holds};
use store::{RunRecord, SealedKind, SealedPlace};

use crate::{Caller, Engine, EngineError, audit};

/// An upload that is refused.
pub(super) struct Refused<'a> {
    pub(super) record: &'a RunRecord,
    /// The lock of the run's own backend under which it came.
    pub(super) lock_id: &'a str,
    pub(super) sha256: &'a [u8; 32],
    pub(super) body: &'a [u8],
    /// What it changed and must not have; marked unsettled.
    pub(super) surprises: Vec<Path>,
}

/// Why the addresses of a surprise are unsettled.
pub(super) const SURPRISED: &str =
    "an upload of its run changed it outside of the claims, and was kept";

impl Engine {
    /// Keeps an upload, the newest of each lock: it holds those before it. True when it was kept; a run that reserves
    /// nothing has nothing to keep it under, and has changed nothing.
    pub(super) async fn keep_upload(
        &self,
        caller: &Caller,
        refused: &Refused<'_>,
    ) -> Result<bool, EngineError> {
        let record = refused.record;
        let Some(reservation) = record.reservation_id else {
            return Ok(false);
        };
        if !holds(Rule::KeptResults) {
            return Ok(true);
        }
        let key = self.sealing_key(caller).await?;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state: record.state_id,
            seq: record.base_seq,
            kind: SealedKind::KeptResult,
        };
        let packed = tokio::task::block_in_place(|| key.pack(&place, refused.body))?;
        locking::point!(KeepBefore);
        let mut tx = self.begin(caller).await?;
        store::lock_run(&mut tx, record.id).await?;
        store::keep_upload(
            &mut tx,
            &store::KeptResult {
                state_id: record.state_id,
                reservation_id: reservation,
                base_seq: record.base_seq,
                digest: refused.sha256,
                packed: &packed,
                byte_size: refused.body.len() as i64,
                kept_by: caller.display(),
            },
            refused.lock_id,
        )
        .await?;
        let marked = &refused.surprises;
        store::mark_unsettled(&mut tx, record.state_id, reservation, marked, SURPRISED).await?;
        let what = audit::What::LateWriteKept {
            lock_id: refused.lock_id,
            sha256: refused.sha256,
        };
        audit::record(&mut tx, caller, record.state_id, &record.state_name, what).await?;
        locking::point!(KeepBeforeCommit);
        tx.commit().await?;
        locking::point!(KeepAfterCommit);
        Ok(true)
    }
}
