//! Bringing archives in: first the name is reserved, then the archive comes in parts under signed addresses, then a worker
//! takes over.

use auth::Action;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use engine::archive::NewImport;
use protocol::Code;
use protocol::archives::{ImportRequest, ImportUpload, Job};

use super::jobs::JobPath;
use super::{acting, archives};
use crate::access::EnvironmentCaller;
use crate::body::Create;
use crate::error::ApiError;
use crate::routes::tenancy::repeatable::{answered_before, keep_answer};
use crate::state::AppState;

/// Asks to restore a state from an archive, before anything is uploaded. The name is reserved from here on; one that is in
/// use is refused, unless it stands in `overwrite` once more.
#[utoipa::path(post, path = "/v1/workspaces/{ws}/environments/{env}/imports", tag = "archives",
    request_body = ImportRequest,
    params(("ws" = String, Path), ("env" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    responses((status = 202, body = Job), (status = 409, body = protocol::Problem)))]
pub(super) async fn create_import(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    request: Create<ImportRequest>,
) -> Result<(StatusCode, Json<Job>), ApiError> {
    let archives = archives(&app)?;
    let body = &request.body;
    if body.allow_foreign && !caller.permits(Action::ImportForeignArchive) {
        let detail = "an archive that no trusted key has signed takes the role admin";
        return Err(ApiError::with_detail(Code::Forbidden, detail));
    }
    let overwrite = match &body.overwrite {
        None => false,
        Some(again) if again.as_str() == body.name.as_str() => true,
        Some(_) => {
            let detail = "`overwrite` repeats the name of the state that is to be replaced";
            return Err(ApiError::with_detail(Code::InvalidRequest, detail));
        }
    };
    let import = NewImport {
        name: &body.name,
        size_bytes: body.size_bytes,
        parts: &body.parts,
        state_id: body.state_id.map(|id| id.as_uuid()),
        archived: body.archived,
        overwrite,
        allow_foreign: body.allow_foreign,
    };
    let (acting, key) = (acting(&caller)?, request.key.as_ref());
    let mut tx = app.db.begin(caller.workspace()).await?;
    if let Some(earlier) = answered_before::<Job>(&mut tx, caller.principal(), key).await? {
        tx.rollback().await?;
        return Ok((
            StatusCode::ACCEPTED,
            Json(archives.job(&acting, earlier.id).await?),
        ));
    }
    let job = archives.request_import(&mut tx, &acting, &import).await?;
    keep_answer(&mut tx, caller.principal(), key, &job).await?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(job)))
}

/// Says which parts of the archive are missing, with addresses to put the first of them to. Ask again for more, and after
/// an upload that broke off.
#[utoipa::path(post, path = "/v1/workspaces/{ws}/environments/{env}/imports/{job}/parts", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = ImportUpload), (status = 409, body = protocol::Problem)))]
pub(super) async fn list_missing_parts(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Path(path): Path<JobPath>,
) -> Result<Json<ImportUpload>, ApiError> {
    let upload = archives(&app)?
        .missing_parts(&acting(&caller)?, path.id()?)
        .await?;
    Ok(Json(upload))
}

/// Says that all parts are there: a worker verifies the archive and restores the state.
#[utoipa::path(post, path = "/v1/workspaces/{ws}/environments/{env}/imports/{job}/complete", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("job" = String, Path)),
    responses((status = 202, body = Job), (status = 409, body = protocol::Problem)))]
pub(super) async fn complete_import(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Path(path): Path<JobPath>,
) -> Result<(StatusCode, Json<Job>), ApiError> {
    let job = archives(&app)?
        .complete_import(&acting(&caller)?, path.id()?)
        .await?;
    Ok((StatusCode::ACCEPTED, Json(job)))
}
