//! States as people and tools look at them: lists, status, history, single instances, and what is done to a state by
//! hand. Beneath the same address as the Terraform lane.

mod browse;
mod graph;
pub(crate) mod history;
mod mask;
mod operations;
pub(super) mod render;

use auth::Action;
use axum::http::Method;
use utoipa_axum::routes;

use crate::table::Route;

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let row = |name, method: &Method, path, action, endpoint| {
        Route::api(name, method.clone(), path, action, endpoint)
    };
    vec![
        // By the customs of the Terraform lane: a backend address without a name, or with an escaped slash, leads here,
        // and a 404 would be "no state yet".
        Route::terraform(
            "list_states",
            get.clone(),
            "/v1/states/{ws}/{env}",
            Action::ListStates,
            routes!(browse::list_states),
        ),
        row(
            "list_deleted_states",
            &get,
            "/v1/deleted-states/{ws}/{env}",
            Action::UndeleteState,
            routes!(browse::list_deleted_states),
        ),
        row(
            "get_status",
            &get,
            "/v1/states/{ws}/{env}/{name}/status",
            Action::ReadMetadata,
            routes!(browse::get_status),
        ),
        row(
            "list_resources",
            &get,
            "/v1/states/{ws}/{env}/{name}/resources",
            Action::ReadMetadata,
            routes!(browse::list_resources),
        ),
        row(
            "get_resource",
            &get,
            "/v1/states/{ws}/{env}/{name}/resource",
            Action::ReadMetadata,
            routes!(browse::get_resource),
        ),
        row(
            "get_graph",
            &get,
            "/v1/states/{ws}/{env}/{name}/graph",
            Action::ReadMetadata,
            routes!(graph::get_graph),
        ),
        row(
            "get_outputs",
            &get,
            "/v1/states/{ws}/{env}/{name}/outputs",
            Action::ReadOutputs,
            routes!(browse::get_outputs),
        ),
        row(
            "list_versions",
            &get,
            "/v1/states/{ws}/{env}/{name}/versions",
            Action::ReadMetadata,
            routes!(history::list_versions),
        ),
        row(
            "get_state_version",
            &get,
            "/v1/states/{ws}/{env}/{name}/versions/{version}",
            Action::ReadMetadata,
            routes!(history::get_version),
        ),
        row(
            "read_version_document",
            &get,
            "/v1/states/{ws}/{env}/{name}/versions/{version}/document",
            Action::ReadDocument,
            routes!(history::read_version_document),
        ),
        row(
            "read_kept_document",
            &get,
            "/v1/states/{ws}/{env}/{name}/kept/{kept}",
            Action::ReadDocument,
            routes!(history::read_kept_document),
        ),
        row(
            "compare_kept",
            &get,
            "/v1/states/{ws}/{env}/{name}/kept/{kept}/comparison",
            Action::ReadMetadata,
            routes!(history::compare_kept),
        ),
        row(
            "adopt_kept",
            &post,
            "/v1/states/{ws}/{env}/{name}/kept/{kept}/adopt",
            Action::WriteState,
            routes!(history::adopt_kept),
        ),
        row(
            "discard_kept",
            &post,
            "/v1/states/{ws}/{env}/{name}/kept/{kept}/discard",
            Action::WriteState,
            routes!(history::discard_kept),
        ),
        row(
            "roll_back_state",
            &post,
            "/v1/states/{ws}/{env}/{name}/rollback",
            Action::RollBackState,
            routes!(operations::roll_back_state),
        ),
        row(
            "import_state",
            &post,
            "/v1/states/{ws}/{env}/{name}/import",
            Action::ImportState,
            routes!(operations::import_state),
        ),
        row(
            "take_admin_lock",
            &post,
            "/v1/states/{ws}/{env}/{name}/admin-lock",
            Action::ChangeAdminLock,
            routes!(operations::take_admin_lock),
        ),
        row(
            "release_admin_lock",
            &delete,
            "/v1/states/{ws}/{env}/{name}/admin-lock",
            Action::ChangeAdminLock,
            routes!(operations::release_admin_lock),
        ),
        row(
            "force_unlock_state",
            &post,
            "/v1/states/{ws}/{env}/{name}/force-unlock",
            Action::UnlockState,
            routes!(operations::force_unlock_state),
        ),
        row(
            "undelete_state",
            &post,
            "/v1/states/{ws}/{env}/{name}/undelete",
            Action::UndeleteState,
            routes!(operations::undelete_state),
        ),
    ]
}
