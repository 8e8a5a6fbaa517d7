//! `/v1/workspaces`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::page::PageQuery;
use protocol::tenancy::{
    CreateWorkspace, CreatedWorkspace, Grant, MemberKind, TokenScope, UpdateWorkspace, Workspace,
    WorkspacePage,
};
use protocol::{Code, Role, WorkspaceId};
use serde_json::json;
use store::tenancy::audit::{self, NewEntry};
use store::tenancy::{idempotency, members, workspaces};

use super::repeatable::{answered_before, earlier_answer, keep_answer};
use super::tokens::{DEFAULT_LIFETIME_DAYS, issue_token};
use super::{check_text, next_cursor, parse_name};
use crate::access::{Caller, WorkspaceCaller};
use crate::body::{Create, IdempotencyKey, Json};
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::state::AppState;

/// Makes a workspace with its first admin. The admin's token is in the answer and is never shown again.
#[utoipa::path(
    post, path = "/v1/workspaces", tag = "tenancy", request_body = CreateWorkspace,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    responses((status = 201, body = CreatedWorkspace), (status = 409, body = protocol::Problem))
)]
pub async fn create_workspace(
    State(app): State<AppState>,
    caller: Caller,
    request: Create<CreateWorkspace>,
) -> Result<Response, ApiError> {
    let name = parse_name(&request.body.name)?;
    check_text("admin", &request.body.admin)?;
    let key = request.key.as_ref();
    if let Some(key) = key
        && let Some(earlier) = created_before(&app, &caller, key).await?
    {
        return Ok((StatusCode::CREATED, axum::Json(earlier)).into_response());
    }

    let mut tx = app.db.begin(&workspaces::new_workspace_id()).await?;
    let created_by = caller.principal().as_str();
    let creation_key = key.map(|key| key.key.as_str());
    let made = workspaces::create_workspace(&mut tx, &name, created_by, creation_key).await;
    let workspace = match made {
        Ok(workspace) => workspace,
        Err(error) if error.is_constraint(workspaces::NAME_KEY) => {
            return Err(ApiError::new(Code::NameTaken));
        }
        // The same request is being answered at this moment; the client's next try finds its answer.
        Err(error) if error.is_constraint(workspaces::CREATION_KEY) => {
            return Err(ApiError::new(Code::Unavailable).retry_after(1));
        }
        Err(error) => return Err(error.into()),
    };
    // The key is new to a workspace that is new itself; this records it for the answer below.
    answered_before::<CreatedWorkspace>(&mut tx, caller.principal(), key).await?;
    let grants = vec![Grant {
        role: Role::Admin,
        environment: None,
    }];
    let admin =
        members::create_member(&mut tx, MemberKind::Person, &request.body.admin, grants).await?;
    let scope = TokenScope::default();
    let token = issue_token(
        &mut tx,
        &app.config.token_pepper,
        &admin,
        None,
        &scope,
        created_by,
        DEFAULT_LIFETIME_DAYS,
    )
    .await?;
    let mut created = CreatedWorkspace {
        workspace,
        admin,
        token,
    };
    let secret = created.token.secret.take();
    let entry = NewEntry {
        action: "workspace.create",
        target: created.workspace.id.as_str(),
        after: Some(json!({ "name": name, "admin": created.admin.principal })),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    keep_answer(&mut tx, caller.principal(), key, &created).await?;
    tx.commit().await?;

    created.token.secret = secret;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// What this request was answered before, without the secret.
async fn created_before(
    app: &AppState,
    caller: &Caller,
    key: &IdempotencyKey,
) -> Result<Option<CreatedWorkspace>, ApiError> {
    let principal = caller.principal();
    let Some(id) = workspaces::find_workspace_by_creation_key(&app.db, principal, &key.key).await?
    else {
        return Ok(None);
    };
    let mut tx = app.db.begin_read(&id).await?;
    let claim = idempotency::find_answer(&mut tx, principal, &key.key, &key.request_digest).await?;
    tx.commit().await?;
    match claim {
        Some(claim) => earlier_answer(claim),
        // The answer is no longer kept, but the key still names the workspace it made.
        None => Err(ApiError::with_detail(
            Code::Conflict,
            format!("this Idempotency-Key made {id} some time ago"),
        )),
    }
}

/// Lists the workspaces of the deployment.
#[utoipa::path(
    get, path = "/v1/workspaces", tag = "tenancy", params(PageQuery),
    responses((status = 200, body = WorkspacePage))
)]
pub async fn list_workspaces(
    State(app): State<AppState>,
    _: Caller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<axum::Json<WorkspacePage>, ApiError> {
    let limit = page.limit();
    let found = workspaces::list_workspaces(&app.db, page.cursor.as_deref(), limit).await?;
    let next_cursor = next_cursor(&found, limit, |workspace| workspace.id.to_string());
    Ok(axum::Json(WorkspacePage {
        workspaces: found,
        next_cursor,
    }))
}

/// Shows a workspace.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}", tag = "tenancy",
    params(("ws" = WorkspaceId, Path)),
    responses((status = 200, body = Workspace), (status = 404, body = protocol::Problem))
)]
pub async fn get_workspace(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
) -> Result<axum::Json<Workspace>, ApiError> {
    let found = workspaces::find_workspace(&app.db, caller.workspace()).await?;
    found
        .map(axum::Json)
        .ok_or_else(|| ApiError::new(Code::NotFound))
}

/// Suspends or resumes a workspace. While it is suspended, its members are refused everything.
#[utoipa::path(
    patch, path = "/v1/workspaces/{ws}", tag = "tenancy", request_body = UpdateWorkspace,
    params(("ws" = WorkspaceId, Path)),
    responses((status = 200, body = Workspace), (status = 404, body = protocol::Problem))
)]
pub async fn update_workspace(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    Json(change): Json<UpdateWorkspace>,
) -> Result<axum::Json<Workspace>, ApiError> {
    let mut tx = app.db.begin(caller.workspace()).await?;
    let Some(workspace) = workspaces::update_workspace(&mut tx, change.lifecycle).await? else {
        return Err(ApiError::new(Code::NotFound));
    };
    let entry = NewEntry {
        action: "workspace.update",
        target: workspace.id.as_str(),
        after: Some(json!({ "lifecycle": workspace.lifecycle })),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    tx.commit().await?;
    app.verdicts.forget_all();
    Ok(axum::Json(workspace))
}
