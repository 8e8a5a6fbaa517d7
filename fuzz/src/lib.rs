//! What each fuzz target checks; `checks` is also compiled into a test of `tfstate`, `archives` into
//! one of `archive`, so that a stable compiler runs them over mutated seeds.

pub mod archives;
pub mod checks;

#[path = "../../crates/archive/tests/support/mod.rs"]
mod support;
