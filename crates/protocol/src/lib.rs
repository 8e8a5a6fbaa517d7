//! What `kld` and its clients say to each other: ids, names, error codes, and the bodies of requests and answers.
//!
//! Pure: no I/O, no clock, no randomness (constructors take them as arguments). Rules about what may happen live in
//! `engine`; here is only what a message looks like and which values are well-formed.
//!
//! To add a type: put it beside the others of its resource, derive `ToSchema`, and write the doc comments for a
//! reader of the API reference, since that is where they end up.

pub mod archives;
pub mod code;
pub mod events;
pub mod ids;
pub mod lock_info;
pub mod name;
pub mod operations;
pub mod page;
pub mod problem;
pub mod role;
pub mod runs;
pub mod scope;
pub mod state_engine;
pub mod states;
pub mod tenancy;

pub use code::Code;
pub use ids::{
    AuditId, EnvironmentId, InvalidId, JobId, PrincipalId, ReservationId, RunId, StateId,
    VersionId, WorkspaceId,
};
pub use lock_info::LockInfo;
pub use name::{InvalidName, StateName};
pub use problem::Problem;
pub use role::Role;
