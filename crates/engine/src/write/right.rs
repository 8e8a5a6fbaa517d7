//! What entitles a write: the lock it names, or that nobody holds the state.

use locking::{Rule, holds};
use protocol::StateName;
use store::{Reservation, State, WorkspaceTx};

use super::WriteLock;
use crate::lock::{holder, is_own};
use crate::{Caller, EngineError};

/// The right under which one attempt writes.
pub(super) enum Right {
    Held(Box<Reservation>),
    Unlocked,
}

/// Why a write has no right to the state.
pub(super) enum Refusal {
    /// Its lock existed and has ended.
    Ended(Box<Reservation>),
    Other(EngineError),
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Finds what entitles this write: the lock it names, or that nobody holds the state.
pub(super) async fn find_right(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    name: &StateName,
    lock: WriteLock<'_>,
) -> Result<Right, Refusal> {
    let mut active = store::list_active(tx, state.id).await?;
    let id = match lock {
        WriteLock::None => {
            return match active.iter().find(|held| !held.due) {
                // Whoever waits for a run by writing again would never be told to take the lock.
                Some(held) if held.is_native() => {
                    let held = Some(Box::new(holder(held)));
                    Err(Refusal::Other(EngineError::LockIdMismatch(held)))
                }
                Some(held) => Err(Refusal::Other(EngineError::Locked(Box::new(holder(held))))),
                None => Ok(Right::Unlocked),
            };
        }
        WriteLock::Id(id) => id,
    };
    let own = active.iter().position(|held| is_own(held, caller, id));
    if let Some(own) = own {
        return Ok(Right::Held(Box::new(active.swap_remove(own))));
    }
    match store::find_ended_by_name(tx, caller.environment(), name, id).await? {
        Some(ended) if !holds(Rule::Liveness) => Ok(Right::Held(Box::new(ended))),
        Some(ended) => Err(Refusal::Ended(Box::new(ended))),
        None => {
            let other = active.first().map(|held| Box::new(holder(held)));
            Err(Refusal::Other(EngineError::LockIdMismatch(other)))
        }
    }
}
