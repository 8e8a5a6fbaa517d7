//! Looking at jobs, and ending them.

use axum::Json;
use axum::extract::{Path, State};
use protocol::archives::{Job, JobPage};
use protocol::page::PageQuery;
use protocol::{Code, JobId};
use serde::Deserialize;

use super::{acting, archives};
use crate::access::EnvironmentCaller;
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::state::AppState;

/// The last parameter of an address with a job in it.
#[derive(Debug, Deserialize)]
pub(super) struct JobPath {
    job: String,
}

impl JobPath {
    /// An ill-formed id names nothing.
    pub(super) fn id(&self) -> Result<JobId, ApiError> {
        self.job
            .parse()
            .map_err(|_| ApiError::with_detail(Code::NotFound, "there is no such job"))
    }
}

/// The exports and imports of an environment, newest first.
#[utoipa::path(get, path = "/v1/workspaces/{ws}/environments/{env}/jobs", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), PageQuery),
    responses((status = 200, body = JobPage)))]
pub(super) async fn list_jobs(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<JobPage>, ApiError> {
    let before = page
        .cursor
        .as_deref()
        .map(str::parse::<JobId>)
        .transpose()
        .map_err(|_| ApiError::with_detail(Code::InvalidRequest, "`cursor` is none of ours"))?;
    let limit = page.limit();
    let jobs = archives(&app)?
        .jobs(&acting(&caller)?, before, i64::from(limit))
        .await?;
    let full = jobs.len() == limit as usize;
    let next_cursor = jobs.last().filter(|_| full).map(|last| last.id.to_string());
    Ok(Json(JobPage { jobs, next_cursor }))
}

/// One export or import.
#[utoipa::path(get, path = "/v1/workspaces/{ws}/environments/{env}/jobs/{job}", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = protocol::Problem)))]
pub(super) async fn get_job(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Path(path): Path<JobPath>,
) -> Result<Json<Job>, ApiError> {
    let job = archives(&app)?.job(&acting(&caller)?, path.id()?).await?;
    Ok(Json(job))
}

/// Ends a job. What it has written is removed; one that runs ends as soon as its worker hears of it.
#[utoipa::path(post, path = "/v1/workspaces/{ws}/environments/{env}/jobs/{job}/cancel", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = Job), (status = 409, body = protocol::Problem)))]
pub(super) async fn cancel_job(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Path(path): Path<JobPath>,
) -> Result<Json<Job>, ApiError> {
    let job = archives(&app)?
        .cancel(&acting(&caller)?, path.id()?)
        .await?;
    Ok(Json(job))
}
