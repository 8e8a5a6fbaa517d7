//! Widening a run, and ending it.

use graph::claims::{Access, ClaimSet};
use locking::{Rule, holds};
use protocol::LockInfo;
use protocol::runs::{AbortRun, ExtendRun, FinishRun, Run, RunOutcome, RunStatus};
use store::{End, Reservation, RunRecord, State, WorkspaceTx};

use super::standing::{alive, status};
use super::{may_write, own_run, run_of};
use crate::reservations::{end_held, extend, left_out_paths, read_claims};
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, audit};

/// Why what Terraform changed outside of the claims is unsettled.
const UNCHECKED: &str =
    "its run changed it outside of the claims, and its plan was not held against the contract";
/// Why the reservation of a run ends that is done.
const FINISHED: &str = "its run was finished";

impl Engine {
    /// Adds claims to a run's reservation, at once or not at all.
    pub async fn extend_run(
        &self,
        caller: &Caller,
        request: &ExtendRun,
    ) -> Result<Run, EngineError> {
        may_write(caller)?;
        let claims = read_claims(&request.claims)?;
        let mut tries = Tries::default();
        loop {
            match self.try_extend(caller, request.token, &claims).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_extend(
        &self,
        caller: &Caller,
        token: i64,
        claims: &ClaimSet,
    ) -> Result<Run, EngineError> {
        let mut tx = self.begin(caller).await?;
        let record = own_run(&mut tx, caller).await?;
        alive(&record)?;
        let id = record.reservation_id.ok_or(EngineError::RunIsReadOnly)?;
        let state = state_of(&record);
        extend(&mut tx, caller, &state, (id, token), claims).await?;
        let run = super::view::view(&mut tx, &record).await?;
        tx.commit().await?;
        Ok(run)
    }

    /// Ends a run and releases what it holds, or puts it to sleep over its plan. The same again is the same end.
    pub async fn finish_run(
        &self,
        caller: &Caller,
        request: &FinishRun,
    ) -> Result<Run, EngineError> {
        let plan = plan_digest(request)?;
        let mut tries = Tries::default();
        loop {
            match self.try_finish(caller, request, plan.as_deref()).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_finish(
        &self,
        caller: &Caller,
        request: &FinishRun,
        plan: Option<&[u8]>,
    ) -> Result<Run, EngineError> {
        let mut tx = self.begin(caller).await?;
        let record = own_run(&mut tx, caller).await?;
        let wanted = outcome_status(request.outcome);
        if record.status == wanted {
            let run = super::view::view(&mut tx, &record).await?;
            tx.commit().await?;
            return Ok(run);
        }
        alive(&record)?;
        let terraform = record.backend_lock.as_deref();
        if let Some(info) = terraform.filter(|_| request.outcome == RunOutcome::Succeeded) {
            // It has not said that it is done, and what it uploads last would find nobody.
            let info = LockInfo::from_slice(info.as_bytes()).unwrap_or_default();
            return Err(EngineError::BackendLocked(Box::new(info)));
        }
        let was_cut_off = terraform.is_some() && request.outcome == RunOutcome::Failed;
        if let Some(id) = record.reservation_id {
            store::lock_ledger(&mut tx, record.state_id).await?;
            let held = store::lock_active(&mut tx, id).await?;
            let held = held.ok_or(store::Error::Moved("the reservation ended meanwhile"))?;
            settle_marks(&mut tx, &record, &held, request).await?;
            if was_cut_off {
                // What it built since its last upload is on no record.
                let reason = "its Terraform ended without giving up its lock";
                end_held(&mut tx, &held, End::Broken, reason).await?;
            } else if holds(Rule::AtomicEnd) {
                end_held(&mut tx, &held, End::Released, FINISHED).await?;
            }
        }
        let error = request.error.as_deref();
        if request.outcome == RunOutcome::Planned {
            store::set_refreshed(&mut tx, record.id, request.refreshed).await?;
        }
        store::end_run(&mut tx, record.id, wanted, error, plan).await?;
        // One that was cut off may still live: what it uploads is kept.
        // And one whose plan was not begun sleeps on: the plan in the file has this token inside.
        let sleeps_on = record.plan_sha256.is_some() && record.spent_at.is_none();
        if request.outcome != RunOutcome::Planned && !was_cut_off && !sleeps_on {
            store::revoke_run_tokens(&mut tx, record.id).await?;
        }
        let what = audit::What::RunEnded {
            run: record.id,
            status: wanted,
            command: &record.command,
        };
        audit::record(&mut tx, caller, record.state_id, &record.state_name, what).await?;
        let ended = store::find_run(&mut tx, record.id).await?;
        let run = super::view::view(&mut tx, &ended.ok_or(EngineError::NoRun)?).await?;
        tx.commit().await?;
        if !holds(Rule::AtomicEnd) {
            self.release_afterwards(caller, &record).await?;
        }
        locking::point!(ReleaseAfterCommit);
        Ok(run)
    }

    /// Releases what a run held that has ended, which is too late: a process that dies before leaves it held.
    async fn release_afterwards(
        &self,
        caller: &Caller,
        record: &RunRecord,
    ) -> Result<(), EngineError> {
        let Some(id) = record.reservation_id else {
            return Ok(());
        };
        let mut tx = self.begin(caller).await?;
        store::lock_ledger(&mut tx, record.state_id).await?;
        if let Some(held) = store::lock_active(&mut tx, id).await? {
            end_held(&mut tx, &held, End::Released, FINISHED).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Ends somebody's run: commits nothing, and leaves marks where its apply had begun. What it uploads from now on is
    /// kept.
    pub async fn abort_run(&self, caller: &Caller, request: &AbortRun) -> Result<Run, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_abort(caller, request).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_abort(&self, caller: &Caller, request: &AbortRun) -> Result<Run, EngineError> {
        let mut tx = self.begin(caller).await?;
        let id = run_of(caller)?;
        store::lock_run(&mut tx, id).await?;
        let record = store::find_run(&mut tx, id).await?;
        let record = record.ok_or(EngineError::NoRun)?;
        let own = record.principal_id == caller.principal().as_str();
        if !own && !caller.may_break_locks() {
            return Err(EngineError::NotYourRun(record.who));
        }
        if matches!(status(&record), RunStatus::Running | RunStatus::Planned) {
            let mut reason = format!("aborted by {}", caller.display());
            if !request.reason.is_empty() {
                reason = format!("{reason}: {}", request.reason);
            }
            if let Some(id) = record.reservation_id {
                store::lock_ledger(&mut tx, record.state_id).await?;
                if let Some(held) = store::lock_active(&mut tx, id).await? {
                    end_held(&mut tx, &held, End::Broken, &reason).await?;
                }
            }
            store::end_run(&mut tx, record.id, "aborted", Some(&reason), None).await?;
            let what = audit::What::RunEnded {
                run: record.id,
                status: "aborted",
                command: &record.command,
            };
            audit::record(&mut tx, caller, record.state_id, &record.state_name, what).await?;
        }
        let ended = store::find_run(&mut tx, id).await?;
        let run = super::view::view(&mut tx, &ended.ok_or(EngineError::NoRun)?).await?;
        tx.commit().await?;
        locking::point!(BreakAfterCommit);
        Ok(run)
    }
}

/// Clears the marks that a successful apply has refreshed by then, and leaves new ones where nobody vouches for what it changed
/// outside of its claims.
async fn settle_marks(
    tx: &mut WorkspaceTx,
    record: &RunRecord,
    held: &Reservation,
    request: &FinishRun,
) -> Result<(), EngineError> {
    // Where the plan had nothing to change, looking was enough.
    let has_looked = request.refreshed && (held.began_at.is_some() || request.checked);
    if request.outcome == RunOutcome::Succeeded && has_looked {
        let claims = store::find_claims(tx, &[held.id]).await?;
        let claims = claims.get(&held.id).cloned().unwrap_or_default();
        let marks = store::list_unsettled(tx, record.state_id).await?;
        let refreshed: Vec<_> = marks
            .iter()
            .filter(|mark| mark.since < held.created_at)
            .filter(|mark| claims.grants(&mark.path, Access::Write))
            .collect();
        let by = protocol::RunId::from_uuid(record.id).to_string();
        store::clear_unsettled(tx, record.state_id, &refreshed, &by).await?;
    }
    if !request.checked {
        let left_out = left_out_paths(&record.left_out);
        store::mark_unsettled(tx, record.state_id, held.id, &left_out, UNCHECKED).await?;
    }
    Ok(())
}

fn outcome_status(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Planned => "planned",
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
    }
}

/// The digest of the plan file that a run sleeps over.
fn plan_digest(request: &FinishRun) -> Result<Option<Vec<u8>>, EngineError> {
    if request.outcome != RunOutcome::Planned {
        return Ok(None);
    }
    let text = request.plan_sha256.as_deref().unwrap_or_default();
    read_sha256(text).map(Some).ok_or_else(|| {
        EngineError::BadRequest(
            "`plan_sha256` is the SHA-256 of the plan file: 64 hex digits".to_owned(),
        )
    })
}

pub(super) fn read_sha256(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    (0..64)
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

fn state_of(record: &RunRecord) -> State {
    State {
        id: record.state_id,
        name: record.state_name.clone(),
        head_seq: record.base_seq,
        seq_floor: 0,
        lifecycle: store::Lifecycle::Active,
        created_at: record.started_at,
    }
}
