//! Wake-ups: who waits for a state is told when a reservation of it ends.
//!
//! A message may be lost; waiters also poll. One connection per process listens for all states.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::watch;

use crate::{Link, StateKey};

const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Everybody in this process who waits for a state.
#[derive(Clone, Default)]
pub struct Wakes(Arc<Mutex<HashMap<StateKey, Listeners>>>);

struct Listeners {
    /// Remembers for each listener whether it has seen the last wake-up, so that none falls between a look and a wait.
    wake: watch::Sender<()>,
    count: usize,
}

/// One waiter's ear. Dropping it stops listening.
pub struct Wake {
    wakes: Wakes,
    key: StateKey,
    woken: watch::Receiver<()>,
}

impl Wakes {
    /// Begins to listen for a state. What ends from now on is not missed.
    #[must_use]
    pub fn listen(&self, key: &StateKey) -> Wake {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = map.entry(key.clone()).or_insert_with(|| Listeners {
            wake: watch::Sender::new(()),
            count: 0,
        });
        listeners.count += 1;
        Wake {
            wakes: self.clone(),
            key: key.clone(),
            woken: listeners.wake.subscribe(),
        }
    }

    /// The states that somebody in this process waits for.
    #[must_use]
    pub fn listened(&self) -> Vec<StateKey> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.keys().cloned().collect()
    }

    /// How many in this process wait for a state.
    #[must_use]
    pub fn count(&self, key: &StateKey) -> usize {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(key).map_or(0, |listeners| listeners.count)
    }

    /// Wakes those who wait for a state in this process.
    pub fn wake(&self, key: &StateKey) {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listeners) = map.get(key) {
            listeners.wake.send_replace(());
        }
    }

    /// Wakes everybody: messages may have been missed.
    fn wake_all(&self) {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for listeners in map.values() {
            listeners.wake.send_replace(());
        }
    }

    /// Passes messages on until dropped. A lost connection is made anew, and then everybody is woken.
    pub async fn listen_to(&self, link: &Link) {
        loop {
            if let Err(error) = self.pass_on(link).await {
                tracing::debug!(%error, "not listening for ended reservations; waiters poll");
            }
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    async fn pass_on(&self, link: &Link) -> Result<(), redis::RedisError> {
        let mut messages = link.client().get_async_pubsub().await?;
        messages.psubscribe(StateKey::all_channels()).await?;
        self.wake_all();
        let mut messages = messages.into_on_message();
        while let Some(message) = messages.next().await {
            if let Some(key) = StateKey::of_channel(message.get_channel_name()) {
                self.wake(&key);
            }
        }
        Ok(())
    }
}

impl Wake {
    /// Waits for an end of a reservation since the last call, or since listening began, but no longer than `patience`.
    pub async fn wait(&mut self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.woken.changed()).await;
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut map = self.wakes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listeners) = map.get_mut(&self.key) {
            listeners.count -= 1;
            if listeners.count == 0 {
                map.remove(&self.key);
            }
        }
    }
}
