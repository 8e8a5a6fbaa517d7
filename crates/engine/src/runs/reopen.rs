//! Waking the run of a saved plan: claims are taken, and what the plan was made on must still stand there.

use std::collections::BTreeMap;

use protocol::StateName;
use protocol::runs::{ReopenRun, Run, RunStatus};
use protocol::scope::ScopeRequest;
use store::{Reopening, RunRecord, SliceRow, State, UnsettledMark, VersionRef, WorkspaceTx};
use tfstate::Document;
use uuid::Uuid;

use super::begin::{Asking, RunCredential, issue, json, native, proven};
use super::document::{Seen, seal};
use super::may_write;
use super::settle::read_sha256;
use super::standing::status;
use crate::lock::same_spelling;
use crate::reservations::{Ask, insert, make_room, overlapping};
use crate::scope::Expanded;
use crate::slice::rows_at;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, audit};

impl Engine {
    /// Wakes the run whose plan is in the file with this digest.
    ///
    /// # Errors
    ///
    /// A plan that is too old, was applied before, or was made on something that is not there any more.
    pub async fn reopen_run(
        &self,
        caller: &Caller,
        name: &StateName,
        request: &ReopenRun,
        credential: &RunCredential,
    ) -> Result<Run, EngineError> {
        may_write(caller)?;
        let who = request.who.as_str();
        let asking = Asking::new(&request.key, &request.command, who, request.lease_seconds)?;
        let plan = read_sha256(&request.plan_sha256).ok_or_else(|| {
            EngineError::BadRequest(
                "`plan_sha256` is the SHA-256 of the plan file: 64 hex digits".to_owned(),
            )
        })?;
        let asking = asking.waiting(request.ticket.as_deref(), request.wait_seconds);
        let mut tries = Tries::default();
        loop {
            match self
                .try_reopen(caller, name, &plan, &asking, credential)
                .await
            {
                Err(error) if tries.another(&error).await => {}
                Err(error) if asking.patience.another(&error).await => {}
                Ok((id, degraded)) => {
                    let mut run = self.shown(caller, id).await?;
                    if let Some(reservation) = &mut run.reservation {
                        reservation.degraded = degraded;
                    }
                    return Ok(run);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_reopen(
        &self,
        caller: &Caller,
        name: &StateName,
        plan: &[u8],
        asking: &Asking<'_>,
        credential: &RunCredential,
    ) -> Result<(Uuid, bool), EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name).await?;
        let state = state.ok_or(EngineError::PlanUnknown)?;
        same_spelling(&state, name)?;
        let id = store::find_run_by_plan(&mut tx, state.id, plan).await?;
        let id = id.ok_or(EngineError::PlanUnknown)?;
        let record = store::find_run(&mut tx, id).await?;
        let record = record.ok_or(EngineError::PlanUnknown)?;
        let key = format!("{}/{}", id.simple(), asking.key);
        // It holds its scope already, so it must not wait for it.
        let was_woken = self.woken_before(&mut tx, &record, &key).await?;
        tx.commit().await?;
        if was_woken {
            let mut tx = self.begin(caller).await?;
            store::lock_run(&mut tx, id).await?;
            issue(&mut tx, caller, id, credential).await?;
            tx.commit().await?;
            return Ok((id, false));
        }
        // Nobody waits for what cannot be woken.
        sleeps(&record)?;
        let scope: ScopeRequest = serde_json::from_str(&record.scope)
            .map_err(|_| EngineError::DamagedRun("its scope cannot be read"))?;
        let seen = self.seen(caller, &record).await?;
        let expanded = self.expand(caller, name, &scope).await?;
        proven(&expanded)?;
        let claims = expanded.contract.reservation_candidates.clone();
        let waiting = asking.in_queue(&state, &claims);
        let (pass, queued) = self.wait_in_queue(caller, &waiting).await?;
        let woken = self
            .wake(
                caller, &state, &record, &scope, &seen, expanded, asking, credential,
            )
            .await;
        self.after_queue(caller, &queued, &woken).await;
        Ok((woken?, pass.degraded))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one request, each from elsewhere"
    )]
    async fn wake(
        &self,
        caller: &Caller,
        state: &State,
        record: &RunRecord,
        scope: &ScopeRequest,
        seen: &Seen,
        expanded: Expanded,
        asking: &Asking<'_>,
        credential: &RunCredential,
    ) -> Result<Uuid, EngineError> {
        let id = record.id;
        let key = format!("{}/{}", id.simple(), asking.key);
        let mut tx = self.begin(caller).await?;
        store::lock_run(&mut tx, id).await?;
        let record = store::find_run(&mut tx, id).await?;
        let record = record.ok_or(EngineError::PlanUnknown)?;
        if self.woken_before(&mut tx, &record, &key).await? {
            issue(&mut tx, caller, id, credential).await?;
            tx.commit().await?;
            return Ok(id);
        }
        sleeps(&record)?;
        store::lock_ledger(&mut tx, state.id).await?;
        let claims = &expanded.contract.reservation_candidates;
        let room = make_room(&mut tx, caller, state, claims).await?;
        let locked = store::lock_state(&mut tx, state.id).await?;
        let expanded = self.on_head(&mut tx, &locked, scope, expanded).await?;
        if let Some(stale) = stale(&mut tx, &record, &locked, &expanded, seen).await? {
            tx.rollback().await?;
            self.outdate(caller, &record, seen).await?;
            return Err(stale);
        }
        let ask = Ask {
            run: id,
            key: &key,
            claims: &expanded.contract.reservation_candidates,
            lease_seconds: asking.lease_seconds,
            info: &asking.lock_info(id),
        };
        let reservation = insert(&mut tx, caller, &locked, &room, &ask).await?;
        store::reopen_run(
            &mut tx,
            id,
            &Reopening {
                kind: "apply",
                command: asking.command,
                who: asking.who,
                principal_id: caller.principal().as_str(),
                contract: &json(&expanded.wire)?,
                base_seq: locked.head_seq,
                reservation_id: reservation.id,
            },
        )
        .await?;
        store::hand_run_tokens_to(&mut tx, id, caller.context().token_id()).await?;
        issue(&mut tx, caller, id, credential).await?;
        let what = audit::What::RunReopened {
            run: id,
            command: asking.command,
        };
        audit::record(&mut tx, caller, locked.id, &locked.name, what).await?;
        tx.commit().await?;
        locking::point!(ReserveAfterCommit);
        Ok(id)
    }

    /// Whether this very request woke the run before, and its answer was lost.
    async fn woken_before(
        &self,
        tx: &mut WorkspaceTx,
        record: &RunRecord,
        key: &str,
    ) -> Result<bool, EngineError> {
        let known = store::find_by_key(tx, record.state_id, key).await?;
        Ok(known.is_some_and(|known| known.is_active() && record.reservation_id == Some(known.id)))
    }

    /// From now on the run serves the next serial, so that Terraform refuses the plan as well.
    async fn outdate(
        &self,
        caller: &Caller,
        record: &RunRecord,
        seen: &Seen,
    ) -> Result<(), EngineError> {
        let serial = seen.serial.saturating_add(1);
        let damaged = EngineError::DamagedRun("its document has no serial");
        let bytes = tfstate::with_serial(&seen.bytes, serial).ok_or(damaged)?;
        let key = self.sealing_key(caller).await?;
        let document = seal(caller, &key, record.id, serial, &bytes)?;
        let mut tx = self.begin(caller).await?;
        store::lock_run(&mut tx, record.id).await?;
        let now = store::find_run_document(&mut tx, record.id).await?;
        if now.is_some_and(|now| now.sha256 == seen.sha256) {
            store::put_run_document(&mut tx, record.id, &document).await?;
        }
        Ok(tx.commit().await?)
    }
}

/// Fails unless the run sleeps over a plan that nobody has begun to apply.
fn sleeps(record: &RunRecord) -> Result<(), EngineError> {
    if record.spent_at.is_some() {
        return Err(EngineError::PlanSpent);
    }
    match status(record) {
        _ if record.too_old => Err(EngineError::PlanUnknown),
        RunStatus::Running => Err(EngineError::PlanInUse),
        RunStatus::Aborted => Err(EngineError::PlanUnknown),
        RunStatus::Planned | RunStatus::Succeeded | RunStatus::Failed | RunStatus::Expired => {
            Ok(())
        }
    }
}

/// Why the plan may not be applied, if so: something in the slice changed, is gone, or is new, or is unsettled and was not
/// looked at. What else happened to the state does not matter.
async fn stale(
    tx: &mut WorkspaceTx,
    record: &RunRecord,
    locked: &State,
    expanded: &Expanded,
    seen: &Seen,
) -> Result<Option<EngineError>, EngineError> {
    if let Some(head) = store::find_version(tx, locked.id, VersionRef::Head).await? {
        native(&head)?;
    }
    let addresses = &expanded.wire.fetch_addresses;
    let rows = rows_at(tx, locked.id, locked.head_seq, addresses).await?;
    if let Some(address) = first_difference(&rows, seen)? {
        let what = describe(tx, locked.id, &address).await?;
        return Ok(Some(EngineError::PlanStale { address, what }));
    }
    let claims = &expanded.contract.reservation_candidates;
    // What was unsettled when the run began, its plan has refreshed.
    let has_looked = record.refreshed == Some(true);
    let marks = overlapping(tx, locked.id, claims).await?;
    let unseen = |mark: &&UnsettledMark| !has_looked || mark.since >= record.started_at;
    Ok(marks
        .iter()
        .find(unseen)
        .map(|mark| EngineError::PlanStale {
            address: mark.path.to_string(),
            what: format!("is unsettled: {}", mark.reason),
        }))
}

/// The first address at which the slice differs from the one that was planned on.
fn first_difference(rows: &[SliceRow], seen: &Seen) -> Result<Option<String>, EngineError> {
    let damaged = || EngineError::DamagedRun("its document cannot be read");
    let Document::State(document) = tfstate::parse(&seen.bytes)? else {
        return Err(damaged());
    };
    let mut planned: BTreeMap<&[u8], (String, [u8; 32])> = document
        .instances
        .iter()
        .map(|row| {
            let address = document.address(row).to_string();
            (&*row.ord, (address, row.digest.0))
        })
        .collect();
    for row in rows {
        match planned.remove(&row.ord[..]) {
            Some((_, digest)) if digest[..] == row.digest[..] => {}
            _ => return Ok(Some(row.address.clone())),
        }
    }
    Ok(planned.into_values().next().map(|(address, _)| address))
}

/// Who changed an address last.
async fn describe(tx: &mut WorkspaceTx, state: Uuid, address: &str) -> Result<String, EngineError> {
    let Some(change) = store::find_last_change(tx, state, address).await? else {
        return Ok("is not as it was when the plan was made".to_owned());
    };
    let run = change.run_id.map(protocol::RunId::from_uuid);
    let with = match run {
        Some(run) => format!("run {run}"),
        None => change.source,
    };
    Ok(format!(
        "changed in version {} by {} ({with})",
        change.seq, change.created_by
    ))
}
