//! The binary in a sealed directory: no home, no variables, no network but loopback.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a panic is the report; the lint spares test functions, but not their harness"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod archive;
mod config;
mod failures;
mod import;
mod init;
mod output;
mod peer;
mod sealed;
mod terraform;
