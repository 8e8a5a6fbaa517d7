//! Starting over where nothing, or nothing harmful, was done.

use std::time::Duration;

use crate::EngineError;

/// How often a use case is tried in all. Each try takes a fresh look, so one that was decided meanwhile ends the series.
const TRIES: u32 = 5;
/// The pause before the second try; it doubles.
const PAUSE: Duration = Duration::from_millis(5);

/// Counts the tries of a use case that may be done twice without harm: after a broken connection, a lost race, or a
/// commit whose outcome is unknown, the next try finds what the last one left.
///
/// A loop around the use case, and no function that takes it: a closure of futures cannot be told to be `Send`.
#[derive(Debug, Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// Whether to try again after this error; waits a moment before it says so.
    pub(crate) async fn another(&mut self, error: &EngineError) -> bool {
        let EngineError::Store(error) = error else {
            return false;
        };
        self.0 += 1;
        if self.0 >= TRIES || !error.is_worth_another_try() {
            return false;
        }
        tracing::debug!(%error, tried = self.0, "starting over");
        tokio::time::sleep(PAUSE * 2_u32.pow(self.0 - 1)).await;
        true
    }
}
