//! Redis: the index of reservations, the queue of those who wait for one, wake-ups, and snapshots of graphs.
//!
//! Postgres says yes, Redis says wait. A reservation exists when its row is committed in the ledger; the index may turn
//! a request away or order it, never grant it. Everything here may be lost, late or wrong at any moment: that costs time
//! and places in the queue, never a reservation. So no function here returns an error that a request fails for: the
//! answer to trouble is [`Away`], and the caller goes to the ledger without the index.
//!
//! The scripts are in `scripts/`, one file each, and travel in the binary. They touch only the five keys of one state,
//! which share a hash tag, so they run on Redis Cluster as they are.
//!
//! Not for: deciding who may hold what (the ledger does), attribute values of resources (none is ever stored in Redis).

mod index;
mod keys;
mod line;
mod link;
mod nodes;
mod queue;
mod servers;
mod shelf;
#[cfg(feature = "testing")]
pub mod testing;
mod ticket;
mod wake;

pub use index::{Admission, Ask, Contention, Held, Index, Loaded, Mark, Queueing};
pub use keys::StateKey;
pub use link::{Away, Link};
pub use queue::{Place, Waiter};
pub use servers::LinkError;
pub use shelf::{Label, Shelf, Shelved};
pub use ticket::{Ticket, TicketKey};
pub use wake::{Wake, Wakes};
