//! Scope contracts: what Terraform was seen to need, and a slow model of the rules.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod claims;
mod dependents;
mod experiments;
mod model;
mod moves;
mod outputs;
mod properties;
mod target;
