//! `kl` against a real deployment: `cargo xtask stack -- cargo test -p kl --test e2e -- --ignored`.
//!
//! Every test is ignored without the stack, and each works on states of its own, so they run in
//! parallel.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a panic is the report; the lint spares test functions, but not their harness"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod archives;
mod imports;
mod locks;
mod native;
mod operations;
mod reading;
mod rollback;
mod setup;
mod stack;
mod tenancy;
