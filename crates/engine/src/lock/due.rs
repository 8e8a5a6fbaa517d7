//! Ending what is overdue.

use store::{End, Reservation, State, WorkspaceTx};

use super::lock_info;
use crate::reservations::end_held;
use crate::{Caller, EngineError, audit};

/// Ends every reservation of the state whose lease and lock delay have run out, unless the service has
/// been away lately. The caller holds the ledger.
pub(crate) async fn end_due(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
) -> Result<(), EngineError> {
    let active = store::list_active(tx, state.id).await?;
    end_those_due(tx, caller, state, active).await
}

/// As [`end_due`], of these reservations.
pub(crate) async fn end_those_due(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    held: Vec<Reservation>,
) -> Result<(), EngineError> {
    let due: Vec<_> = held.into_iter().filter(|held| held.due).collect();
    if due.is_empty() {
        return Ok(());
    }
    // A renewal may be on its way until its row is locked, so who is due is read again once none can be.
    for held in &due {
        store::lock_active(tx, held.id).await?;
    }
    let active = store::list_active(tx, state.id).await?;
    if !store::may_expire(tx).await? {
        return Ok(());
    }
    let still_due = active
        .into_iter()
        .filter(|held| held.due && due.iter().any(|known| known.id == held.id));
    for held in still_due {
        end_held(tx, &held, End::Expired, "its lease ran out").await?;
        audit::record(
            tx,
            caller,
            state.id,
            &state.name,
            audit::What::LockExpired {
                lock: &lock_info(&held),
            },
        )
        .await?;
    }
    Ok(())
}
