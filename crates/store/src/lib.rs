//! Postgres: every SQL statement of the project, and nothing that decides.

mod audit;
mod db;
mod error;
mod keys;
mod reservations;
mod retry;
pub mod schema;
mod seal;
mod states;
mod text;

pub use audit::{NewAuditEntry, record_audit};
pub use db::{Db, DbOptions, WorkspaceTx};
pub use error::{Error, Result};
pub use keys::{LockPolicy, adopt_wrapped_key, lock_policy, wrapped_key};
pub use reservations::*;
pub use retry::retrying;
pub use seal::*;
pub use states::*;
