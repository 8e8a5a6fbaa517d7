//! Postgres: every SQL statement of the project, and nothing that decides.
//!
//! [`Db`] hands out transactions that belong to one workspace ([`WorkspaceTx`]); the modules hold the statements, one
//! module per table or closely related group. Rules about what may happen are in `engine`; here a rule appears only
//! as the guard in a `WHERE` clause.
//!
//! To add a statement: write it as a literal through `query!` or `query_as!`, map a private row to the type the caller
//! wants, and run `cargo xtask sqlx` to record it for builds without a database.

pub mod catalogue;
mod db;
mod error;
pub mod jobs;
mod keys;
mod lock_service;
pub mod queue;
mod reservations;
mod restore;
mod retry;
mod runs;
pub mod schema;
mod seal;
mod states;
pub mod tags;
pub mod tenancy;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod turns;

pub use db::{Db, DbOptions, WorkspaceTx};
pub use error::{Error, Result};
pub use keys::{LockPolicy, adopt_wrapped_key, lock_policy, wrapped_key};
pub use lock_service::{Beat, beat};
pub use reservations::*;
pub use restore::{Restored, begin_incarnation, restore_workspace};
pub use retry::retrying;
pub use runs::*;
pub use seal::*;
pub use states::*;
