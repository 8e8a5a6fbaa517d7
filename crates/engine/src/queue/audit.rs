//! Holding the index against the ledger: what it was not told, or lost, it is told again.
//!
//! A message to the index may be lost, and the index with it. Both show in the gens: the ledger's says how much happened, the
//! index's how much of that it knows. One that lags behind at two looks in a row has missed something. A look costs one
//! statement for each workspace, however many wait.

use std::collections::HashMap;
use std::time::Instant;

use coordination::{Contention, Index, Mark, StateKey};
use locking::times::{AUDIT, IDLE, SWEEP};
use locking::{Rule, holds};
use uuid::Uuid;

use crate::{Engine, EngineError};

/// What the index knew at the last look of states that it lagged behind in.
type Lagging = HashMap<StateKey, Option<Mark>>;

impl Engine {
    /// Audits the index until dropped: often where somebody waits, seldom where somebody was.
    pub(super) async fn audit_index(&self, index: &Index) {
        let mut lagging = Lagging::new();
        let mut swept = Instant::now();
        loop {
            tokio::time::sleep(AUDIT.duration()).await;
            let mut states = self.queue.wakes.listened();
            if swept.elapsed() >= SWEEP.duration() {
                swept = Instant::now();
                states = self
                    .queue
                    .touched
                    .iter()
                    .map(|(key, _)| (*key).clone())
                    .collect();
            } else {
                // One that lagged behind is looked at again soon, whoever waits.
                states.extend(lagging.keys().cloned());
            }
            states.sort_unstable_by(|one, other| one.workspace.cmp(&other.workspace));
            if !states.is_empty() && index.link().is_usable() && holds(Rule::EndIndex) {
                lagging = self.audit(index, &states, &lagging).await;
            }
        }
    }

    /// Looks at these states, sorted by workspace; answers those in which the index lags behind.
    async fn audit(&self, index: &Index, states: &[StateKey], before: &Lagging) -> Lagging {
        let mut lagging = Lagging::new();
        for states in states.chunk_by(|one, other| one.workspace == other.workspace) {
            match self.audit_workspace(index, states, before).await {
                Ok(found) => lagging.extend(found),
                Err(error) => {
                    tracing::debug!(error = %telemetry::Chain(&error), "the index was not audited");
                }
            }
        }
        lagging
    }

    async fn audit_workspace(
        &self,
        index: &Index,
        states: &[StateKey],
        before: &Lagging,
    ) -> Result<Lagging, EngineError> {
        let mut lagging = Lagging::new();
        let Some(Ok(workspace)) = states.first().map(|key| key.workspace.parse()) else {
            return Ok(lagging);
        };
        let ids: Vec<Uuid> = states.iter().map(|key| key.state).collect();
        let mut tx = self.db.begin_read(&workspace).await?;
        let incarnation = store::incarnation(&mut tx).await?;
        let gens: HashMap<Uuid, i64> = store::ledger_gens(&mut tx, &ids)
            .await?
            .into_iter()
            .collect();
        tx.commit().await?;
        for key in states {
            let Some(r#gen) = gens.get(&key.state) else {
                self.queue.touched.invalidate(key);
                continue;
            };
            // Read after the ledger, the index knows at least as much if it missed nothing.
            let Ok(mark) = index.mark(key).await else {
                return Ok(lagging);
            };
            let knows = |mark: &Mark| mark.incarnation >= incarnation && mark.known_gen >= *r#gen;
            if let Some(mark) = mark.filter(knows) {
                self.forget_if_idle(index, key, mark).await;
            } else if self.queue.wakes.count_places(key) == 0 && mark.is_none() {
                // Nobody needs it now.
                self.queue.touched.invalidate(key);
            } else if before.get(key) == Some(&mark) {
                tracing::info!(state.id = %key.state, r#gen, "the index had missed something, and is loaded");
                let contention = match self.queue.wakes.count_places(key) {
                    0 => Contention::Unknown,
                    _ => Contention::Seen,
                };
                let _ = self.load_index(key, contention).await?;
            } else {
                lagging.insert(key.clone(), mark);
            }
        }
        Ok(lagging)
    }

    async fn forget_if_idle(&self, index: &Index, key: &StateKey, mark: Mark) {
        let idle = |touched: Instant| touched.elapsed() >= IDLE.duration();
        let is_idle = self.queue.touched.get(key).is_some_and(idle);
        if is_idle && index.forget(key, mark).await.is_ok() {
            self.queue.touched.invalidate(key);
        }
    }
}
