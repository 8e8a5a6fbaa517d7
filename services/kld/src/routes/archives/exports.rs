//! Asking for archives, and for addresses to download them from.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use protocol::archives::{ArchiveKeys, Download, ExportRequest, Job};

use super::jobs::JobPath;
use super::{acting, archives};
use crate::access::{EnvironmentCaller, StateCaller};
use crate::body::Create;
use crate::error::ApiError;
use crate::routes::tenancy::repeatable::{answered_before, keep_answer};
use crate::state::AppState;

/// Asks for an archive of a state: every version up to now, every tag, and where each comes from. A worker writes it.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/archive", tag = "archives", request_body = ExportRequest,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    responses((status = 202, body = Job), (status = 404, body = protocol::Problem)))]
pub(super) async fn export_state(
    State(app): State<AppState>,
    caller: StateCaller,
    request: Create<ExportRequest>,
) -> Result<(StatusCode, Json<Job>), ApiError> {
    let archives = archives(&app)?;
    let (acting, key) = (acting(&caller)?, request.key.as_ref());
    let mut tx = app.db.begin(caller.workspace()).await?;
    if let Some(earlier) = answered_before::<Job>(&mut tx, caller.principal(), key).await? {
        tx.rollback().await?;
        return Ok((
            StatusCode::ACCEPTED,
            Json(archives.job(&acting, earlier.id).await?),
        ));
    }
    let job = archives
        .request_export(&mut tx, &acting, caller.name())
        .await?;
    keep_answer(&mut tx, caller.principal(), key, &job).await?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(job)))
}

/// Gives an address from which the archive of an export can be downloaded for five minutes. Whoever has the address can;
/// that it was given is in the audit log.
#[utoipa::path(post, path = "/v1/workspaces/{ws}/environments/{env}/jobs/{job}/download", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = Download), (status = 409, body = protocol::Problem)))]
pub(super) async fn download_archive(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Path(path): Path<JobPath>,
) -> Result<Json<Download>, ApiError> {
    let download = archives(&app)?
        .download(&acting(&caller)?, path.id()?)
        .await?;
    Ok(Json(download))
}

/// The key that signs this deployment's archives, and the keys it trusts.
#[utoipa::path(get, path = "/v1/archive-keys", tag = "archives", responses((status = 200, body = ArchiveKeys)))]
pub(super) async fn get_archive_keys(
    State(app): State<AppState>,
) -> Result<Json<ArchiveKeys>, ApiError> {
    let trusted = archives(&app)?.keys();
    Ok(Json(ArchiveKeys {
        signing: trusted.first().cloned().unwrap_or_default(),
        trusted,
    }))
}
