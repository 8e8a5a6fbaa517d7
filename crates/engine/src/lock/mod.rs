//! Terraform's lock and the administrative lock: reservations of a whole state in the ledger.
//!
//! Terraform re-sends LOCK and UNLOCK with the same bytes when an answer was lost, never renews, and
//! force-unlocks with an empty body that names nothing; every rule here follows from that
//! (docs/http-lane.md).

mod due;
mod give;
mod take;

pub(crate) use due::{end_due, end_those_due};
pub use give::{UnlockTarget, Unlocked};

use protocol::{LockInfo, StateName};
use store::{Lane, Lifecycle, Reservation, State};

use crate::{Caller, EngineError, Holder};

/// What Terraform calls the lock of an apply, be it one that destroys.
pub(crate) const TERRAFORM_APPLY: &str = "OperationTypeApply";

/// Names are one segment, unique without regard to case: another spelling is a mistake, and must not
/// look like a state that was never written.
pub(crate) fn same_spelling(state: &State, name: &StateName) -> Result<(), EngineError> {
    if state.name == name.as_str() {
        Ok(())
    } else {
        Err(EngineError::NameCase {
            stored: state.name.clone(),
        })
    }
}

/// Whether this is the Terraform lock that the caller itself took under this ID. An ID is shown to everybody who meets
/// the lock, so it proves nothing without the principal.
pub(crate) fn is_own(held: &Reservation, caller: &Caller, id: &str) -> bool {
    held.idem_key == id
        && held.lane == Lane::Terraform.as_str()
        && held.principal_id == caller.principal().as_str()
}

pub(crate) fn lock_info(held: &Reservation) -> LockInfo {
    LockInfo::from_slice(held.info.as_bytes()).unwrap_or_else(|_| LockInfo {
        id: held.idem_key.clone(),
        created: Some(held.created_at),
        ..LockInfo::default()
    })
}

pub(crate) fn holder(held: &Reservation) -> Holder {
    Holder {
        info: lock_info(held),
        reservation: held.id,
        run: held.run_id,
        lane: held.lane.clone(),
        principal: held.principal_id.clone(),
        since: held.created_at,
        last_active: held.last_active_at,
        expires_at: held.expires_at,
    }
}

/// A state that takes no writes is not locked either: nothing would come of it.
pub(crate) fn not_read_only(state: &State) -> Result<(), EngineError> {
    match state.lifecycle {
        Lifecycle::Active | Lifecycle::Deleted => Ok(()),
        Lifecycle::Archived => Err(EngineError::NotWritable("archived")),
        Lifecycle::Importing => Err(EngineError::NotWritable("being imported")),
    }
}
