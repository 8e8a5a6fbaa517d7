//! Starting over where nothing, or nothing harmful, was done.

use std::time::Duration;

use crate::EngineError;

/// How often a use case is tried in all. Each try takes a fresh look, so one that was decided meanwhile ends the series.
const ATTEMPTS: u32 = 5;
/// The longest pause before the second try; it doubles.
const PAUSE: Duration = Duration::from_millis(5);

/// Tries a use case that may be done twice without harm: after a broken connection, a lost race, or a commit whose
/// outcome is unknown, the next try finds what the last one left.
pub(crate) async fn again<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut tried = 1;
    loop {
        match attempt().await {
            Err(EngineError::Store(error)) if tried < ATTEMPTS && error.is_worth_another_try() => {
                tracing::debug!(%error, tried, "starting over");
                tokio::time::sleep(PAUSE * 2_u32.pow(tried - 1)).await;
                tried += 1;
            }
            outcome => return outcome,
        }
    }
}
