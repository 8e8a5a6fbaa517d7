//! Keeping the index true: what this process commits to ledgers is told to it.

use coordination::{Held, Index, StateKey};
use locking::times::{POLICY, POLICY_UNKNOWN};
use locking::{Rule, holds};
use store::{LedgerChange, LedgerEvent};
use tokio::sync::broadcast::error::RecvError;

use crate::Engine;

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
            match changes.recv().await {
                Ok(change) => self.tell(&change).await,
                // What was missed shows in the gens.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn tell(&self, change: &LedgerChange) {
        let key = StateKey {
            workspace: change.workspace.as_str().to_owned(),
            state: change.state_id,
        };
        let incarnation = change.incarnation;
        let told = match (&change.event, &self.queue.index) {
            (LedgerEvent::Granted { .. } | LedgerEvent::Seen, None) => {
                self.queue.wakes.wake_watching(&key);
                Ok(())
            }
            (LedgerEvent::Served { .. }, None) => return,
            (LedgerEvent::Served { key: request }, Some(index)) => {
                let told = index.leave(&key, request).await;
                self.queue.wakes.wake_watching(&key);
                told.and(index.tell_watchers(&key).await)
            }
            (LedgerEvent::Seen, Some(index)) => {
                self.queue.wakes.wake_watching(&key);
                index.tell_watchers(&key).await
            }
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
                locking::point!(ConfirmBefore, else return);
                let told = index.confirm(&key, incarnation, idem_key, &held).await;
                locking::point!(ConfirmAfter, else return);
                self.queue.wakes.wake_watching(&key);
                told.and(index.tell_watchers(&key).await)
            }
            (LedgerEvent::Ended { .. }, _) if !holds(Rule::EndIndex) => return,
            (LedgerEvent::Ended { id, ended_gen }, index) => {
                locking::point!(EndBefore, else return);
                let told = match index {
                    Some(index) => index.end(&key, incarnation, *id, *ended_gen).await,
                    None => Ok(()),
                };
                // Also where Redis is away: at least those who wait here need not poll.
                if holds(Rule::Wake) {
                    self.queue.wakes.wake(&key);
                }
                locking::point!(EndAfter, else return);
                told
            }
        };
        if told.is_err() {
            tracing::debug!(state.id = %change.state_id, "the index missed a change; it will be loaded");
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
