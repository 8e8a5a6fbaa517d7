//! `GET /v1/workspaces/{ws}/audit`.

use axum::extract::State;
use protocol::page::PageQuery;
use protocol::tenancy::AuditPage;
use protocol::{AuditId, Code, WorkspaceId};
use store::tenancy::audit;

use super::next_cursor;
use crate::access::WorkspaceCaller;
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::state::AppState;

/// Lists what was changed or revealed in the workspace, newest first.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}/audit", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), PageQuery),
    responses((status = 200, body = AuditPage))
)]
pub async fn list_audit(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<axum::Json<AuditPage>, ApiError> {
    let limit = page.limit();
    let before: Option<AuditId> = page
        .cursor
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|_| ApiError::with_detail(Code::InvalidRequest, "`cursor` is not one of ours"))?;
    let mut tx = app.db.begin_read(caller.workspace()).await?;
    let entries = audit::list_entries(&mut tx, before, limit).await?;
    tx.commit().await?;
    let next_cursor = next_cursor(&entries, limit, |entry| entry.id.to_string());
    Ok(axum::Json(AuditPage {
        entries,
        next_cursor,
    }))
}
