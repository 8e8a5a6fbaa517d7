//! Tests of the crate from outside, in one binary: what they share is linked once.

mod cases;
mod corpus;
mod modules;
mod mutations;
mod oracle;
mod properties;
mod references;
mod selection;
#[path = "../support/mod.rs"]
mod support;
