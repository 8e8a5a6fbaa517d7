//! Dependency graphs in memory, each by the identity of the version it is the graph of.
//!
//! A version never changes, so nothing here grows stale. The graph of a new version is made from that of an older one by
//! the rows that were born and that died in between: one in memory, or else one that another replica has published. Only
//! where there is none it is built from all rows. However many requests wait for a graph, on however many replicas, it is
//! made once. Whoever waits for another replica holds no transaction meanwhile (`prepare`).

mod packing;
mod prepare;
mod shared;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use coordination::Shelf;
use graph::scope::Target;
use graph::{
    ConfigAddress, Dependents, GraphBuilder, GraphError, InstanceRow, Object, Patch, RealizedGraph,
    RowRef, Seq,
};
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use protocol::WorkspaceId;
use store::{Changes, DeadRow, GraphRow, Version, WorkspaceTx};
use telemetry::GraphSource;
use tfstate::Digest;
use uuid::Uuid;

pub(crate) use self::prepare::Prepared;
use self::prepare::Preparing;
use self::shared::Shared;
use crate::scope::has_rows;
use crate::{Engine, EngineError};

/// All graphs kept by one process: about eight of the largest states there should be.
const CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// The graph of one version, with what is derived from it when it is first asked for.
#[derive(Debug)]
pub struct StateGraph {
    realized: RealizedGraph,
    dependents: OnceLock<Arc<Dependents>>,
    /// Whether somebody has asked who depends on something.
    was_asked: AtomicBool,
    inventory_digest: OnceLock<Digest>,
}

impl StateGraph {
    pub(crate) fn new(realized: RealizedGraph) -> Self {
        Self {
            realized,
            dependents: OnceLock::new(),
            was_asked: AtomicBool::new(false),
            inventory_digest: OnceLock::new(),
        }
    }

    /// The graph of a later version, with what was derived from this one where it still holds: most versions change
    /// attributes alone.
    fn next(&self, realized: RealizedGraph) -> Self {
        let is_alike = realized.has_shape_of(&self.realized);
        let next = Self::new(realized);
        if !is_alike {
            return next;
        }
        Self {
            dependents: self.dependents.clone(),
            was_asked: AtomicBool::new(self.was_asked.load(Ordering::Relaxed)),
            inventory_digest: self.inventory_digest.clone(),
            ..next
        }
    }

    /// The graph of a state without a version.
    pub(crate) fn empty() -> Self {
        Self::new(RealizedGraph::empty(Seq(0)))
    }

    #[must_use]
    pub fn realized(&self) -> &RealizedGraph {
        &self.realized
    }

    /// The graph backwards.
    pub fn dependents(&self) -> &Dependents {
        self.dependents
            .get_or_init(|| Arc::new(Dependents::of(&self.realized)))
    }

    /// The blocks outside of what `targets` mean that are recorded to depend on something in it.
    pub fn dependents_of(&self, targets: &[Target]) -> Vec<String> {
        // Nothing is outside of everything.
        if targets.contains(&Target::Everything) {
            return Vec::new();
        }
        // Many a graph is asked once before the next version is there. The graph backwards is for one that is asked again.
        if self.dependents.get().is_none() && !self.was_asked.swap(true, Ordering::Relaxed) {
            return graph::scope::dependents_at_once(&self.realized, targets);
        }
        graph::scope::dependents(&self.realized, self.dependents(), targets)
    }

    /// Whether the state has an object of the block with this address.
    pub(crate) fn has_block(&self, address: &str) -> bool {
        let block: Option<ConfigAddress> = address.parse().ok();
        block.is_some_and(|block| {
            let mut instances = self.realized.instances_of(&block);
            instances.any(|one| one.row.object != Object::Shell)
        })
    }

    /// SHA-256 over the managed blocks of the state, sorted, each followed by a line feed.
    pub fn inventory_digest(&self) -> Digest {
        *self.inventory_digest.get_or_init(|| {
            let mut text = String::new();
            for block in self.realized.managed_blocks() {
                text.push_str(block);
                text.push('\n');
            }
            Digest::of(text.as_bytes())
        })
    }

    /// What a place in the cache costs. The graph backwards is made after it got there, and is about a quarter of it.
    fn weight(&self) -> u32 {
        let bytes = self.realized.size_bytes();
        u32::try_from(bytes + bytes / 4).unwrap_or(u32::MAX)
    }
}

/// Where a graph came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    Cached,
    Patched {
        /// Rows that were read for it.
        rows: usize,
    },
    /// From what another replica published.
    Shared {
        /// Rows that were read to bring it up to date.
        rows: usize,
    },
    Built,
}

/// A graph, and where it came from.
pub(crate) struct Loaded {
    pub(crate) graph: Arc<StateGraph>,
    pub(crate) provenance: Provenance,
}

/// A version by all its names. The id is drawn anew for each version, so not even a database that was restored to an
/// earlier moment, and gives a number out again, is mistaken for what it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GraphKey {
    workspace: WorkspaceId,
    state: Uuid,
    seq: i64,
    version: Uuid,
}

/// The value repeats its key: an answer that belongs to another is a miss and an alarm, whatever went wrong beneath.
#[derive(Debug, Clone)]
struct Cached {
    key: GraphKey,
    graph: Arc<StateGraph>,
}

pub(crate) struct Graphs {
    graphs: Cache<GraphKey, Cached>,
    /// For each state the newest version whose graph was made here, and the one that was it before.
    newest: moka::sync::Cache<(WorkspaceId, Uuid), (GraphKey, Option<GraphKey>)>,
    shared: Shared,
    preparing: Preparing,
    /// For each state how many rows were patched here since its graph was last published.
    unpublished: moka::sync::Cache<(WorkspaceId, Uuid), usize>,
}

/// After as many patched rows a graph is published again, or a tenth of its instances if that is more: so many are quickly
/// read, and publishing costs as much as the graph is large.
const UNPUBLISHED_ROWS: usize = 1_000;

impl Graphs {
    pub(crate) fn new(shelf: Option<Shelf>, deployment_key: &[u8; 32]) -> Self {
        let graphs = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_, cached: &Cached| cached.graph.weight())
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self {
            graphs,
            newest: moka::sync::Cache::new(100_000),
            shared: Shared::new(shelf, deployment_key),
            preparing: Preparing::new(),
            unpublished: moka::sync::Cache::new(100_000),
        }
    }

    async fn get(&self, key: &GraphKey) -> Option<Arc<StateGraph>> {
        let cached = self.graphs.get(key).await?;
        if cached.key == *key {
            return Some(cached.graph);
        }
        tracing::error!(state.id = %key.state, seq = key.seq, "a cached graph is not the one asked for");
        self.graphs.invalidate(key).await;
        None
    }

    /// The graph of an older version of the same state.
    async fn before(&self, key: &GraphKey) -> Option<Cached> {
        let (newest, _) = self.newest.get(&(key.workspace.clone(), key.state))?;
        let is_older =
            newest.workspace == key.workspace && newest.state == key.state && newest.seq < key.seq;
        let graph = if is_older {
            self.get(&newest).await
        } else {
            None
        }?;
        Some(Cached { key: newest, graph })
    }

    /// Notes that the graph of this version was made. The one before stays for those whose transaction began just before
    /// the commit; what came before that goes.
    async fn note(&self, key: &GraphKey) {
        let state = (key.workspace.clone(), key.state);
        let known = self.newest.get(&state);
        if known
            .as_ref()
            .is_some_and(|(known, _)| known.seq >= key.seq)
        {
            return;
        }
        let (before, gone) = known.unzip();
        self.newest.insert(state, (key.clone(), before));
        if let Some(gone) = gone.flatten() {
            self.graphs.invalidate(&gone).await;
        }
    }

    /// Counts rows that were patched; publishes the graph once they are many.
    fn note_patched(&self, key: &GraphKey, graph: &Arc<StateGraph>, rows: usize) {
        let state = (key.workspace.clone(), key.state);
        let rows = self.unpublished.get(&state).unwrap_or_default() + rows;
        if rows > UNPUBLISHED_ROWS.max(graph.realized().instance_count() / 10) {
            self.unpublished.invalidate(&state);
            self.shared.publish(key, graph, None);
        } else {
            self.unpublished.insert(state, rows);
        }
    }
}

impl Engine {
    /// The graph of a committed version that `tx` sees. Waits for nothing but the database and who else asks it for this
    /// graph: whoever may find that there is none in memory calls [`Self::prepare_graph`] before it begins.
    pub(crate) async fn load_graph(
        &self,
        tx: &mut WorkspaceTx,
        state: Uuid,
        version: &Version,
        prepared: Prepared,
    ) -> Result<Loaded, EngineError> {
        has_rows(version)?;
        let key = GraphKey {
            workspace: tx.workspace().clone(),
            state,
            seq: version.seq,
            version: version.id,
        };
        if let Some(graph) = self.graphs.get(&key).await {
            if prepared.0.is_none() {
                telemetry::graph_loaded(GraphSource::Memory, None);
            }
            return Ok(Loaded {
                graph,
                provenance: prepared.0.unwrap_or(Provenance::Cached),
            });
        }
        // Stays so for those who waited while another request made the graph.
        let mut provenance = Provenance::Cached;
        let made = self
            .graphs
            .graphs
            .try_get_with(key.clone(), async {
                let (graph, how) = self.make_graph(tx, &key).await?;
                provenance = how;
                Ok(Cached {
                    key: key.clone(),
                    graph,
                })
            })
            .await;
        match made {
            Ok(cached) => Ok(Loaded {
                graph: cached.graph,
                provenance,
            }),
            // The error belongs to all who waited. Whoever cannot have it makes one of its own.
            Err(shared) => match Arc::try_unwrap(shared) {
                Ok(error) => Err(error),
                Err(_) => {
                    let (graph, provenance) = self.make_graph(tx, &key).await?;
                    Ok(Loaded { graph, provenance })
                }
            },
        }
    }

    async fn make_graph(
        &self,
        tx: &mut WorkspaceTx,
        key: &GraphKey,
    ) -> Result<(Arc<StateGraph>, Provenance), EngineError> {
        let started = Instant::now();
        if let Some(before) = self.graphs.before(key).await
            && let Some((graph, rows)) = patched(tx, key, &before).await?
        {
            let graph = Arc::new(graph);
            self.graphs.note(key).await;
            self.graphs.note_patched(key, &graph, rows);
            telemetry::graph_loaded(GraphSource::Patched, Some(started.elapsed()));
            return Ok((graph, Provenance::Patched { rows }));
        }
        let graph = Arc::new(StateGraph::new(built(tx, key).await?));
        self.graphs.note(key).await;
        self.graphs.shared.publish(key, &graph, None);
        telemetry::graph_loaded(GraphSource::Built, Some(started.elapsed()));
        Ok((graph, Provenance::Built))
    }
}

/// The graph of an older version brought to this one, and how many rows that took. `None` if it must be built anew.
async fn patched(
    tx: &mut WorkspaceTx,
    key: &GraphKey,
    before: &Cached,
) -> Result<Option<(StateGraph, usize)>, EngineError> {
    let (from, to) = (before.key.seq, key.seq);
    let base = (from, before.key.version);
    let Some(changes) = store::changes_since(tx, key.state, base, to).await? else {
        return Ok(None);
    };
    let Changes { dead, born } = &changes;
    let outcome = tokio::task::block_in_place(|| {
        let closed: Vec<RowRef<'_>> = dead.iter().map(dead_row).collect();
        let rows: Vec<InstanceRow<'_>> = born.iter().map(graph_row).collect();
        let patch = Patch {
            from: Seq(from.unsigned_abs()),
            to: Seq(to.unsigned_abs()),
            closed: &closed,
            born: &rows,
        };
        before.graph.realized().clone().patched(&patch)
    });
    match outcome {
        Ok(graph) => Ok(Some((before.graph.next(graph), dead.len() + born.len()))),
        Err(error) => {
            tracing::error!(%error, state.id = %key.state, from, to, "a graph could not be patched and is built anew");
            Ok(None)
        }
    }
}

async fn built(tx: &mut WorkspaceTx, key: &GraphKey) -> Result<RealizedGraph, EngineError> {
    let mut builder = GraphBuilder::new(Seq(key.seq.unsigned_abs()));
    store::each_graph_row(tx, key.state, key.seq, |row| {
        builder
            .add(graph_row(&row))
            .map_err(|error| not_a_graph(&error, key))
    })
    .await?;
    Ok(builder.finish())
}

fn not_a_graph(error: &GraphError, key: &GraphKey) -> EngineError {
    tracing::error!(%error, state.id = %key.state, seq = key.seq, "the rows of a version make no graph");
    EngineError::Damaged {
        seq: key.seq,
        what: "its rows make no graph",
    }
}

fn graph_row(row: &GraphRow) -> InstanceRow<'_> {
    InstanceRow {
        row: RowRef {
            address: &row.address,
            object: object(&row.kind, row.deposed.as_deref()),
        },
        config_address: &row.config_address,
        dependencies: &row.dependencies,
        born: Seq(row.born_seq.unsigned_abs()),
    }
}

fn dead_row(row: &DeadRow) -> RowRef<'_> {
    RowRef {
        address: &row.address,
        object: object(&row.kind, row.deposed.as_deref()),
    }
}

fn object<'r>(kind: &str, deposed: Option<&'r str>) -> Object<'r> {
    match (kind, deposed) {
        ("shell", _) => Object::Shell,
        ("deposed", Some(key)) => Object::Deposed(key),
        _ => Object::Current,
    }
}
