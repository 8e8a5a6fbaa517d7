//! The checker: what clients saw, held against what the ledger says. Pure.
//!
//! Each invariant of the protocol is a function of its own that names every contradiction it finds. Where a history cannot
//! say (an answer that was lost, a fault that may have cost somebody a sign of life), it says nothing.

mod bodies;
mod conflicts;
mod index;
mod keys;
mod leases;
mod queue;
mod reads;
#[cfg(test)]
mod samples;
mod tokens;
mod versions;
mod view;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use queue::CALM;
pub use view::{End, Operation, View};

use crate::history::Entry;
use crate::ledger::Ledger;

/// An invariant of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Invariant {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I10,
    I11,
    I12,
    I13,
    I14,
}

/// A contradiction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    pub invariant: Invariant,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.what)
    }
}

type Check = fn(&View<'_>) -> Vec<String>;

/// Every invariant with its function. I9 is I1 to I8 of a run before a liar.
const CHECKS: [(Invariant, &str, Check); 13] = [
    (
        Invariant::I1,
        "no two active reservations conflict",
        conflicts::no_two_conflict,
    ),
    (
        Invariant::I2,
        "what a client was told is in the ledger",
        keys::told_is_recorded,
    ),
    (
        Invariant::I3,
        "tokens rise with grants",
        tokens::tokens_rise,
    ),
    (
        Invariant::I4,
        "no update is lost, none without a right",
        versions::no_update_is_lost,
    ),
    (
        Invariant::I5,
        "a live holder is never refused for a version",
        versions::live_holders_commit,
    ),
    (
        Invariant::I6,
        "numbers of versions have no gap and no double",
        versions::numbers_are_whole,
    ),
    (
        Invariant::I7,
        "one key, one outcome",
        keys::one_key_one_outcome,
    ),
    (
        Invariant::I8,
        "no body is lost, no begun apply unmarked",
        bodies::no_body_is_lost,
    ),
    (
        Invariant::I10,
        "all read the same bytes, and the newest",
        reads::reads_agree,
    ),
    (
        Invariant::I11,
        "nobody overtakes a live waiter",
        queue::nobody_overtakes,
    ),
    (
        Invariant::I12,
        "in quiet everybody is served",
        queue::everybody_is_served,
    ),
    (
        Invariant::I13,
        "nothing expires before its time",
        leases::nothing_expires_early,
    ),
    (
        Invariant::I14,
        "the index knows no more than the ledger, and in quiet as much",
        index::index_follows_ledger,
    ),
];

/// Judges a run by all invariants.
#[must_use]
pub fn check(history: &[Entry], ledger: &Ledger) -> Vec<Violation> {
    let view = View::new(history, ledger);
    let judged = CHECKS.iter().flat_map(|(invariant, _, check)| {
        check(&view).into_iter().map(|what| Violation {
            invariant: *invariant,
            what,
        })
    });
    judged.collect()
}

/// What a run gave occasion to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Late bodies that came back byte for byte.
    pub recovered: usize,
    /// Waits that nothing disturbed, so that they say something about order.
    pub waits_judged: usize,
}

impl Counted {
    #[must_use]
    pub fn of(view: &View<'_>) -> Self {
        Self {
            recovered: bodies::recovered(view),
            waits_judged: queue::waits_judged(view),
        }
    }
}

/// Each invariant in words.
pub fn invariants() -> impl Iterator<Item = (Invariant, &'static str)> {
    CHECKS
        .iter()
        .map(|(invariant, words, _)| (*invariant, *words))
}
