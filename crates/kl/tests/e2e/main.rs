//! `kl` against a real deployment: `cargo xtask stack -- cargo test -p kl --test e2e -- --ignored`.
//!
//! Every test is ignored without the stack, and each works on states of its own, so they run in
//! parallel.

#[path = "../harness/mod.rs"]
mod harness;

mod imports;
mod locks;
mod reading;
mod rollback;
mod setup;
mod stack;
mod tenancy;
