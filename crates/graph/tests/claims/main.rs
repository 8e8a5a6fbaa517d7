//! Claims against a slow and obvious model: sets of things.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

mod conflicts;
mod sizes;
mod texts;
mod universe;
