//! Those who wait, as the index shows them.

/// Where a request stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Since when it waits, in milliseconds of Redis's clock.
    pub first_seen_ms: u64,
    /// How many that conflict with it wait in front.
    pub ahead: u32,
    /// What the holders said of themselves when they were granted; empty for one that is not granted yet. At most ten.
    pub holders: Vec<String>,
    /// The highest gen up to which the index knows every grant and end.
    pub known_gen: i64,
}

impl Place {
    /// Whether somebody in the way was let through and is not granted yet: the ledger does not know of that one, and whoever
    /// went on because of that would overtake it. One who never comes back is forgotten within ten seconds.
    #[must_use]
    pub fn is_behind_an_admission(&self) -> bool {
        self.holders.iter().any(String::is_empty)
    }

    /// Whether nobody is known to be in the way: the index was lost, and those who waited before go first for a moment.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.ahead == 0 && self.holders.is_empty()
    }
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Its idempotency key.
    pub key: String,
    /// Since when, in milliseconds of Redis's clock.
    pub first_seen_ms: u64,
    /// When it was last heard of.
    pub last_seen_ms: u64,
    /// What it says of itself.
    pub about: String,
}
