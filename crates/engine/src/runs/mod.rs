//! Runs: audited operations on a part of a state, each of which looks to Terraform like a small state of its own.
//!
//! A run's row is locked before anything of the ledger, and whoever ends another's reservation leaves the row alone: what a
//! run is to its client follows from both ([`standing`]). What a run last saw is stored, so that it survives replicas and
//! restarts; an upload is compared with that, and what the write claims cover is committed.

mod backend;
mod begin;
mod difference;
mod document;
mod keep;
mod keys;
mod look;
mod recover;
mod renew;
mod reopen;
mod selected;
mod settle;
mod standing;
mod threeway;
mod unscoped;
mod upload;
mod view;

pub use begin::RunCredential;
pub(crate) use begin::{Asking, json};
pub(crate) use keys::{begun_before, begun_meanwhile};
pub(crate) use renew::Renewals;
pub use selected::{SelectedCommit, SelectedOutputs, SelectedVersion};
pub(crate) use standing::shown;
pub use unscoped::{Beginner, UnscopedRun};
pub use upload::Uploaded;
pub(crate) use view::mark;

use auth::Action;
use protocol::scope::ScopeContract;
use store::{RunRecord, WorkspaceTx};
use uuid::Uuid;

use crate::{Caller, EngineError};

/// Locks the run that the request is on, if it is the caller's own.
async fn own_run(tx: &mut WorkspaceTx, caller: &Caller) -> Result<RunRecord, EngineError> {
    let id = run_of(caller)?;
    store::lock_run(tx, id).await?;
    let record = store::find_run(tx, id).await?.ok_or(EngineError::NoRun)?;
    owned(record, caller)
}

/// Fails unless the run is the caller's own.
fn owned(record: RunRecord, caller: &Caller) -> Result<RunRecord, EngineError> {
    is_own(&record.principal_id, &record.who, caller)?;
    Ok(record)
}

/// Fails unless the run of this principal is the caller's own.
fn is_own(principal: &str, who: &str, caller: &Caller) -> Result<(), EngineError> {
    if principal == caller.principal().as_str() {
        Ok(())
    } else {
        Err(EngineError::NotYourRun(who.to_owned()))
    }
}

/// The run that was decided over.
pub(crate) fn run_of(caller: &Caller) -> Result<Uuid, EngineError> {
    let run = caller.context().run();
    run.map(|run| run.as_uuid()).ok_or(EngineError::NoRun)
}

/// A run that may write is for those who may.
fn may_write(caller: &Caller) -> Result<(), EngineError> {
    if caller.context().permits(Action::WriteState) {
        Ok(())
    } else {
        Err(EngineError::MayNotWrite)
    }
}

fn contract_of(record: &RunRecord) -> Result<ScopeContract, EngineError> {
    serde_json::from_str(&record.contract)
        .map_err(|_| EngineError::DamagedRun("its contract cannot be read"))
}
