//! Scopes: which part of a state an operation sees, may write, and has to claim.
//!
//! What a scope means is decided in the crate `graph`; here a request meets the graph of a version and what was recorded
//! about files.

mod answer;
mod request;

use std::sync::Arc;
use std::time::Instant;

use graph::scope::ScopeContract;
use protocol::StateName;
use protocol::scope as wire;
use store::{Form, Version, VersionRef, WorkspaceTx};
use uuid::Uuid;

use crate::graphs::{Loaded, Prepared, Provenance, StateGraph};
use crate::lock::same_spelling;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};
use answer::Work;
use request::Asked;
pub(crate) use request::read_sources;

/// A scope worked out on one version of a state.
#[derive(Debug, Clone)]
pub struct Expanded {
    /// `None` where there is no state of that name.
    pub state: Option<Uuid>,
    /// The version; 0 where nothing was ever written.
    pub seq: i64,
    pub serial: Option<u64>,
    pub lineage: Option<String>,
    pub graph: Arc<StateGraph>,
    pub contract: ScopeContract,
    /// The contract as clients get it.
    pub wire: wire::ScopeContract,
}

impl Engine {
    /// Works out a scope on the newest version of a state. A state without one is empty.
    pub async fn expand(
        &self,
        caller: &Caller,
        name: &StateName,
        request: &wire::ScopeRequest,
    ) -> Result<Expanded, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_expand(caller, name, request).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_expand(
        &self,
        caller: &Caller,
        name: &StateName,
        request: &wire::ScopeRequest,
    ) -> Result<Expanded, EngineError> {
        let prepared = self.prepare_graph(caller, name).await?;
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name).await?;
        let (id, head) = match &state {
            None => (None, None),
            Some(state) => {
                same_spelling(state, name)?;
                let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
                (Some(state.id), head)
            }
        };
        let expanded = self
            .expand_at(&mut tx, id, head.as_ref(), request, prepared)
            .await?;
        tx.commit().await?;
        Ok(expanded)
    }

    /// Works out a scope on this version, inside a transaction that sees it. `version` must be committed: what is learnt
    /// about it is remembered.
    pub(crate) async fn expand_at(
        &self,
        tx: &mut WorkspaceTx,
        state: Option<Uuid>,
        version: Option<&Version>,
        request: &wire::ScopeRequest,
        prepared: Prepared,
    ) -> Result<Expanded, EngineError> {
        let started = Instant::now();
        let mut asked = Asked::read(request)?;
        let loaded = match (state, version) {
            (Some(state), Some(version)) => self.load_graph(tx, state, version, prepared).await?,
            _ => Loaded {
                graph: Arc::new(StateGraph::empty()),
                provenance: Provenance::Built,
            },
        };
        let graph = loaded.graph;
        if let Some(state) = state {
            let recorded = store::sources_in_files(tx, state, &asked.files).await?;
            asked.remove_what_left(&graph, &recorded);
        }
        let (contract, dependents) = tokio::task::block_in_place(|| {
            let contract = graph::scope::expand(graph.realized(), &asked.request);
            let dependents = graph.dependents_of(&contract.write_targets);
            (contract, dependents)
        });
        let work = Work {
            provenance: loaded.provenance,
            duration: started.elapsed(),
        };
        Ok(Expanded {
            state,
            seq: version.map_or(0, |version| version.seq),
            serial: version.and_then(|version| version.serial.as_ref()?.parse().ok()),
            lineage: version.and_then(|version| version.lineage.clone()),
            wire: answer::contract(&contract, dependents, &work),
            graph,
            contract,
        })
    }
}

/// Refuses a version that has no rows.
pub(crate) fn has_rows(version: &Version) -> Result<(), EngineError> {
    match version.form {
        Form::Rows | Form::Kept => Ok(()),
        Form::Opaque => Err(EngineError::Opaque(
            version.opaque_reason.clone().unwrap_or_default(),
        )),
    }
}
