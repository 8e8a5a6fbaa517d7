//! The Terraform lane: the ordinary `http` backend, to the letter of what the real clients send and expect
//! (docs/http-lane.md).
//!
//! Nothing that would fail the same way again may be a 5xx or a 429: Terraform tries three times and hides the reason.
//! And 404 means one thing only, "nothing was ever written here", since Terraform then plans to create everything.

pub(crate) mod body;
mod encoding;
mod lock;
mod query;
mod read;
mod refusal;
mod write;

use auth::{Action, Context};
use axum::http::Method;
use axum::routing::any;
use engine::Caller;
use utoipa_axum::routes;

use crate::access::{EnvironmentCaller, RunCaller, StateCaller};
use crate::error::ApiError;
use crate::table::Route;

pub(crate) use encoding::{Coding, choose_coding};
pub(crate) use lock::{lock_request, unlock_target};
pub(crate) use query::{LockId, lock_id};
pub(crate) use read::document_response;

const STATE: &str = "/v1/states/{ws}/{env}/{name}";

/// The rows of this lane. LOCK and UNLOCK also have addresses of their own, for edges that let only usual methods
/// through.
pub(crate) fn routes() -> Vec<Route> {
    let lock_method = Method::from_bytes(b"LOCK").unwrap_or(Method::POST);
    let unlock_method = Method::from_bytes(b"UNLOCK").unwrap_or(Method::POST);
    let read = Action::ReadForTerraform;
    vec![
        Route::terraform(
            "read_state",
            Method::GET,
            STATE,
            read,
            routes!(read::read_state),
        ),
        Route::terraform(
            "head_state",
            Method::HEAD,
            STATE,
            read,
            any(read::read_state),
        ),
        Route::terraform(
            "write_state",
            Method::POST,
            STATE,
            Action::WriteState,
            routes!(write::write_state),
        ),
        Route::terraform(
            "delete_state",
            Method::DELETE,
            STATE,
            Action::DeleteState,
            routes!(write::delete_state),
        ),
        Route::terraform(
            "lock_state",
            lock_method,
            STATE,
            Action::LockState,
            any(lock::lock_state),
        ),
        Route::terraform(
            "unlock_state",
            unlock_method,
            STATE,
            Action::UnlockState,
            any(lock::unlock_state),
        ),
        Route::terraform(
            "lock_state_by_post",
            Method::POST,
            "/v1/states/{ws}/{env}/{name}/lock",
            Action::LockState,
            routes!(lock::lock_state_by_post),
        ),
        Route::terraform(
            "unlock_state_by_post",
            Method::POST,
            "/v1/states/{ws}/{env}/{name}/unlock",
            Action::UnlockState,
            routes!(lock::unlock_state_by_post),
        ),
        Route::terraform(
            "unlock_state_apart",
            Method::POST,
            "/v1/state-unlock/{ws}/{env}/{name}",
            Action::UnlockState,
            routes!(lock::unlock_state_apart),
        ),
    ]
}

/// The decided request on a state, as a use case takes it.
pub(crate) fn acting(caller: &StateCaller) -> Result<Caller, ApiError> {
    acting_as(caller)
}

/// The decided request on an environment, as a use case takes it.
pub(crate) fn acting_in(caller: &EnvironmentCaller) -> Result<Caller, ApiError> {
    acting_as(caller)
}

/// The decided request on a run, as a use case takes it.
pub(crate) fn acting_on(caller: &RunCaller) -> Result<Caller, ApiError> {
    acting_as(caller)
}

pub(crate) fn acting_as(context: &Context) -> Result<Caller, ApiError> {
    #[derive(Debug, thiserror::Error)]
    #[error("the decision was not on an environment")]
    struct NotInEnvironment;
    Caller::new(context.clone()).ok_or_else(|| ApiError::internal(&NotInEnvironment))
}
