//! The realized dependency graph of a state, what a scope needs of it, and claims.
//!
//! Not for: I/O, clocks, and anything a configuration alone can answer. The rule for adding here: a
//! function belongs in this crate when it decides what a run reads and writes, or who excludes whom,
//! from values alone.

mod address;
pub mod claims;
mod codec;
mod realized;

pub use address::{BlockMode, ConfigAddress, NotAConfigAddress};
pub use codec::DecodeError;
pub use realized::{GraphError, Instance, InstanceRow, Object, Patch, RealizedGraph, RowRef, Seq};
