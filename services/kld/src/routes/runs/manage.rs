//! Looking at runs, keeping them alive, and ending them.

use axum::Json;
use axum::extract::State;
use protocol::runs::{AbortRun, ExtendRun, FinishRun, RenewRun, Renewed, Run, RunPage};
use protocol::{Code, RunId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::{RunCaller, StateCaller};
use crate::body::Json as JsonBody;
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::routes::terraform::{acting, acting_on};
use crate::state::AppState;

/// Runs of a page unless asked otherwise, and at most.
const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct RunQuery {
    /// At most so many runs; 20 unless given, 100 at most.
    limit: Option<i64>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The runs of a state, newest first.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/runs", tag = "runs",
    params(RunQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = RunPage)))]
pub(super) async fn list_runs(
    State(app): State<AppState>,
    caller: StateCaller,
    QueryParams(query): QueryParams<RunQuery>,
) -> Result<Json<RunPage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let before = query.cursor.as_deref().map(|cursor| {
        let cursor = cursor.parse::<RunId>().map(|id| id.as_uuid());
        cursor.map_err(|error| ApiError::with_detail(Code::InvalidRequest, error.to_string()))
    });
    let page = app
        .engine
        .list_runs(&acting(&caller)?, caller.name(), before.transpose()?, limit)
        .await?;
    Ok(Json(page))
}

/// A run, with what it wrote.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs", params(("run" = RunId, Path)),
    responses((status = 200, body = Run)))]
pub(super) async fn get_run(
    State(app): State<AppState>,
    caller: RunCaller,
) -> Result<Json<Run>, ApiError> {
    Ok(Json(app.engine.run(&acting_on(&caller)?).await?))
}

/// Starts the lease anew.
#[utoipa::path(post, path = "/v1/runs/{run}/renew", tag = "runs", params(("run" = RunId, Path)),
    request_body = RenewRun,
    responses(
        (status = 200, body = Renewed),
        (status = 409, description = "the reservation has ended", body = protocol::Problem),
    ))]
pub(super) async fn renew_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<RenewRun>,
) -> Result<Json<Renewed>, ApiError> {
    let renewed = app.engine.renew_run(&acting_on(&caller)?, &request).await?;
    Ok(Json(renewed))
}

/// Adds claims, at once or not at all.
#[utoipa::path(post, path = "/v1/runs/{run}/extend", tag = "runs", params(("run" = RunId, Path)),
    request_body = ExtendRun,
    responses(
        (status = 200, body = Run),
        (status = 409, description = "somebody holds it, or the reservation has ended", body = protocol::Problem),
    ))]
pub(super) async fn extend_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<ExtendRun>,
) -> Result<Json<Run>, ApiError> {
    let run = app
        .engine
        .extend_run(&acting_on(&caller)?, &request)
        .await?;
    Ok(Json(run))
}

/// Ends a run and releases what it holds, or puts it to sleep over its plan.
#[utoipa::path(post, path = "/v1/runs/{run}/finish", tag = "runs", params(("run" = RunId, Path)),
    request_body = FinishRun,
    responses(
        (status = 200, body = Run),
        (status = 409, description = "it has ended otherwise", body = protocol::Problem),
    ))]
pub(super) async fn finish_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<FinishRun>,
) -> Result<Json<Run>, ApiError> {
    let run = app
        .engine
        .finish_run(&acting_on(&caller)?, &request)
        .await?;
    Ok(Json(run))
}

/// Ends a run: one's own for a writer, another's for a maintainer. What it uploads from then on is kept.
#[utoipa::path(post, path = "/v1/runs/{run}/abort", tag = "runs", params(("run" = RunId, Path)),
    request_body = AbortRun, responses((status = 200, body = Run)))]
pub(super) async fn abort_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<AbortRun>,
) -> Result<Json<Run>, ApiError> {
    let run = app.engine.abort_run(&acting_on(&caller)?, &request).await?;
    Ok(Json(run))
}
