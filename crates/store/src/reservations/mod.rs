//! The ledger of reservations: rows that say who holds what of a state.
//!
//! Lock order, always: lock head, reservation, state, instances. Each is taken by a statement of its
//! own, so that what follows sees everything that was committed during the wait. Who may hold what
//! beside whom is decided by `graph::claims`; [`list_conflicting`] asks the same of rows.

mod at_once;
mod changes;
mod grants;
mod kept;
mod ledger;
mod nodes;
mod renewals;
mod unsettled;

pub use at_once::{release_at_once, reserve_at_once};
pub use changes::{LedgerChange, LedgerEvent};
pub use grants::{NewReservation, grant_if_free, insert_native, insert_whole_state};
pub use kept::*;
pub use ledger::*;
pub(crate) use nodes::claims_of_columns;
pub use nodes::{find_claims, list_conflicting, replace_claims};
pub use renewals::*;
pub use unsettled::*;
