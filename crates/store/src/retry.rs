//! Doing a transaction again when another got in its way.

use std::time::Duration;

use telemetry::RetryReason;

use crate::{Error, Result};

/// How often a transaction is tried in all. Each try meets the others' finished work, so a few suffice; a request
/// that still fails is answered 503 and the client tries on.
const ATTEMPTS: u32 = 6;
/// The longest pause before the second try; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// Runs a whole transaction, from `begin` to `commit`, and runs it again when a concurrent one won or the connection
/// broke before its commit.
///
/// The attempt must do nothing but database work, since it may happen several times. A commit whose outcome is
/// unknown is not tried again: only the caller knows how to look it up.
///
/// # Errors
///
/// The last attempt's error, or the first that is not retryable.
pub async fn retrying<T>(mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        let reason = match attempt().await {
            Err(Error::Serialization(_)) => RetryReason::Serialization,
            Err(Error::Disconnected(_)) => RetryReason::Disconnected,
            outcome => return outcome,
        };
        telemetry::store_retry(reason);
        // Rivals that failed together must not come back together.
        tokio::time::sleep(pause.mul_f64(rand::random::<f64>())).await;
        pause *= 2;
    }
    attempt().await
}
