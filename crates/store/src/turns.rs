//! Taking turns inside a process before a row that many want is locked.
//!
//! Whoever waits for a row lock in Postgres does so in the middle of a statement, with a snapshot that keeps the versions of
//! busy rows from being cleared away: each reader then walks all of them. Whoever waits for its turn here waits between two
//! statements, and is let in in the order in which it came. Nothing relies on it: the row lock excludes, other replicas know
//! nothing of it, and a turn that does not come soon is done without.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

/// How long a row that somebody else holds is waited for in Postgres.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a turn is waited for. Whoever has it may have lost the row and not know yet, on a connection that has fallen silent.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an unused turn is remembered. Forgotten while somebody waits, it costs the order and no more.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A row that one transaction at a time works under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// The head of a state's ledger.
    Ledger(Uuid),
    /// A state.
    State(Uuid),
}

/// The turns of one process.
#[derive(Debug, Clone)]
pub(crate) struct Turns(moka::sync::Cache<Row, Arc<Mutex<()>>>);

impl Default for Turns {
    fn default() -> Self {
        let turns = moka::sync::Cache::builder()
            .max_capacity(100_000)
            .time_to_idle(REMEMBERED);
        Self(turns.build())
    }
}

/// The turns that a transaction has; they end with it.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<(Row, OwnedMutexGuard<()>)>);

impl Taken {
    /// Waits for a turn, unless it is taken already, but not for long.
    pub(crate) async fn take(&mut self, turns: &Turns, row: Row) {
        if self.0.iter().any(|(taken, _)| *taken == row) {
            return;
        }
        let turn = turns.0.get_with(row, Arc::default).lock_owned();
        match tokio::time::timeout(PATIENCE, turn).await {
            Ok(turn) => self.0.push((row, turn)),
            Err(_) => tracing::debug!(?row, "a turn did not come"),
        }
    }
}
