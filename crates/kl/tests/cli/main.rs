//! The binary in a sealed directory: no home, no variables, no network but loopback.

mod config;
mod failures;
mod import;
mod init;
mod output;
mod peer;
mod sealed;
mod terraform;
