//! Wake-ups: who waits for a state is told when a reservation of it ends, and who watches it is told of any change.
//!
//! A message may be lost; both also poll. One connection per process listens for all states.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::watch;

use crate::keys::News;
use crate::{Link, StateKey};

const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// How long a server may take to confirm that it will say what happens.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(5);

/// Everybody in this process who waits for a state or watches one.
#[derive(Clone, Default)]
pub struct Wakes(Arc<Mutex<Ears>>);

#[derive(Default)]
struct Ears {
    /// Told of ends.
    waiting: HashMap<StateKey, Listeners>,
    /// Told of everything.
    watching: HashMap<StateKey, Listeners>,
}

struct Listeners {
    /// Remembers for each listener whether it has seen the last wake-up, so that none falls between a look and a wait.
    wake: watch::Sender<()>,
    count: usize,
    /// How many of them have been told to wait.
    with_place: usize,
}

impl Ears {
    fn of(&mut self, purpose: Purpose) -> &mut HashMap<StateKey, Listeners> {
        match purpose {
            Purpose::Wait => &mut self.waiting,
            Purpose::Watch => &mut self.watching,
        }
    }
}

/// What somebody listens for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Wait,
    Watch,
}

/// One listener's ear. Dropping it stops listening.
pub struct Wake {
    wakes: Wakes,
    key: StateKey,
    purpose: Purpose,
    has_place: bool,
    woken: watch::Receiver<()>,
}

impl Wakes {
    /// Begins to listen for ends in a state. What ends from now on is not missed.
    #[must_use]
    pub fn listen(&self, key: &StateKey) -> Wake {
        self.listen_for(key, Purpose::Wait)
    }

    /// Begins to listen for changes of any kind.
    #[must_use]
    pub fn watch(&self, key: &StateKey) -> Wake {
        self.listen_for(key, Purpose::Watch)
    }

    fn listen_for(&self, key: &StateKey, purpose: Purpose) -> Wake {
        let mut ears = self.ears();
        let listeners = ears
            .of(purpose)
            .entry(key.clone())
            .or_insert_with(|| Listeners {
                wake: watch::Sender::new(()),
                count: 0,
                with_place: 0,
            });
        listeners.count += 1;
        Wake {
            wakes: self.clone(),
            key: key.clone(),
            purpose,
            has_place: false,
            woken: listeners.wake.subscribe(),
        }
    }

    /// The states that somebody in this process waits for.
    #[must_use]
    pub fn listened(&self) -> Vec<StateKey> {
        self.ears().waiting.keys().cloned().collect()
    }

    /// How many in this process have a place in the queue of a state. Who has only begun to ask is not among them.
    #[must_use]
    pub fn count_places(&self, key: &StateKey) -> usize {
        let ears = self.ears();
        let listeners = ears.waiting.get(key);
        listeners.map_or(0, |listeners| listeners.with_place)
    }

    /// Wakes those in this process who wait for a state, and those who watch it.
    pub fn wake(&self, key: &StateKey) {
        let ears = self.ears();
        let told = [ears.waiting.get(key), ears.watching.get(key)];
        for listeners in told.into_iter().flatten() {
            listeners.wake.send_replace(());
        }
    }

    /// Wakes those in this process who watch a state.
    pub fn wake_watching(&self, key: &StateKey) {
        if let Some(listeners) = self.ears().watching.get(key) {
            listeners.wake.send_replace(());
        }
    }

    /// Wakes everybody: messages may have been missed.
    fn wake_all(&self) {
        let ears = self.ears();
        for listeners in ears.waiting.values().chain(ears.watching.values()) {
            listeners.wake.send_replace(());
        }
    }

    fn ears(&self) -> MutexGuard<'_, Ears> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes messages on until dropped. A lost connection is made anew, and then everybody is woken.
    pub async fn listen_to(&self, link: &Link) {
        loop {
            if let Err(error) = self.pass_on(link).await {
                tracing::debug!(%error, "not listening for changes; who waits and who watches polls");
            }
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    async fn pass_on(&self, link: &Link) -> Result<(), redis::RedisError> {
        let subscribe = async {
            let mut messages = link.listen().await?;
            messages.psubscribe(&StateKey::all_channels()[..]).await?;
            Ok::<_, redis::RedisError>(messages)
        };
        // Nobody would hear a thing while a server is waited for that has fallen silent.
        let messages = tokio::time::timeout(SUBSCRIBED_WITHIN, subscribe).await;
        let messages = messages.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        self.wake_all();
        let mut messages = messages.into_on_message();
        while let Some(message) = messages.next().await {
            match StateKey::of_channel(message.get_channel_name()) {
                Some((key, News::Ended)) => self.wake(&key),
                Some((key, News::Changed)) => self.wake_watching(&key),
                None => {}
            }
        }
        Ok(())
    }
}

impl Wake {
    /// Notes that the listener has been told to wait.
    pub fn take_place(&mut self) {
        if std::mem::replace(&mut self.has_place, true) {
            return;
        }
        let mut ears = self.wakes.ears();
        if let Some(listeners) = ears.of(self.purpose).get_mut(&self.key) {
            listeners.with_place += 1;
        }
    }

    /// Waits for a message since the last call, or since listening began, but no longer than `patience`.
    pub async fn wait(&mut self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.woken.changed()).await;
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut ears = self.wakes.ears();
        let map = ears.of(self.purpose);
        if let Some(listeners) = map.get_mut(&self.key) {
            listeners.count -= 1;
            listeners.with_place -= usize::from(self.has_place);
            if listeners.count == 0 {
                map.remove(&self.key);
            }
        }
    }
}
