//! Having a graph in memory before a transaction begins.
//!
//! A graph that is not there may have to be waited for: for Redis, for another replica that builds it, for another request
//! of this process that does. A transaction that waits holds a connection, and some of them locks. So whoever is about to
//! need the graph of a state asks for it first, and in the transaction finds it, or one that is a few rows behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::{EnvironmentId, StateName, WorkspaceId};
use store::{Form, VersionRef};
use telemetry::GraphSource;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::shared::{Building, Lease};
use super::{Cached, GraphKey, Provenance, StateGraph, built, patched};
use crate::{Caller, Engine, EngineError};

/// How long it is remembered which state a name means. Only the work of asking is saved by it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// What was made for a request before its transaction; nothing where all that it needs was there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prepared(pub(super) Option<Provenance>);

type Place = (WorkspaceId, EnvironmentId, String);

/// What is being prepared, and for which names there was something in memory.
pub(super) struct Preparing {
    states: moka::sync::Cache<Place, Uuid>,
    /// One request at a time prepares the graph of a state, and the others find it.
    turns: moka::sync::Cache<(WorkspaceId, Uuid), Arc<Mutex<()>>>,
}

impl Preparing {
    pub(super) fn new() -> Self {
        Self {
            states: moka::sync::Cache::builder()
                .max_capacity(100_000)
                .time_to_live(REMEMBERED)
                .build(),
            turns: moka::sync::Cache::builder()
                .max_capacity(10_000)
                .time_to_idle(REMEMBERED)
                .build(),
        }
    }
}

impl Engine {
    /// Sees to it that a graph of the state of this name is in memory, if it has a version with rows. A hint, no more:
    /// whether the state is there and what it may be used for is decided in the transaction that follows.
    pub(crate) async fn prepare_graph(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Prepared, EngineError> {
        let (workspace, environment) = (caller.workspace(), caller.environment());
        let place = (
            workspace.clone(),
            environment.clone(),
            name.as_str().to_owned(),
        );
        let preparing = &self.graphs.preparing;
        if let Some(state) = preparing.states.get(&place)
            && self.has_some_graph(workspace, state)
        {
            return Ok(Prepared::default());
        }
        let head = store::find_head_at_once(&self.db, workspace, environment, name).await?;
        let Some(head) = head.filter(|head| head.seq > 0) else {
            return Ok(Prepared::default());
        };
        let turn = preparing
            .turns
            .get_with((workspace.clone(), head.state_id), Arc::default);
        let _turn = turn.lock().await;
        let mut prepared = Prepared::default();
        if !self.has_some_graph(workspace, head.state_id) {
            prepared.0 = self.prepare(workspace, head.state_id, head.seq).await?;
        }
        preparing.states.insert(place, head.state_id);
        Ok(prepared)
    }

    /// Whether the graph of some version of a state is in memory.
    fn has_some_graph(&self, workspace: &WorkspaceId, state: Uuid) -> bool {
        let newest = self.graphs.newest.get(&(workspace.clone(), state));
        newest.is_some_and(|(key, _)| self.graphs.graphs.contains_key(&key))
    }

    async fn prepare(
        &self,
        workspace: &WorkspaceId,
        state: Uuid,
        head_seq: i64,
    ) -> Result<Option<Provenance>, EngineError> {
        let started = Instant::now();
        let shared = &self.graphs.shared;
        let found = shared.find(workspace, state, head_seq).await;
        let found = match found {
            Some(found) if found.key.seq == head_seq => {
                return Ok(Some(self.take(found, started).await));
            }
            found => found,
        };
        let mut tx = self.db.begin_read(workspace).await?;
        let head = store::find_version(&mut tx, state, VersionRef::Head).await?;
        let Some(head) = head.filter(|head| head.form != Form::Opaque) else {
            return Ok(None);
        };
        let key = GraphKey {
            workspace: workspace.clone(),
            state,
            seq: head.seq,
            version: head.id,
        };
        if let Some(found) = found
            && let Some((graph, rows)) = patched(&mut tx, &key, &found).await?
        {
            tx.commit().await?;
            telemetry::graph_loaded(GraphSource::Snapshot, Some(started.elapsed()));
            let graph = Arc::new(graph);
            self.keep(&key, &graph).await;
            self.graphs.note_patched(&key, &graph, rows);
            return Ok(Some(Provenance::Shared { rows }));
        }
        tx.commit().await?;
        let lease = match shared.ask_to_build(&key).await {
            Building::Done(found) => return Ok(Some(self.take(found, started).await)),
            Building::Own(lease) => Some(lease),
            Building::Alone => None,
        };
        self.build(&key, lease, started).await
    }

    async fn build(
        &self,
        key: &GraphKey,
        lease: Option<Lease>,
        started: Instant,
    ) -> Result<Option<Provenance>, EngineError> {
        let graph = async {
            let mut tx = self.db.begin_read(&key.workspace).await?;
            let graph = built(&mut tx, key).await?;
            tx.commit().await?;
            Ok(Arc::new(StateGraph::new(graph)))
        };
        match graph.await {
            Ok(graph) => {
                telemetry::graph_loaded(GraphSource::Built, Some(started.elapsed()));
                self.keep(key, &graph).await;
                self.graphs.shared.publish(key, &graph, lease);
                Ok(Some(Provenance::Built))
            }
            Err(error) => {
                if let Some(lease) = lease {
                    lease.give_back().await;
                }
                Err(error)
            }
        }
    }

    /// Keeps a snapshot. Whether its version is still part of the state's history is asked when it is used for another one.
    async fn take(&self, found: Cached, started: Instant) -> Provenance {
        telemetry::graph_loaded(GraphSource::Snapshot, Some(started.elapsed()));
        self.keep(&found.key, &found.graph).await;
        Provenance::Shared { rows: 0 }
    }

    async fn keep(&self, key: &GraphKey, graph: &Arc<StateGraph>) {
        let cached = Cached {
            key: key.clone(),
            graph: Arc::clone(graph),
        };
        self.graphs.graphs.insert(key.clone(), cached).await;
        self.graphs.note(key).await;
    }
}
