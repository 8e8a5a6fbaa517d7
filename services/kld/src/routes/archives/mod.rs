//! Tags, and archives: exports, imports, the jobs that do them, and the objects of a local folder under signed addresses.

mod exports;
mod imports;
mod jobs;
mod objects;
mod ranges;
mod tags;

use auth::{Action, Context};
use axum::http::Method;
use engine::Caller;
use engine::archive::Archives;
use protocol::Code;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::state::AppState;
use crate::table::Route;

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let row = |name, method: &Method, path, action, endpoint| {
        Route::api(name, method.clone(), path, action, endpoint)
    };
    let signed = "the signature in the address is the proof, as with any object store";
    vec![
        row(
            "list_tags",
            &get,
            "/v1/states/{ws}/{env}/{name}/tags",
            Action::ReadMetadata,
            routes!(tags::list_tags),
        ),
        row(
            "set_tag",
            &put,
            "/v1/states/{ws}/{env}/{name}/tags/{tag}",
            Action::ChangeTags,
            routes!(tags::set_tag),
        ),
        row(
            "unset_tag",
            &delete,
            "/v1/states/{ws}/{env}/{name}/tags/{tag}",
            Action::ChangeTags,
            routes!(tags::unset_tag),
        ),
        row(
            "export_state",
            &post,
            "/v1/states/{ws}/{env}/{name}/archive",
            Action::ExportState,
            routes!(exports::export_state),
        ),
        row(
            "create_import",
            &post,
            "/v1/workspaces/{ws}/environments/{env}/imports",
            Action::ImportArchive,
            routes!(imports::create_import),
        ),
        row(
            "list_missing_parts",
            &post,
            "/v1/workspaces/{ws}/environments/{env}/imports/{job}/parts",
            Action::ImportArchive,
            routes!(imports::list_missing_parts),
        ),
        row(
            "complete_import",
            &post,
            "/v1/workspaces/{ws}/environments/{env}/imports/{job}/complete",
            Action::ImportArchive,
            routes!(imports::complete_import),
        ),
        row(
            "list_jobs",
            &get,
            "/v1/workspaces/{ws}/environments/{env}/jobs",
            Action::ReadJobs,
            routes!(jobs::list_jobs),
        ),
        row(
            "get_job",
            &get,
            "/v1/workspaces/{ws}/environments/{env}/jobs/{job}",
            Action::ReadJobs,
            routes!(jobs::get_job),
        ),
        row(
            "download_archive",
            &post,
            "/v1/workspaces/{ws}/environments/{env}/jobs/{job}/download",
            Action::ExportState,
            routes!(exports::download_archive),
        ),
        row(
            "cancel_job",
            &post,
            "/v1/workspaces/{ws}/environments/{env}/jobs/{job}/cancel",
            Action::CancelJob,
            routes!(jobs::cancel_job),
        ),
        Route::public(
            "get_archive_keys",
            get.clone(),
            "/v1/archive-keys",
            "public keys prove nothing but origin, to whoever has an archive",
            routes!(exports::get_archive_keys),
        ),
        Route::public(
            "get_object",
            get,
            "/v1/objects/w/{owner}/{job}/{object}",
            signed,
            routes!(objects::get_object),
        ),
        Route::public(
            "put_object",
            put,
            "/v1/objects/w/{owner}/{job}/q/{upload}/{part}",
            signed,
            routes!(objects::put_object),
        ),
    ]
}

/// The archives of this deployment, if it keeps any.
fn archives(app: &AppState) -> Result<&Archives, ApiError> {
    app.archives
        .as_ref()
        .ok_or_else(|| ApiError::new(Code::ArchivesOff))
}

/// The decided request on an environment, as a use case takes it.
fn acting(context: &Context) -> Result<Caller, ApiError> {
    crate::routes::terraform::acting_as(context)
}
