//! The state engine: the primitives that runs are made of, for native clients of any kind. Names and shapes follow the
//! public state engine protocol v1.
//!
//! A request names its state in the body (or the query), in any of the ways the protocol knows.

mod commit;
mod operations;
mod reservations;
mod resolve;
mod runs;
mod scope;
mod slice;
mod spelling;

use auth::Action;
use axum::http::Method;
use utoipa_axum::routes;

use crate::access::StateCaller;
use crate::error::ApiError;
use crate::table::Route;

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
    let post =
        |name, path, action, endpoint| Route::named(name, Method::POST, path, action, endpoint);
    vec![
        Route::api(
            "get_capabilities",
            Method::GET,
            "/v1/state-engine/capabilities",
            Action::ReadSelf,
            routes!(resolve::get_capabilities),
        ),
        Route::named(
            "resolve_state",
            Method::POST,
            "/v1/state-engine/state/resolve",
            Action::ReadMetadata,
            routes!(resolve::resolve_state),
        ),
        Route::named(
            "get_inventory",
            Method::GET,
            "/v1/state-engine/state/inventory",
            Action::ReadMetadata,
            routes!(resolve::get_inventory),
        ),
        Route::named(
            "expand_scope",
            Method::POST,
            "/v1/state-engine/scope/expand",
            Action::ReadMetadata,
            routes!(scope::expand_scope),
        ),
        Route::named(
            "read_slice",
            Method::POST,
            "/v1/state-engine/state/slice",
            Action::ReadDocument,
            routes!(slice::read_slice),
        ),
        post(
            "begin_apply_run",
            "/v1/state-engine/apply-runs/begin",
            Action::WriteState,
            routes!(runs::begin_apply_run),
        ),
        Route::api(
            "get_apply_run",
            Method::GET,
            "/v1/state-engine/apply-runs/{run}/status",
            Action::ReadRun,
            routes!(runs::get_apply_run),
        ),
        Route::api(
            "finish_apply_run",
            Method::POST,
            "/v1/state-engine/apply-runs/{run}/finish",
            Action::ContinueRun,
            routes!(runs::finish_apply_run),
        ),
        Route::api(
            "abort_apply_run",
            Method::POST,
            "/v1/state-engine/apply-runs/{run}/abort",
            Action::AbortRun,
            routes!(runs::abort_apply_run),
        ),
        post(
            "acquire_reservations",
            "/v1/state-engine/reservations/acquire",
            Action::WriteState,
            routes!(reservations::acquire_reservations),
        ),
        Route::api(
            "renew_reservations",
            Method::POST,
            "/v1/state-engine/reservations/{run}/renew",
            Action::ContinueRun,
            routes!(reservations::renew_reservations),
        ),
        Route::api(
            "release_reservations",
            Method::POST,
            "/v1/state-engine/reservations/{run}/release",
            Action::ContinueRun,
            routes!(reservations::release_reservations),
        ),
        post(
            "acquire_native_lock",
            "/v1/state-engine/terraform-lock/acquire",
            Action::WriteState,
            routes!(reservations::acquire_native_lock),
        ),
        post(
            "release_native_lock",
            "/v1/state-engine/terraform-lock/release",
            Action::WriteState,
            routes!(reservations::release_native_lock),
        ),
        post(
            "commit_state",
            "/v1/state-engine/state/commit",
            Action::WriteState,
            routes!(commit::commit_state),
        ),
        post(
            "preview_remove",
            "/v1/state-engine/resource-remove/preview",
            Action::ReadDocument,
            routes!(operations::preview_remove),
        ),
        post(
            "apply_remove",
            "/v1/state-engine/resource-remove/apply",
            Action::WriteState,
            routes!(operations::apply_remove),
        ),
        post(
            "preview_move",
            "/v1/state-engine/resource-move/preview",
            Action::ReadDocument,
            routes!(operations::preview_move),
        ),
        post(
            "apply_move",
            "/v1/state-engine/resource-move/apply",
            Action::WriteState,
            routes!(operations::apply_move),
        ),
        post(
            "preview_restore",
            "/v1/state-engine/resource-rollback/preview",
            Action::ReadDocument,
            routes!(operations::preview_restore),
        ),
        post(
            "apply_restore",
            "/v1/state-engine/resource-rollback/apply",
            Action::WriteState,
            routes!(operations::apply_restore),
        ),
        post(
            "preview_patch",
            "/v1/state-engine/resource-patch/preview",
            Action::ReadDocument,
            routes!(operations::preview_patch),
        ),
        post(
            "apply_patch",
            "/v1/state-engine/resource-patch/apply",
            Action::WriteState,
            routes!(operations::apply_patch),
        ),
    ]
}

/// `workspace/environment/name`.
fn full_name(caller: &StateCaller) -> String {
    let (workspace, environment) = (caller.workspace(), caller.environment());
    format!("{workspace}/{environment}/{}", caller.name())
}

/// SHA-256 of a request, to tell it from another one with the same key.
fn request_digest(request: &impl serde::Serialize) -> Result<[u8; 32], ApiError> {
    let text = serde_json::to_vec(request).map_err(|error| ApiError::internal(&error))?;
    Ok(tfstate::Digest::of(&text).0)
}
