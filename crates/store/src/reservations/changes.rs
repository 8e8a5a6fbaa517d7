//! What was committed to a ledger, told to whoever keeps an index of it.
//!
//! Told once, after the commit, and never again: the one who is told must notice what is missing, by the gens.

use graph::claims::Nodes;
use protocol::WorkspaceId;
use uuid::Uuid;

use super::ledger::Reservation;

/// A committed change of the ledger of one state.
#[derive(Debug, Clone)]
pub struct LedgerChange {
    pub workspace: WorkspaceId,
    pub state_id: Uuid,
    pub incarnation: i64,
    pub event: LedgerEvent,
}

/// What changed.
#[derive(Debug, Clone)]
pub enum LedgerEvent {
    /// A reservation was granted, or one that was got more claims.
    Granted {
        id: Uuid,
        idem_key: String,
        granted_gen: i64,
        nodes: Nodes,
        /// Terraform's LockInfo as JSON.
        info: String,
    },
    Ended {
        id: Uuid,
        ended_gen: i64,
    },
    /// Whoever waited in the queue under this key has what it waited for. Told after the grant itself, so that there is no
    /// moment in which the index knows neither the request nor the reservation, and lets somebody else through.
    Served {
        key: String,
    },
    /// Nothing of the ledger: a version, or the beginning or end of a run, for those who watch the state.
    Seen,
}

impl LedgerEvent {
    pub(super) fn granted(granted: &Reservation, nodes: Nodes) -> Self {
        Self::Granted {
            id: granted.id,
            idem_key: granted.idem_key.clone(),
            granted_gen: granted.granted_gen,
            nodes,
            info: granted.info.clone(),
        }
    }
}
