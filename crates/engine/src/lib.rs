//! The use cases of Kilolock: read, write, lock, roll back, browse. The only place where rules about
//! states meet the store.
//!
//! A use case takes a [`Caller`], which only the authoriser can make; opens one transaction for what
//! must be decided together; and does everything that costs time in proportion to a document outside of
//! it. What is pure (comparison, judgement) stands in functions without I/O.

pub mod archive;
mod audit;
mod audit_chain;
mod browse;
mod caller;
mod commit;
mod compare;
mod documents;
mod error;
mod graphs;
mod keys;
mod lifecycle;
mod lock;
mod native;
mod operations;
mod queue;
mod read;
mod reservations;
mod rollback;
mod runs;
mod scope;
mod slice;
mod tags;
mod tries;
mod watch;
mod write;

use std::sync::Arc;

use coordination::{Index, Shelf};
use store::{Db, LockPolicy, WorkspaceTx};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use browse::Status;
pub use caller::Caller;
pub use error::{Busy, Conflict, EngineError, HeadFacts, Holder};
pub use graphs::{Provenance, StateGraph};
pub use lock::{UnlockTarget, Unlocked};
pub use native::{Inventory, Resolved, SliceObject, SliceObjects, Surroundings};
pub use operations::{
    Asked, Change, ChangeKind, Operated, Operation, Preview, Value, Verb, Wanted,
};
pub use read::{DocumentBody, ReadDocument};
pub use rollback::RolledBack;
pub use runs::{
    Beginner, RunCredential, SelectedCommit, SelectedOutputs, SelectedVersion, UnscopedRun,
    Uploaded,
};
pub use scope::Expanded;
pub use slice::{RenderedSlice, SliceSpec, render_slice};
pub use store::{Source, VersionRef};
pub use tags::is_tag;
pub use watch::{Seen, Standing, Watcher, is_over};
pub use write::{WriteLock, WriteReport, Written};

use crate::documents::Documents;
use crate::graphs::Graphs;
use crate::keys::DataKeys;
use crate::queue::Queue;
use crate::runs::Renewals;
use crate::watch::Watches;

/// Documents above this size are large: few of them are worked on at once.
const LARGE_DOCUMENT_BYTES: usize = 4 * 1024 * 1024;

/// The engine: cheap to clone, shared by every handler of a process. It keeps nothing that another
/// replica would miss.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub struct Inner {
    db: Db,
    documents: Documents,
    graphs: Graphs,
    data_keys: DataKeys,
    queue: Queue,
    renewals: Renewals,
    watches: Watches,
    /// Bounds how many large documents are split and compared at the same time: the work saturates a
    /// core each, and more would only starve small requests.
    large_documents: Semaphore,
}

impl std::ops::Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Engine {
    /// An engine over this database. `deployment_key` wraps the data keys of workspaces. Without an `index` of reservations
    /// waiters poll the ledger, in no order; without a `shelf` of snapshots each replica builds the graphs it needs.
    #[must_use]
    pub fn new(
        db: Db,
        deployment_key: &[u8; 32],
        index: Option<Index>,
        shelf: Option<Shelf>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self(Arc::new(Inner {
            db,
            documents: Documents::new(),
            graphs: Graphs::new(shelf, deployment_key),
            data_keys: DataKeys::new(deployment_key),
            queue: Queue::new(index, deployment_key),
            renewals: Renewals::default(),
            watches: Watches::default(),
            large_documents: Semaphore::new(cores),
        }))
    }

    /// Keeps the service's heartbeat until dropped. A failed beat is retried at the next: leases do not end while nobody
    /// beats.
    pub async fn keep_beating(&self) {
        let mut ticks = tokio::time::interval(locking::times::BEAT.duration());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = store::beat(&self.db).await {
                tracing::warn!(%error, "the heartbeat was not written");
            }
        }
    }

    async fn begin(&self, caller: &Caller) -> Result<WorkspaceTx, store::Error> {
        self.db.begin(caller.workspace()).await
    }

    async fn begin_read(&self, caller: &Caller) -> Result<WorkspaceTx, store::Error> {
        self.db.begin_read(caller.workspace()).await
    }

    /// What the caller's environment demands of writes and locks.
    async fn lock_policy(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
    ) -> Result<LockPolicy, store::Error> {
        store::lock_policy(tx, caller.environment()).await
    }

    /// Waits for a place among the large documents being worked on; small ones need none.
    async fn admit_document(&self, size: usize) -> Option<SemaphorePermit<'_>> {
        if size < LARGE_DOCUMENT_BYTES {
            return None;
        }
        self.large_documents.acquire().await.ok()
    }
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
