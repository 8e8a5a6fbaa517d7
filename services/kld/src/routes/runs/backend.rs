//! The http backend of a run, to the letter of what Terraform sends and expects.
//!
//! Nothing here is ever a 404, which Terraform takes for "no state yet".

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::EngineError;
use protocol::{Code, LockInfo};

use crate::access::RunCaller;
use crate::error::ApiError;
use crate::routes::terraform::{LockId, acting_on, body, lock_id, lock_request, unlock_target};
use crate::state::AppState;

/// The slice as the run last saw it.
#[utoipa::path(get, path = "/v1/runs/{run}/state", tag = "runs", params(("run" = protocol::RunId, Path)),
    responses(
        (status = 200, description = "the slice", content_type = "application/json"),
        (status = 409, description = "the run has ended", body = protocol::Problem),
    ))]
pub(super) async fn read_run_state(
    State(app): State<AppState>,
    caller: RunCaller,
) -> Result<Response, ApiError> {
    let bytes = app.engine.read_run(&acting_on(&caller)?).await?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], bytes).into_response())
}

/// Takes the slice back: what changed within the write claims is committed.
#[utoipa::path(post, path = "/v1/runs/{run}/state", tag = "runs",
    params(("run" = protocol::RunId, Path),
        ("ID" = Option<String>, Query, description = "the lock that the writer holds")),
    request_body(content = String, content_type = "application/json", description = "a state document"),
    responses(
        (status = 200, description = "it is committed, or changed nothing"),
        (status = 409, description = "it was kept, or is a delayed duplicate", body = protocol::Problem),
    ))]
pub(super) async fn write_run_state(
    State(app): State<AppState>,
    caller: RunCaller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let acting = acting_on(&caller)?;
    let id = lock_id(query.as_deref());
    let limit = app.config.max_state_bytes;
    let _room = app
        .uploads
        .admit(acting.workspace(), &headers, limit)
        .await?;
    let body = body::receive(&headers, body, limit).await?;
    let id = match &id {
        LockId::None => None,
        LockId::One(id) => Some(id.as_str()),
        LockId::Several => {
            return Err(ApiError::with_detail(
                Code::LockIdMismatch,
                "the address holds more than one lock ID",
            ));
        }
    };
    app.engine.upload(&acting, id, body).await?;
    Ok(StatusCode::OK)
}

/// `LOCK`: one Terraform at a time works on a run.
pub(super) async fn lock_run_state(
    State(app): State<AppState>,
    caller: RunCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let info = lock_request(&headers, body).await?;
    let acting = acting_on(&caller)?;
    app.engine
        .lock_run_backend(&acting, &info)
        .await
        .map_err(as_conflict)?;
    Ok(StatusCode::OK)
}

/// `UNLOCK`.
pub(super) async fn unlock_run_state(
    State(app): State<AppState>,
    caller: RunCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let target = unlock_target(&headers, body).await?;
    app.engine
        .unlock_run_backend(&acting_on(&caller)?, &target)
        .await?;
    Ok(StatusCode::OK)
}

/// A refused LOCK says why in the one place that Terraform shows: the ID of a lock.
fn as_conflict(error: EngineError) -> ApiError {
    let said = match &error {
        EngineError::RunIsReadOnly | EngineError::RunEnded(_) | EngineError::LeaseLost { .. } => {
            error.to_string()
        }
        _ => return error.into(),
    };
    let info = LockInfo {
        id: said,
        ..LockInfo::default()
    };
    ApiError::from(error).with_members(info)
}
