//! The steps of the protocol at which a process may be told to stop.

use crate::names::named;

named! {
    /// A step, in the order in which requests pass them.
    Point {
        /// Parsed, not yet asked of the index.
        ReserveBeforeAdmit = "reserve.before_admit",
        /// The index has let the request through: it counts as pending there.
        ReserveAfterAdmit = "reserve.after_admit",
        /// The transaction has begun, and nothing is locked.
        ReserveAfterBegin = "reserve.after_begin",
        /// The head row of the ledger is locked.
        ReserveAfterHeadLock = "reserve.after_head_lock",
        /// The key was looked for.
        ReserveAfterKey = "reserve.after_key",
        /// What was due has been ended.
        ReserveAfterExpiry = "reserve.after_expiry",
        /// Nothing active conflicts.
        ReserveAfterCheck = "reserve.after_check",
        /// Token, reservation, claims and audit entry are written.
        ReserveAfterInsert = "reserve.after_insert",
        /// The ledger has granted, and nobody was told.
        ReserveAfterCommit = "reserve.after_commit",
        /// The index is about to be told of the grant.
        ConfirmBefore = "confirm.before",
        /// The index was told of the grant.
        ConfirmAfter = "confirm.after",
        /// A lease is about to be started anew.
        RenewBefore = "renew.before",
        /// A lease is started anew, not committed.
        RenewAfterUpdate = "renew.after_update",
        /// A lease is started anew, and its client was not told.
        RenewAfterCommit = "renew.after_commit",
        /// A delta is worked out and sealed, before its transaction.
        CommitStaged = "commit.staged",
        /// The reservation's row is locked, and it is active.
        CommitAfterReservation = "commit.after_reservation",
        /// There was no receipt.
        CommitAfterReceipt = "commit.after_receipt",
        /// Everything written is covered by a write claim.
        CommitAfterScope = "commit.after_scope",
        /// The state's row is locked.
        CommitAfterStateLock = "commit.after_state_lock",
        /// Everything claimed still has its base.
        CommitAfterVersions = "commit.after_versions",
        /// The version and its rows are written; receipt and audit entry are not.
        CommitAfterWrite = "commit.after_write",
        /// All is written, not committed.
        CommitBeforeCommit = "commit.before_commit",
        /// Committed, and the client was not told.
        CommitAfterCommit = "commit.after_commit",
        /// A whole document is compared and proven, before its transaction.
        HttpPrepared = "http.prepared",
        /// The lock's row is locked, or the head of an unlocked state.
        HttpAfterReservation = "http.after_reservation",
        /// The state's row is locked.
        HttpAfterStateLock = "http.after_state_lock",
        /// The head is the one that the lock was granted on.
        HttpAfterVersion = "http.after_version",
        /// All is written, not committed.
        HttpBeforeCommit = "http.before_commit",
        /// Committed, and the client was not told.
        HttpAfterCommit = "http.after_commit",
        /// A body that came too late is sealed, not stored.
        KeepBefore = "keep.before",
        /// A body that came too late is stored, not committed.
        KeepBeforeCommit = "keep.before_commit",
        /// A body that came too late is kept, and its client was not refused yet.
        KeepAfterCommit = "keep.after_commit",
        /// A holder gives up its reservation: head and reservation are locked.
        ReleaseBefore = "release.before",
        /// The reservation is released, not committed.
        ReleaseAfter = "release.after",
        /// The release is committed, and nobody was told.
        ReleaseAfterCommit = "release.after_commit",
        /// A reservation that is due is about to be ended.
        ExpireBefore = "expire.before",
        /// It is ended with its marks, not committed.
        ExpireAfter = "expire.after",
        /// A reservation is about to be broken, or its run aborted.
        BreakBefore = "break.before",
        /// It is broken with its marks, not committed.
        BreakAfter = "break.after",
        /// The break or abort is committed, and nobody was told.
        BreakAfterCommit = "break.after_commit",
        /// The index is about to be told of an end.
        EndBefore = "end.before",
        /// The index was told of an end.
        EndAfter = "end.after",
        /// The ledger was read for the index.
        LoadAfterSnapshot = "load.after_snapshot",
        /// The index was loaded.
        LoadAfter = "load.after",
        /// A heartbeat is about to be offered.
        BeatBefore = "beat.before",
    }
}

/// Passes a step: stops, waits or fails there if the process was told to. Nothing without the feature `faults`.
///
/// In a function whose error can be made of `Injected`; elsewhere `point!(STEP, else return …)` leaves it.
#[cfg(feature = "faults")]
#[macro_export]
macro_rules! point {
    ($point:ident) => {
        $crate::pass($crate::Point::$point).await?
    };
    ($point:ident, else $leave:expr) => {
        if $crate::pass($crate::Point::$point).await.is_err() {
            $leave;
        }
    };
}

/// Passes a step: nothing, without the feature `faults`.
#[cfg(not(feature = "faults"))]
#[macro_export]
macro_rules! point {
    ($point:ident $(, else $leave:expr)?) => {
        const _: $crate::Point = $crate::Point::$point;
    };
}
