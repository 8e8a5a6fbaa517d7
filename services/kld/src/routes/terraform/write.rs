//! `POST` and `DELETE` of a state.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{Source, WriteLock, Written};
use protocol::Code;

use super::query::{LockId, lock_id};
use super::{acting, body};
use crate::access::StateCaller;
use crate::error::ApiError;
use crate::state::AppState;

/// Where the time of a request went, for people and benchmarks (<https://www.w3.org/TR/server-timing/>).
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// `POST …/{name}?ID=…`: make the body the next version.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path),
        ("ID" = Option<String>, Query, description = "the lock that the writer holds")),
    request_body(content = String, content_type = "application/json", description = "a state document"),
    responses(
        (status = 200, description = "it is the newest version"),
        (status = 409, description = "a lock, serial or lineage stands against it", body = protocol::Problem),
        (status = 423, description = "somebody holds the state", body = protocol::Problem),
    ))]
pub(crate) async fn write_state(
    State(app): State<AppState>,
    caller: StateCaller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let id = lock_id(query.as_deref());
    let _room = app
        .uploads
        .admit(caller.workspace(), &headers, app.config.max_state_bytes)
        .await?;
    let body = body::receive(&headers, body, app.config.max_state_bytes).await?;
    let received = began.elapsed();
    let report = app
        .engine
        .write_document(
            &acting(&caller)?,
            caller.name(),
            write_lock(&id)?,
            body,
            Source::Terraform,
        )
        .await?;
    let mut response = StatusCode::OK.into_response();
    let timing = format!(
        "receive;dur={:.3}, prepare;dur={:.3}, commit;dur={:.3}",
        received.as_secs_f64() * 1e3,
        report.prepare.as_secs_f64() * 1e3,
        report.commit.as_secs_f64() * 1e3,
    );
    if let (Ok(timing), Written::Version { .. }) = (HeaderValue::from_str(&timing), &report.written)
    {
        response.headers_mut().insert(SERVER_TIMING, timing);
    }
    Ok(response)
}

/// `DELETE …/{name}?ID=…`: delete the state; it can be brought back until it is purged.
#[utoipa::path(delete, path = "/v1/states/{ws}/{env}/{name}", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path),
        ("ID" = Option<String>, Query, description = "the lock that the caller holds")),
    responses(
        (status = 200, description = "it is deleted, and can be brought back until it is purged"),
        (status = 404, description = "there is no such state", body = protocol::Problem),
        (status = 423, description = "somebody holds the state", body = protocol::Problem),
    ))]
pub(crate) async fn delete_state(
    State(app): State<AppState>,
    caller: StateCaller,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, ApiError> {
    let id = lock_id(query.as_deref());
    app.engine
        .delete_state(&acting(&caller)?, caller.name(), write_lock(&id)?)
        .await?;
    Ok(StatusCode::OK)
}

fn write_lock(id: &LockId) -> Result<WriteLock<'_>, ApiError> {
    match id {
        LockId::None => Ok(WriteLock::None),
        LockId::One(id) => Ok(WriteLock::Id(id)),
        LockId::Several => Err(ApiError::with_detail(
            Code::LockIdMismatch,
            "the address holds more than one lock ID",
        )),
    }
}
