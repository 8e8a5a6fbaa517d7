//! The API replica: HTTP in, one engine call, HTTP out. Wiring only; rules live in `engine` and `auth`.
//!
//! A request passes [`dispatch`], which finds its row in the route table, resolves the token, has [`auth::authorize`]
//! decide, and only then calls the handler. A replica keeps nothing that another would miss.
//!
//! To add a route: write the handler beside its kin in [`routes`], and add its row, with its action, to that
//! module's table. The row is what makes it reachable; the matrix test wants an expectation for it.

pub mod access;
pub mod body;
pub mod commands;
pub mod config;
pub mod dispatch;
pub mod error;
#[cfg(feature = "faults")]
mod faults;
pub mod openapi;
mod packing;
pub mod program;
pub mod routes;
pub mod serve;
pub mod state;
pub mod table;
pub mod uploads;

pub use access::{Caller, EnvironmentCaller, RunCaller, StateCaller, WorkspaceCaller};
pub use error::ApiError;
pub use state::AppState;
