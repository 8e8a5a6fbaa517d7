//! Graphs that replicas share by way of Redis, so that a large one is made once and not by each of them.
//!
//! A snapshot is of one version, and is brought to a later one by the rows that changed since: an old one is as true as a
//! new one, and a commit publishes nothing. Whoever built a graph publishes it, and whoever has patched much of one since.
//! All of it may be lost, late or wrong at any time; what is not proven to be the graph asked for is not used.

use std::sync::Arc;
use std::time::Duration;

use coordination::{Away, Label, Shelf, StateKey};
use protocol::WorkspaceId;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::packing::SnapshotKey;
use super::{Cached, GraphKey, StateGraph};

/// How long a graph that another replica builds is waited for, before this one builds it itself.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(40);
/// Packing takes a core and the memory of a second graph.
const PACKED_AT_ONCE: usize = 1;

/// The snapshots of a deployment.
pub(super) struct Shared {
    shelf: Option<Shelf>,
    key: SnapshotKey,
    packing: Arc<Semaphore>,
}

/// What came of the question who builds a graph.
pub(super) enum Building {
    /// This replica does.
    Own(Lease),
    /// Another replica has, and this is its snapshot.
    Done(Cached),
    /// There is nobody to ask.
    Alone,
}

/// The leave to build a graph for all replicas.
pub(super) struct Lease {
    shelf: Shelf,
    key: StateKey,
    version: Uuid,
}

impl Shared {
    pub(super) fn new(shelf: Option<Shelf>, deployment_key: &[u8; 32]) -> Self {
        Self {
            shelf,
            key: SnapshotKey::new(deployment_key),
            packing: Arc::new(Semaphore::new(PACKED_AT_ONCE)),
        }
    }

    /// The newest snapshot of a state that is not younger than this version.
    pub(super) async fn find(
        &self,
        workspace: &WorkspaceId,
        state: Uuid,
        seq: i64,
    ) -> Option<Cached> {
        let shelf = self.shelf.as_ref()?;
        let place = state_key(workspace, state);
        let shelved = shelf.find(&place).await.ok()??;
        let label = shelved.label;
        if label.seq > seq {
            return None;
        }
        let of = GraphKey {
            workspace: workspace.clone(),
            state,
            seq: label.seq,
            version: label.version,
        };
        let unpacked =
            tokio::task::block_in_place(|| self.key.unpack(&of, label.digest, &shelved.bytes));
        match unpacked {
            Ok(graph) => Some(Cached {
                key: of,
                graph: Arc::new(StateGraph::new(graph)),
            }),
            Err(error) => {
                tracing::error!(
                    error = %telemetry::Chain(&error), state.id = %state, seq = label.seq,
                    "a snapshot of a graph is not the one that its key names"
                );
                telemetry::snapshot_refused();
                let _ = shelf.discard(&place, &label).await;
                None
            }
        }
    }

    /// Whether this replica is to build a graph that nobody has, or another one has done so meanwhile.
    pub(super) async fn ask_to_build(&self, key: &GraphKey) -> Building {
        let Some(shelf) = &self.shelf else {
            return Building::Alone;
        };
        let state = state_key(&key.workspace, key.state);
        let until = Instant::now() + PATIENCE;
        loop {
            match shelf.begin_building(&state, key.version).await {
                Ok(true) => {
                    let lease = Lease {
                        shelf: shelf.clone(),
                        key: state,
                        version: key.version,
                    };
                    // Somebody may have come to an end since this one looked.
                    return match self.find_this(key).await {
                        Some(found) => {
                            lease.give_back().await;
                            Building::Done(found)
                        }
                        None => Building::Own(lease),
                    };
                }
                Ok(false) if Instant::now() < until => {}
                Ok(false) | Err(Away) => return Building::Alone,
            }
            sleep(LOOK).await;
            if let Some(found) = self.find_this(key).await {
                return Building::Done(found);
            }
        }
    }

    /// The snapshot of this very version.
    async fn find_this(&self, key: &GraphKey) -> Option<Cached> {
        let shelf = self.shelf.as_ref()?;
        let state = state_key(&key.workspace, key.state);
        let label = shelf.find_label(&state).await.ok()??;
        if label.seq != key.seq {
            return None;
        }
        self.find(&key.workspace, key.state, key.seq).await
    }

    /// Publishes a graph in the background, and gives the leave to build it back.
    pub(super) fn publish(&self, key: &GraphKey, graph: &Arc<StateGraph>, lease: Option<Lease>) {
        let Some(shelf) = self.shelf.clone() else {
            return;
        };
        let (key, graph, signer) = (key.clone(), Arc::clone(graph), self.key.clone());
        let packing = Arc::clone(&self.packing);
        tokio::spawn(async move {
            let Ok(_turn) = packing.acquire().await else {
                return;
            };
            let of = key.clone();
            let packed = tokio::task::spawn_blocking(move || signer.pack(&of, graph.realized()));
            if let Ok(Some(packed)) = packed.await {
                let label = Label {
                    seq: key.seq,
                    version: key.version,
                    digest: packed.digest,
                };
                // Best effort: who does not find it builds a graph.
                let place = state_key(&key.workspace, key.state);
                let _ = shelf.put(&place, &label, &packed.bytes).await;
            }
            if let Some(lease) = lease {
                lease.give_back().await;
            }
        });
    }
}

impl Lease {
    /// Lets another replica build the graph.
    pub(super) async fn give_back(self) {
        // It ends by itself.
        let _ = self.shelf.end_building(&self.key, self.version).await;
    }
}

fn state_key(workspace: &WorkspaceId, state: Uuid) -> StateKey {
    StateKey {
        workspace: workspace.as_str().to_owned(),
        state,
    }
}
