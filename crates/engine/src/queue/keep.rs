//! Keeping the index true: what this process commits to ledgers is told to it.

use std::collections::HashMap;
use std::iter;

use coordination::{Away, Held, Index, StateKey};
use locking::times::{POLICY, POLICY_UNKNOWN};
use locking::{Rule, holds};
use store::{LedgerChange, LedgerEvent};
use tokio::sync::broadcast::error::RecvError;

use crate::Engine;

/// How many changes are told together.
const TOLD_AT_ONCE: usize = 256;

impl Engine {
    /// Tells the index what is committed, listens for what others end, and watches Redis's policy, until dropped.
    pub async fn keep_index(&self) {
        let told = self.tell_changes();
        match &self.queue.index {
            Some(index) => {
                let heard = self.queue.wakes.listen_to(index.link());
                tokio::join!(told, heard, watch_policy(index), self.audit_index(index));
            }
            None => told.await,
        }
    }

    async fn tell_changes(&self) {
        let mut changes = self.db.ledger_changes();
        loop {
            let first = match changes.recv().await {
                Ok(change) => change,
                // What was missed shows in the gens.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            let rest = iter::from_fn(|| changes.try_recv().ok());
            self.tell_all(iter::once(first).chain(rest.take(TOLD_AT_ONCE - 1)))
                .await;
        }
    }

    /// Tells what has come together: of one state in its order, and those who watch it once, of several states side by side.
    async fn tell_all(&self, changes: impl Iterator<Item = LedgerChange>) {
        let mut of_states: HashMap<StateKey, Vec<LedgerChange>> = HashMap::new();
        for change in changes {
            let key = StateKey {
                workspace: change.workspace.as_str().to_owned(),
                state: change.state_id,
            };
            of_states.entry(key).or_default().push(change);
        }
        let told = of_states.iter().map(|(key, changes)| async move {
            let mut outcome = Ok(());
            for change in changes {
                outcome = outcome.and(self.tell(key, change).await);
            }
            // Of an end they hear by the message that wakes those who wait.
            let is_end = |change: &LedgerChange| matches!(change.event, LedgerEvent::Ended { .. });
            if !changes.iter().all(is_end) {
                self.queue.wakes.wake_watching(key);
                if let Some(index) = &self.queue.index {
                    outcome = outcome.and(index.tell_watchers(key).await);
                }
            }
            if outcome.is_err() {
                tracing::debug!(state.id = %key.state, "the index missed a change; it will be loaded");
            }
        });
        futures::future::join_all(told).await;
    }

    /// Tells the index of a change, and wakes who waits for it.
    async fn tell(&self, key: &StateKey, change: &LedgerChange) -> Result<(), Away> {
        let index = self.queue.index.as_ref();
        let incarnation = change.incarnation;
        match (&change.event, index) {
            (LedgerEvent::Granted { .. } | LedgerEvent::Served { .. }, None)
            | (LedgerEvent::Seen, _) => Ok(()),
            (LedgerEvent::Served { key: request }, Some(index)) => index.leave(key, request).await,
            (
                LedgerEvent::Granted {
                    id,
                    idem_key,
                    granted_gen,
                    nodes,
                    info,
                },
                Some(index),
            ) => {
                let held = Held {
                    id: *id,
                    granted_gen: *granted_gen,
                    nodes: nodes.clone(),
                    info: info.clone(),
                };
                locking::point!(ConfirmBefore, else return Ok(()));
                let told = index.confirm(key, incarnation, idem_key, &held).await;
                locking::point!(ConfirmAfter, else return Ok(()));
                told
            }
            (LedgerEvent::Ended { .. }, _) if !holds(Rule::EndIndex) => Ok(()),
            (LedgerEvent::Ended { id, ended_gen }, index) => {
                locking::point!(EndBefore, else return Ok(()));
                let told = match index {
                    Some(index) => index.end(key, incarnation, *id, *ended_gen).await,
                    None => Ok(()),
                };
                // Also where Redis is away: at least those who wait here need not poll.
                if holds(Rule::Wake) {
                    self.queue.wakes.wake(key);
                }
                locking::point!(EndAfter, else return Ok(()));
                told
            }
        }
    }
}

async fn watch_policy(index: &Index) {
    loop {
        let known = index.link().check_policy().await;
        let pause = if known.is_ok() {
            POLICY
        } else {
            POLICY_UNKNOWN
        };
        tokio::time::sleep(pause.duration()).await;
    }
}
