//! Adding claims to a reservation: at once, or not at all. Nobody who holds something waits, so nothing deadlocks.

use graph::claims::{Claim, ClaimSet};
use locking::{Rule, holds};
use store::{Reservation, State, UnsettledMark, WorkspaceTx};
use uuid::Uuid;

use super::grant::{clear_way, overlapping};
use crate::{Caller, EngineError, audit};

/// Adds claims; answers the reservation with all that it has now, and the marks within.
pub(crate) async fn extend(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    (id, token): (Uuid, i64),
    added: &ClaimSet,
) -> Result<(Reservation, ClaimSet, Vec<UnsettledMark>), EngineError> {
    store::lock_ledger(tx, state.id).await?;
    let held = hold(tx, id, token).await?;
    let known = store::find_claims(tx, &[id]).await?;
    let known = known.get(&id).cloned().unwrap_or_default();
    let claims = ClaimSet::new(
        known
            .iter()
            .chain(added.iter())
            .map(|(path, access)| Claim {
                path: path.clone(),
                access,
            }),
    );
    let conflicts = clear_way(tx, caller, state, &claims, Some(id)).await?;
    if !conflicts.is_empty() {
        return Err(EngineError::ExtendConflict(conflicts));
    }
    let head = store::lock_state(tx, state.id).await?.head_seq;
    store::replace_claims(tx, &held, &claims).await?;
    // Nothing has changed beneath the claims that it had, and those that it gets begin with what is there now.
    store::record_activity(tx, id, head).await?;
    let info = crate::lock::lock_info(&held);
    let what = audit::What::Reserved {
        lock: &info,
        claims: added,
    };
    audit::record(tx, caller, state.id, &state.name, what).await?;
    let unsettled = overlapping(tx, state.id, &claims).await?;
    let held = store::find_reservation(tx, id).await?.unwrap_or(held);
    Ok((held, claims, unsettled))
}

/// Locks the reservation that the caller says it holds, if it does.
pub(crate) async fn hold(
    tx: &mut WorkspaceTx,
    id: Uuid,
    token: i64,
) -> Result<Reservation, EngineError> {
    if let Some(held) = store::lock_held(tx, id, token).await? {
        return Ok(held);
    }
    let ended = store::find_reservation(tx, id).await?;
    if let Some(ended) = &ended
        && !holds(Rule::Liveness)
    {
        return Ok(ended.clone());
    }
    Err(EngineError::LeaseLost {
        reason: ended
            .and_then(|ended| ended.end_reason)
            .unwrap_or_else(|| "the token is not that of the reservation".to_owned()),
        kept: false,
    })
}
