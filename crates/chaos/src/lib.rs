//! A fault harness: clients that work on a few states over the real wire while processes die and links break, and a checker
//! that judges what they saw against what the ledger says.
//!
//! Everything here is plain data and plain sockets. Starting and killing processes is the caller's (`cargo xtask chaos`):
//! it carries out the [`plan::Fault`]s of a [`plan::Plan`], and writes the [`ledger::Ledger`] down in the end. The checker
//! ([`check`]) is pure: it reads a [`history`] and a ledger and names what they contradict. A new invariant is one module
//! beneath it with one function and a history of its own that breaks it.

pub mod alike;
pub mod check;
pub mod clients;
pub mod document;
pub mod history;
pub mod ledger;
pub mod liar;
pub mod plan;
pub mod proxy;
pub mod report;
pub mod wire;
