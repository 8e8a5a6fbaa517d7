//! How long things take: every time that the protocol of locks and the queue promise.
//!
//! A build with the feature `faults` divides all of them alike by `KL_FAULTS_TIME_SCALE`, so that what takes a minute can be
//! watched in seconds and still relates as it does in earnest. Times that only bound a wait for a database or for Redis are
//! not here: those take as long as they take.

use std::time::Duration;

/// A time of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    millis: u64,
}

/// How long a native reservation lives without a renewal, where its client does not ask for another time.
pub const LEASE: Time = Time::seconds(60);
/// How long a reservation may outlive its lease before another may end it: covers a renewal that is on its way.
pub const LOCK_DELAY: Time = Time::seconds(15);
/// How long renewals gather before they are written together.
pub const RENEWALS_GATHER: Time = Time::millis(200);
/// How often each replica offers a heartbeat; one of them lands.
pub const BEAT: Time = Time::seconds(5);
/// A heartbeat is not written sooner than this after the last one.
pub const BEAT_APART: Time = Time::seconds(4);
/// A pause of the heartbeat beyond this is an outage, during which nobody could renew.
pub const BEAT_GAP: Time = Time::seconds(15);
/// After an outage nothing ends for this long: whoever could not renew gets the time to.
pub const GRACE: Time = LEASE;

/// How long an admission is counted before the ledger's answer is seen.
pub const PENDING: Time = Time::seconds(10);
/// How long a waiter with a ticket is kept without a sign of life.
pub const NATIVE_WAITER: Time = Time::seconds(45);
/// How long a waiting Terraform is kept: it comes back after at most 16 seconds.
pub const TERRAFORM_WAITER: Time = Time::seconds(40);
/// After a loss of the index, how long those who waited before go first.
pub const SETTLING: Time = Time::seconds(2);
/// How often a request asks again while the index settles.
pub const SETTLING_LOOK: Time = Time::millis(250);
/// How long the index remembers an end whose grant it has not heard of.
pub const END_REMEMBERED: Time = Time::seconds(60);

/// The longest that one request waits for a busy scope.
pub const LONGEST_WAIT: Time = Time::seconds(25);
/// How often a request asks again that the ledger refused after the index had let it through.
pub const REFUSED_POLL: Time = Time::millis(400);
/// A waiter asks again at the latest after this long, whether it was woken or not.
pub const SAFETY_NET: Time = Time::seconds(2);
/// When a waiter first holds the index against the ledger: an index that missed something is soon brought up to it.
pub const FIRST_LOOK: Time = Time::seconds(1);
/// How often a waiter looks whether a holder is overdue: nobody else ends one.
pub const LOOK: Time = Time::seconds(5);
/// When a waiter begins to doubt the index: it may have missed an end.
pub const DOUBT: Time = Time::seconds(15);
/// How often the index of a state that somebody waits for is held against the ledger. One that lags behind twice is loaded.
pub const AUDIT: Time = Time::seconds(1);
/// How often the same is done for every state that was asked about lately.
pub const SWEEP: Time = Time::seconds(30);
/// How often a state that somebody watches is looked at when nothing is heard of it.
pub const WATCH: Time = Time::seconds(2);
/// A watched state is not looked at sooner than this after the last time, whatever is heard.
pub const WATCH_APART: Time = Time::millis(100);
/// After how long without a question the table of a state is deleted, if it is empty.
pub const IDLE: Time = Time::seconds(600);
/// How often the eviction policy of Redis is looked at.
pub const POLICY: Time = Time::seconds(60);
/// How soon it is looked at again when Redis did not answer.
pub const POLICY_UNKNOWN: Time = Time::seconds(1);

impl Time {
    const fn seconds(seconds: u64) -> Self {
        Self {
            millis: seconds * 1000,
        }
    }

    const fn millis(millis: u64) -> Self {
        Self { millis }
    }

    /// As it is to be waited for.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.as_millis())
    }

    /// In milliseconds, at least one.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        (self.millis / scale()).max(1)
    }

    /// In seconds and parts of them, as statements take it.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.duration().as_secs_f64()
    }

    /// In whole seconds, as it is promised to clients and before anything is divided.
    #[must_use]
    pub const fn promised_seconds(self) -> u64 {
        self.millis / 1000
    }
}

/// A lease that a client or an environment asked for, as it is recorded: in whole seconds, at least one.
#[must_use]
pub fn lease(asked_seconds: i64) -> i64 {
    (asked_seconds / i64::try_from(scale()).unwrap_or(1)).max(1)
}

#[cfg(not(feature = "faults"))]
const fn scale() -> u64 {
    1
}

#[cfg(feature = "faults")]
fn scale() -> u64 {
    static SCALE: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| read().unwrap_or(1));
    *SCALE
}

#[cfg(feature = "faults")]
pub(crate) fn check_scale() -> Result<(), String> {
    read().map(drop)
}

#[cfg(feature = "faults")]
fn read() -> Result<u64, String> {
    let Ok(text) = std::env::var("KL_FAULTS_TIME_SCALE") else {
        return Ok(1);
    };
    match text.parse() {
        Ok(scale) if (1..=60).contains(&scale) => Ok(scale),
        _ => Err(format!(
            "KL_FAULTS_TIME_SCALE: `{text}` is not a whole number from 1 to 60"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one time is good for depends on another.
    #[test]
    fn the_times_relate_as_the_protocol_needs_them() {
        let [lease, delay, gap] = [LEASE, LOCK_DELAY, BEAT_GAP].map(|time| time.millis);
        assert!(delay < lease && BEAT.millis * 2 < gap && gap < lease);
        assert!(BEAT_APART.millis < BEAT.millis && GRACE.millis >= lease);
        // A waiter is not forgotten while it waits in one request, nor a Terraform between two.
        const { assert!(LONGEST_WAIT.millis < NATIVE_WAITER.millis) };
        const { assert!(TERRAFORM_WAITER.millis > 2 * 16_000) };
        const { assert!(DOUBT.millis < LONGEST_WAIT.millis && SETTLING_LOOK.millis < SETTLING.millis) };
        const { assert!(END_REMEMBERED.millis > PENDING.millis) };
    }
}
