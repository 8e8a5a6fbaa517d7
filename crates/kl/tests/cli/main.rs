//! The binary in a sealed directory: no home, no variables, no network but loopback.

#[path = "../harness/mod.rs"]
mod harness;

mod config;
mod failures;
mod import;
mod init;
mod output;
mod peer;
mod sealed;
mod terraform;
