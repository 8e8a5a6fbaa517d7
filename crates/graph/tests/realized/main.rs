//! The realized graph against rows kept in a map.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

#[path = "../support/mod.rs"]
mod support;

mod bytes;
mod patches;
mod rows;
