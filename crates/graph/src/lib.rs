//! The realized dependency graph of a state, what a scope needs of it, and claims.
//!
//! [`RealizedGraph`] is built from the rows of a version and follows the state from commit to commit.
//! [`scope::expand`] closes a scope over it. [`claims`] says which reservations exclude each other.
//!
//! Not for: I/O, clocks, and anything a configuration alone can answer. The rule for adding here: a
//! function belongs in this crate when it decides what a run reads and writes, or who excludes whom,
//! from values alone.

mod address;
pub mod claims;
mod codec;
pub mod confidence;
mod realized;
pub mod scope;

pub use address::{BlockMode, ConfigAddress, ConfigModule, NotAConfigAddress, NotAConfigModule};
pub use codec::DecodeError;
pub use realized::{
    Dependents, GraphBuilder, GraphError, Instance, InstanceRow, Neighbours, Object, Patch, Reach,
    RealizedGraph, RowRef, Seq,
};
