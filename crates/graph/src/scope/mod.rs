//! Scopes: what a run on a part of a state must see, may write, and has to claim.
//!
//! [`expand`] takes a [`ScopeRequest`] and answers with a [`ScopeContract`]. It works on the union of
//! the realized graph and the configuration as the client sent it, on the level of blocks; only which
//! instances are fetched and written is a matter of addresses.
//!
//! Not for: which files select what (the client knows), attribute values, and whether a plan keeps to
//! the contract. What a finding does to the confidence in a scope is in [`crate::confidence`].

mod claims;
mod contract;
mod dependents;
mod drawn;
mod expand;
mod meant;
mod moves;
mod outputs;
mod request;
mod shape;
mod target;
mod union;
mod walk;
mod widen;

pub use contract::{Diagnostics, ScopeContract};
pub use dependents::{dependents, dependents_at_once};
pub use expand::{expand, orphans};
pub use meant::addresses_of;
pub use moves::Move;
pub use outputs::{OutputBeyond, ScopeOutputs};
pub use request::{
    Calls, ConfigNode, ConfigOutput, Configuration, ModuleCall, Operation, Repetition, ScopeRequest,
};
pub use target::{NotATarget, Target, TargetResource};
