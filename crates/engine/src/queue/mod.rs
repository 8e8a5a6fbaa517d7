//! Waiting for a busy scope: the index of reservations in Redis turns away and orders, the ledger grants.
//!
//! Everything here makes the way to the ledger shorter or fairer, and none of it is needed for what the ledger promises.
//! Without Redis requests go to the ledger as they come, a few at a time.

mod admission;
mod audit;
mod keep;
mod wait;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use coordination::{Index, Place, StateKey, TicketKey, Wakes};
use locking::times::SETTLING;
use sha2::{Digest as _, Sha256};
use store::State;
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use admission::{Entry, Request};
pub(crate) use wait::Waiting;

use crate::Caller;

/// How many requests at a time go to the ledger of a replica that has lost its index.
const WITHOUT_INDEX: usize = 8;

/// The queue of one process.
pub(crate) struct Queue {
    index: Option<Index>,
    pub(crate) wakes: Wakes,
    tickets: TicketKey,
    /// The database's incarnation as last seen; an index of another one is rebuilt.
    incarnation: AtomicI64,
    without_index: Semaphore,
    /// The states that the index was asked about, with when that was last.
    touched: moka::sync::Cache<StateKey, Instant>,
}

/// How many states a process keeps an eye on.
const TOUCHED: u64 = 100_000;

/// Leave to ask the ledger.
pub(crate) struct Pass<'q> {
    /// Whether the index should have been asked and was away.
    pub(crate) degraded: bool,
    _place: Option<SemaphorePermit<'q>>,
}

impl Pass<'_> {
    /// The index lets through, or cannot know better.
    fn open() -> Self {
        Self {
            degraded: false,
            _place: None,
        }
    }
}

impl Queue {
    pub(crate) fn new(index: Option<Index>, deployment_key: &[u8; 32]) -> Self {
        let ticket_key = Sha256::new_with_prefix(b"kilolock queue tickets 1\n")
            .chain_update(deployment_key)
            .finalize();
        Self {
            index,
            wakes: Wakes::default(),
            tickets: TicketKey::new(ticket_key.into()),
            incarnation: AtomicI64::new(0),
            without_index: Semaphore::new(WITHOUT_INDEX),
            touched: moka::sync::Cache::new(TOUCHED),
        }
    }

    fn incarnation(&self) -> i64 {
        self.incarnation.load(Ordering::Relaxed)
    }
}

/// How long an index has been settling before the eyes of one request.
#[derive(Default)]
pub(crate) struct Settling(Option<tokio::time::Instant>);

impl Settling {
    /// Whether the request is to wait for it a little longer. An index that settles much longer than it may says nonsense, or
    /// its clock has leapt: then the request goes on as if somebody were in its way.
    pub(crate) fn goes_on(&mut self, place: &Place) -> bool {
        if !place.is_settling() {
            self.0 = None;
            return false;
        }
        let since = self.0.get_or_insert_with(tokio::time::Instant::now);
        since.elapsed() < 2 * SETTLING.duration()
    }
}

/// The state's name in the index.
fn state_key(caller: &Caller, state: &State) -> StateKey {
    StateKey {
        workspace: caller.workspace().as_str().to_owned(),
        state: state.id,
    }
}
