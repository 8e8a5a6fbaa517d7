//! The rules that a build with the feature `faults` can switch off, to show that tests notice.

use crate::names::named;

named! {
    /// A rule of the protocol.
    Rule {
        /// The ledger refuses a reservation that conflicts with an active one.
        LedgerCheck = "ledger_check",
        /// A write needs a reservation that is active.
        Liveness = "liveness",
        /// What a delta commit relies on is still at its base.
        VersionCheck = "version_check",
        /// A commit key that came before is answered as before.
        Receipts = "receipts",
        /// What comes too late is stored before it is refused.
        KeptResults = "kept_results",
        /// Who ends another's begun apply leaves marks on what it claimed for writing.
        UnsettledMarks = "unsettled_marks",
        /// A request that is repeated gets the reservation it had, and no second one.
        IdemKey = "idem_key",
        /// Tokens rise with every grant.
        TokenRise = "token_rise",
        /// A reservation ends only some time after its lease did.
        LockDelay = "lock_delay",
        /// Nothing ends while the service was away, nor for a lease after.
        Grace = "grace",
        /// Everything that is written is covered by a write claim.
        WriteCover = "write_cover",
        /// Nobody is admitted before an earlier waiter who conflicts.
        QueueOrder = "queue_order",
        /// Waiters are woken, and ask again by themselves.
        Wake = "wake",
        /// A whole document follows the version that its lock was granted on.
        HttpVersionCheck = "http_version_check",
        /// The index hears of ends, and is loaded where it missed one.
        EndIndex = "end_index",
        /// A run and its reservation end in one transaction.
        AtomicEnd = "atomic_end",
        /// A Terraform lock and a run exclude each other.
        MixedLanes = "mixed_lanes",
        /// A body that is older than the last one under the same lock is refused.
        LateDuplicates = "late_duplicates",
        /// A database that lost history is not written to.
        HistoryLost = "history_lost",
    }
}

/// Whether the rule holds. It does, but in a build with the feature `faults` whose `KL_FAULTS_OFF` names it.
#[cfg(not(feature = "faults"))]
#[must_use]
pub const fn holds(_: Rule) -> bool {
    true
}

/// Whether the rule holds: unless `KL_FAULTS_OFF` names it.
#[cfg(feature = "faults")]
#[must_use]
pub fn holds(rule: Rule) -> bool {
    !switched_off().contains(&rule)
}

/// The rules that `KL_FAULTS_OFF` names.
#[cfg(feature = "faults")]
#[must_use]
pub fn switched_off() -> &'static [Rule] {
    static OFF: std::sync::LazyLock<Vec<Rule>> =
        std::sync::LazyLock::new(|| read(&setting()).unwrap_or_default());
    &OFF
}

/// Fails where `KL_FAULTS_OFF` or `KL_FAULTS_TIME_SCALE` is not what it may be: a typing error would test nothing.
///
/// # Errors
///
/// What is wrong, for the operator.
#[cfg(feature = "faults")]
pub fn check_settings() -> Result<(), String> {
    read(&setting())
        .map_err(|name| format!("KL_FAULTS_OFF: there is no rule `{name}`"))
        .map(drop)?;
    crate::times::check_scale()
}

#[cfg(feature = "faults")]
fn setting() -> String {
    std::env::var("KL_FAULTS_OFF").unwrap_or_default()
}

/// Rules separated by commas; or the name that is none.
#[cfg(feature = "faults")]
fn read(text: &str) -> Result<Vec<Rule>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| Rule::find(name).ok_or_else(|| name.to_owned()))
        .collect()
}
