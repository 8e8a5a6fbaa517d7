//! The realized graph against rows kept in a map.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

mod bytes;
mod corpus;
mod neighbours;
mod patches;
mod rows;
