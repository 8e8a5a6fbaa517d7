//! Tests of the crate from outside, in one binary: what they share is linked once.

mod cases;
mod oracle;
#[path = "../support/mod.rs"]
mod support;
