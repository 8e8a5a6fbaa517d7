//! The API as clients see it: real replicas, in this process, on a real database.
//!
//! One test binary for all, because linking takes longer than running. Each test has a database of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

mod audit_chain;
mod events;
mod harness;
#[path = "../lane/mod.rs"]
mod lane;
#[path = "../native/mod.rs"]
mod native;
#[path = "../runs/mod.rs"]
mod runs;

mod login;
mod matrix;
mod outages;
mod replicas;
mod service;
mod storm;
mod tenancy;
mod twin;
