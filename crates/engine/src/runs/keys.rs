//! The keys that clients choose: the same key is the same run, if it is the same request.

use locking::{Rule, holds};
use protocol::runs::BeginRun;
use store::{RunRecord, State, WorkspaceTx};

use super::begin::{Asking, json};
use super::owned;
use crate::{Caller, EngineError};

/// The run that the caller began with this key.
///
/// # Errors
///
/// The key came with another request before: nobody is answered with a run that is not what they asked for.
pub(crate) async fn begun_before(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    asking: &Asking<'_>,
) -> Result<Option<RunRecord>, EngineError> {
    let principal = caller.principal().as_str();
    let Some(id) = store::find_run_by_key(tx, state.id, principal, asking.key).await? else {
        return Ok(None);
    };
    if !holds(Rule::IdemKey) {
        return Ok(None);
    }
    let record = store::find_run(tx, id).await?.ok_or(EngineError::NoRun)?;
    let record = owned(record, caller)?;
    match &record.request_digest {
        Some(digest) if digest[..] != asking.request_digest => Err(EngineError::KeyReused),
        _ => Ok(Some(record)),
    }
}

/// The same request came twice at once: what the other one began is found at the next try.
pub(crate) fn begun_meanwhile(error: store::Error) -> store::Error {
    match error {
        error if error.is_constraint("runs_workspace_id_state_id_principal_id_idem_key_key") => {
            store::Error::Moved("the run was begun meanwhile")
        }
        error => error,
    }
}

/// What a request to begin asks for, without what a retry may change.
pub(super) fn digest_of(request: &BeginRun) -> Result<[u8; 32], EngineError> {
    let BeginRun {
        kind,
        command,
        who,
        scope,
        lease_seconds,
        ..
    } = request;
    let text = json(&(kind, command, who, scope, lease_seconds))?;
    Ok(tfstate::Digest::of(text.as_bytes()).0)
}
