//! What a native client asks before it works on a part of a state: what the state is, which blocks it has, what stands at
//! some addresses, and what depends on what.

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::{ConfigAddress, Neighbours, Object, Reach};
use protocol::StateName;
use store::{Form, RecordedSource, SliceRow, State, Version, VersionRef, WorkspaceTx};

use crate::graphs::StateGraph;
use crate::lock::same_spelling;
use crate::{Caller, Engine, EngineError, slice};

/// What a state is.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// `None` where nothing was ever written, nor planned.
    pub state: Option<State>,
    pub head: Option<Version>,
    /// Who wrote the first version.
    pub creator: Option<String>,
    /// Whether the native lane works on it.
    pub is_native: bool,
    /// Hex digits.
    pub inventory_digest: String,
    /// The blocks in the state that were last written from one of the files asked for.
    pub recorded_sources: Vec<RecordedSource>,
    /// The names of the root outputs, sorted.
    pub outputs: Vec<String>,
}

/// The managed blocks of a state.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// 0 where nothing was ever written.
    pub seq: i64,
    /// Hex digits.
    pub digest: String,
    /// Sorted, each with the file it was last written from, if that was recorded.
    pub blocks: Vec<(String, Option<String>)>,
}

/// A block and what is around it.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub seq: i64,
    /// The instances that the state has of it, sorted.
    pub instances: Vec<String>,
    pub neighbours: Neighbours,
}

/// The objects at some addresses of a version.
#[derive(Debug)]
pub struct SliceObjects {
    pub state: State,
    pub version: Version,
    /// In document order, without shells.
    pub objects: Vec<SliceObject>,
}

/// An object, with the serial of the version that wrote it.
#[derive(Debug)]
pub struct SliceObject {
    pub row: SliceRow,
    pub born_serial: Option<u64>,
}

impl Engine {
    pub async fn resolve(
        &self,
        caller: &Caller,
        name: &StateName,
        files: &[String],
    ) -> Result<Resolved, EngineError> {
        let prepared = self.prepare_graph(caller, name).await?;
        let mut tx = self.begin_read(caller).await?;
        let (state, head) = find(&mut tx, caller, name).await?;
        let is_native = head.as_ref().is_none_or(|head| head.form != Form::Opaque);
        let mut creator = None;
        let mut recorded_sources = Vec::new();
        let mut outputs = Vec::new();
        let mut graph = Arc::new(StateGraph::empty());
        if let (Some(state), Some(head)) = (&state, &head) {
            let first = store::find_version(&mut tx, state.id, VersionRef::Seq(1)).await?;
            creator = first.map(|first| first.created_by);
            if is_native {
                let loaded = self.load_graph(&mut tx, state.id, head, prepared).await?;
                graph = loaded.graph;
                let recorded = store::sources_in_files(&mut tx, state.id, files).await?;
                let is_there = |source: &RecordedSource| graph.has_block(&source.config_address);
                recorded_sources = recorded.into_iter().filter(is_there).collect();
                let living = store::list_live_outputs(&mut tx, state.id).await?;
                outputs = living.into_iter().map(|output| output.name).collect();
                outputs.sort_unstable();
            }
        }
        tx.commit().await?;
        Ok(Resolved {
            state,
            head,
            creator,
            is_native,
            inventory_digest: digest(&graph),
            recorded_sources,
            outputs,
        })
    }

    pub async fn inventory(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Inventory, EngineError> {
        let prepared = self.prepare_graph(caller, name).await?;
        let mut tx = self.begin_read(caller).await?;
        let (state, head) = find(&mut tx, caller, name).await?;
        let mut files = BTreeMap::new();
        let mut graph = Arc::new(StateGraph::empty());
        if let (Some(state), Some(head)) = (&state, &head) {
            let loaded = self.load_graph(&mut tx, state.id, head, prepared).await?;
            graph = loaded.graph;
            let recorded = store::list_sources(&mut tx, state.id).await?;
            files.extend(
                recorded
                    .into_iter()
                    .map(|one| (one.config_address, one.file)),
            );
        }
        tx.commit().await?;
        let blocks = graph.realized().managed_blocks().into_iter();
        let blocks = blocks.map(|block| (block.to_owned(), files.remove(block)));
        Ok(Inventory {
            seq: head.map_or(0, |head| head.seq),
            blocks: blocks.collect(),
            digest: digest(&graph),
        })
    }

    /// What is around a block in the newest version.
    pub async fn surroundings(
        &self,
        caller: &Caller,
        name: &StateName,
        block: &ConfigAddress,
        reach: Reach,
    ) -> Result<Surroundings, EngineError> {
        let prepared = self.prepare_graph(caller, name).await?;
        let mut tx = self.begin_read(caller).await?;
        let (state, head) = find(&mut tx, caller, name).await?;
        let state = state.ok_or(EngineError::NoState)?;
        let head = head.ok_or(EngineError::NoVersion)?;
        let loaded = self.load_graph(&mut tx, state.id, &head, prepared).await?;
        let graph = loaded.graph;
        tx.commit().await?;
        tokio::task::block_in_place(|| {
            let realized = graph.realized();
            let mut instances: Vec<String> = realized
                .instances_of(block)
                .filter(|instance| instance.row.object != Object::Shell)
                .map(|instance| instance.row.address.to_owned())
                .collect();
            instances.sort_unstable();
            instances.dedup();
            let neighbours = realized.neighbours(graph.dependents(), block, reach);
            // What only stands in somebody's dependencies is worth an answer, too.
            if instances.is_empty() && neighbours == Neighbours::default() {
                return Err(EngineError::NoSuchInstance);
            }
            Ok(Surroundings {
                seq: head.seq,
                instances,
                neighbours,
            })
        })
    }

    /// The objects at these addresses in the newest version; what is not there is left out.
    pub async fn slice(
        &self,
        caller: &Caller,
        name: &StateName,
        addresses: &[String],
    ) -> Result<SliceObjects, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let (state, head) = find(&mut tx, caller, name).await?;
        let state = state.ok_or(EngineError::NoState)?;
        let version = head.ok_or(EngineError::NoVersion)?;
        crate::scope::has_rows(&version)?;
        let mut rows = slice::rows_at(&mut tx, state.id, version.seq, addresses).await?;
        rows.retain(|row| row.kind != "shell");
        let mut seqs: Vec<i64> = rows.iter().map(|row| row.born_seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let serials: BTreeMap<i64, Option<String>> = store::serials_of(&mut tx, state.id, &seqs)
            .await?
            .into_iter()
            .collect();
        tx.commit().await?;
        let object = |row: SliceRow| SliceObject {
            born_serial: serials
                .get(&row.born_seq)
                .and_then(|serial| serial.as_ref()?.parse().ok()),
            row,
        };
        Ok(SliceObjects {
            objects: rows.into_iter().map(object).collect(),
            state,
            version,
        })
    }
}

/// The state of this name, if there is one, and its newest version.
async fn find(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    name: &StateName,
) -> Result<(Option<State>, Option<Version>), EngineError> {
    let Some(state) = store::find_state(tx, caller.environment(), name).await? else {
        return Ok((None, None));
    };
    same_spelling(&state, name)?;
    let head = store::find_version(tx, state.id, VersionRef::Head).await?;
    Ok((Some(state), head))
}

fn digest(graph: &StateGraph) -> String {
    tokio::task::block_in_place(|| graph.inventory_digest().to_string())
}
