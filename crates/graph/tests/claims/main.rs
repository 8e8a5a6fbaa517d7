//! Claims against a slow and obvious model: sets of things.

#[path = "../support/mod.rs"]
mod support;

mod conflicts;
mod sizes;
mod texts;
mod universe;
