//! What is done to a state by hand: roll back, bring a document in, lock, break a lock, bring back.

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use chrono::Utc;
use engine::{Source, UnlockTarget, Unlocked, WriteLock, Written};
use protocol::states::{
    AdminLockRequest, ForceUnlockAnswer, ForceUnlockRequest, ImportAnswer, LockHolder,
    RollbackAnswer, RollbackRequest, UndeleteAnswer, UndeleteRequest,
};
use protocol::{Code, LockInfo, StateId};
use uuid::Uuid;

use super::history::named_version;
use super::render;
use crate::access::StateCaller;
use crate::body::Json as JsonBody;
use crate::error::ApiError;
use crate::routes::terraform::{LockId, acting, body, lock_id};
use crate::state::AppState;

const LONGEST_MESSAGE: usize = 1_000;

/// Makes an old version the content of a new one on top.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/rollback", tag = "states", request_body = RollbackRequest,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = RollbackAnswer)))]
pub(super) async fn roll_back_state(
    State(app): State<AppState>,
    caller: StateCaller,
    JsonBody(request): JsonBody<RollbackRequest>,
) -> Result<Json<RollbackAnswer>, ApiError> {
    let wanted = named_version(&app, &caller, &request.to).await?;
    let done = app
        .engine
        .roll_back(&acting(&caller)?, caller.name(), wanted)
        .await?;
    Ok(Json(RollbackAnswer {
        seq: done.seq,
        serial: done.serial,
        rows_changed: done.rows_changed,
        from: render::version(&done.from),
        to: render::version(&done.to),
        by: caller.display().to_owned(),
    }))
}

/// Brings a whole document in as the next version, under the rules of a write of the Terraform lane.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/import", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path),
        ("ID" = Option<String>, Query, description = "the lock held by the caller")),
    request_body(content = String, content_type = "application/json"),
    responses((status = 200, body = ImportAnswer)))]
pub(super) async fn import_state(
    State(app): State<AppState>,
    caller: StateCaller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ImportAnswer>, ApiError> {
    let id = lock_id(query.as_deref());
    let lock = match &id {
        LockId::None => WriteLock::None,
        LockId::One(id) => WriteLock::Id(id),
        LockId::Several => return Err(ApiError::new(Code::LockIdMismatch)),
    };
    let _room = app
        .uploads
        .admit(caller.workspace(), &headers, app.config.max_state_bytes)
        .await?;
    let body = body::receive(&headers, body, app.config.max_state_bytes).await?;
    let report = app
        .engine
        .write_document(&acting(&caller)?, caller.name(), lock, body, Source::Import)
        .await?;
    Ok(Json(match report.written {
        Written::Unchanged { seq } => ImportAnswer {
            seq,
            changed: false,
        },
        Written::Version { seq, .. } => ImportAnswer { seq, changed: true },
    }))
}

/// Takes an administrative lock: nobody writes until it is taken away by hand.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/admin-lock", tag = "states", request_body = AdminLockRequest,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = LockHolder)))]
pub(super) async fn take_admin_lock(
    State(app): State<AppState>,
    caller: StateCaller,
    JsonBody(request): JsonBody<AdminLockRequest>,
) -> Result<Json<LockHolder>, ApiError> {
    let message = request.message.trim();
    if message.is_empty() || message.len() > LONGEST_MESSAGE {
        return Err(ApiError::with_detail(
            Code::InvalidRequest,
            "the message says why, for those who will meet the lock: 1 to 1000 bytes",
        ));
    }
    let info = LockInfo {
        id: format!("admin_{}", Uuid::now_v7().simple()),
        operation: "administrative lock".to_owned(),
        info: message.to_owned(),
        who: caller.display().to_owned(),
        created: Some(Utc::now()),
        ..LockInfo::default()
    };
    let holder = app
        .engine
        .admin_lock(&acting(&caller)?, caller.name(), &info)
        .await?;
    Ok(Json(render::holder(holder)?))
}

/// Takes the administrative lock away.
#[utoipa::path(delete, path = "/v1/states/{ws}/{env}/{name}/admin-lock", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 204, description = "there is none any more")))]
pub(super) async fn release_admin_lock(
    State(app): State<AppState>,
    caller: StateCaller,
) -> Result<StatusCode, ApiError> {
    app.engine
        .admin_unlock(&acting(&caller)?, caller.name())
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Breaks the Terraform lock, or the reservation of a run by its id: one's own for a writer, another's for a maintainer.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/force-unlock", tag = "states",
    request_body = ForceUnlockRequest,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = ForceUnlockAnswer)))]
pub(super) async fn force_unlock_state(
    State(app): State<AppState>,
    caller: StateCaller,
    JsonBody(request): JsonBody<ForceUnlockRequest>,
) -> Result<Json<ForceUnlockAnswer>, ApiError> {
    let target = match &request.lock_id {
        Some(id) => UnlockTarget::Id(LockInfo::id_word(id).to_owned()),
        None => UnlockTarget::Any,
    };
    let broken = match app
        .engine
        .force_unlock(&acting(&caller)?, caller.name(), &target)
        .await?
    {
        Unlocked::Broken(holder) | Unlocked::Released(holder) => Some(render::holder(*holder)?),
        Unlocked::Nothing => None,
    };
    Ok(Json(ForceUnlockAnswer { broken }))
}

/// Gives a deleted state its name back.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/undelete", tag = "states", request_body = UndeleteRequest,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = UndeleteAnswer)))]
pub(super) async fn undelete_state(
    State(app): State<AppState>,
    caller: StateCaller,
    JsonBody(request): JsonBody<UndeleteRequest>,
) -> Result<Json<UndeleteAnswer>, ApiError> {
    let wanted = request.state_id.map(|id| id.as_uuid());
    let id = app
        .engine
        .undelete_state(&acting(&caller)?, caller.name(), wanted)
        .await?;
    Ok(Json(UndeleteAnswer {
        state_id: StateId::from_uuid(id),
    }))
}
