//! Claims: which part of a state a reservation holds, and whether two reservations may live side by
//! side.
//!
//! A [`Claim`] is a [`Path`] and an [`Access`]. A reservation's claims are a [`ClaimSet`], which
//! compiles to [`Nodes`]: one [`NodeHash`] and [`NodeMode`] for each claimed path and each of its
//! ancestors. Two reservations conflict exactly if they share a node with conflicting modes, so a
//! ledger finds conflicts with one join over indexed numbers, and an index needs no tree.
//!
//! Not for: who holds what, since when, or in which order anybody waits.

mod access;
mod coarsen;
mod hash;
mod mode;
mod nodes;
mod path;
mod path_text;
mod set;

pub use access::{Access, AccessError, Claim};
pub use coarsen::MAX_NODES;
pub use hash::NodeHash;
pub use mode::{ModeError, NodeMode};
pub use nodes::{Node, Nodes};
pub use path::{Path, Segment};
pub use path_text::{MAX_PATH_BYTES, PathError};
pub use set::{ClaimSet, Overlap};
