//! The state engine: the primitives that runs are made of, for native clients of any kind. Names and shapes follow the
//! public state engine protocol v1.
//!
//! A request names its state in the body (or the query), in any of the ways the protocol knows.

mod resolve;
mod scope;
mod slice;

use auth::Action;
use axum::http::Method;
use utoipa_axum::routes;

use crate::access::StateCaller;
use crate::table::Route;

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
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
    ]
}

/// `workspace/environment/name`.
fn full_name(caller: &StateCaller) -> String {
    let (workspace, environment) = (caller.workspace(), caller.environment());
    format!("{workspace}/{environment}/{}", caller.name())
}
