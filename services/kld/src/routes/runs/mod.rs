//! Runs: begin, keep alive, end, and the http backend that each has of its own (docs/native-lane.md).
//!
//! An address names only the run; its environment is looked up in the caller's own workspace, so that a run of another
//! workspace is not there.

mod backend;
mod begin;
mod manage;

use auth::Action;
use axum::http::Method;
use axum::routing::any;
use utoipa_axum::routes;

use crate::table::{Endpoint, Route};

const RUN: &str = "/v1/runs/{run}";
const BACKEND: &str = "/v1/runs/{run}/state";

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    let lock_method = Method::from_bytes(b"LOCK").unwrap_or(Method::POST);
    let unlock_method = Method::from_bytes(b"UNLOCK").unwrap_or(Method::POST);
    let row = |name, path, action, endpoint: Endpoint| {
        Route::api(name, Method::POST, path, action, endpoint)
    };
    let keep = Action::ContinueRun;
    vec![
        Route::named(
            "begin_run",
            post.clone(),
            "/v1/runs",
            Action::BeginRun,
            routes!(begin::begin_run),
        ),
        Route::named(
            "reopen_run",
            post.clone(),
            "/v1/runs/reopen",
            Action::BeginRun,
            routes!(begin::reopen_run),
        ),
        Route::api(
            "list_runs",
            get.clone(),
            "/v1/states/{ws}/{env}/{name}/runs",
            Action::ReadRun,
            routes!(manage::list_runs),
        ),
        Route::api(
            "get_run",
            get.clone(),
            RUN,
            Action::ReadRun,
            routes!(manage::get_run),
        ),
        row(
            "renew_run",
            "/v1/runs/{run}/renew",
            keep,
            routes!(manage::renew_run).into(),
        ),
        row(
            "extend_run",
            "/v1/runs/{run}/extend",
            keep,
            routes!(manage::extend_run).into(),
        ),
        row(
            "finish_run",
            "/v1/runs/{run}/finish",
            keep,
            routes!(manage::finish_run).into(),
        ),
        row(
            "abort_run",
            "/v1/runs/{run}/abort",
            Action::AbortRun,
            routes!(manage::abort_run).into(),
        ),
        Route::terraform(
            "read_run_state",
            get,
            BACKEND,
            Action::UseRun,
            routes!(backend::read_run_state),
        ),
        Route::terraform(
            "write_run_state",
            post,
            BACKEND,
            Action::UseRun,
            routes!(backend::write_run_state),
        ),
        Route::terraform(
            "lock_run_state",
            lock_method,
            BACKEND,
            Action::UseRun,
            any(backend::lock_run_state),
        ),
        Route::terraform(
            "unlock_run_state",
            unlock_method,
            BACKEND,
            Action::UseRun,
            any(backend::unlock_run_state),
        ),
    ]
}
