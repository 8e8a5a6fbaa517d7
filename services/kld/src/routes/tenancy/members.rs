//! `/v1/workspaces/{ws}/members` and their grants.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::page::PageQuery;
use protocol::tenancy::{CreateMember, Grant, Member, MemberPage, ReplaceGrants};
use protocol::{Code, PrincipalId, WorkspaceId};
use serde_json::json;
use store::tenancy::audit::{self, NewEntry};
use store::tenancy::{members, workspaces};

use super::repeatable::{answered_before, keep_answer};
use super::{check_text, next_cursor};
use crate::access::WorkspaceCaller;
use crate::body::{Create, Json};
use crate::error::ApiError;
use crate::routes::parameter::{PrincipalParam, QueryParams};
use crate::state::AppState;

/// The most grants a member may have; more would be a sign of a workspace that wants dividing.
const MAX_GRANTS: usize = 1000;

fn unknown_environment(error: store::Error) -> ApiError {
    if error.is_constraint(members::GRANT_ENVIRONMENT) {
        ApiError::with_detail(
            Code::InvalidRequest,
            "a grant names an environment that does not exist",
        )
    } else {
        error.into()
    }
}

/// Makes a member with its first grant.
#[utoipa::path(
    post, path = "/v1/workspaces/{ws}/members", tag = "tenancy", request_body = CreateMember,
    params(
        ("ws" = WorkspaceId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable"),
    ),
    responses((status = 201, body = Member), (status = 400, body = protocol::Problem))
)]
pub async fn create_member(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    request: Create<CreateMember>,
) -> Result<Response, ApiError> {
    let CreateMember {
        kind,
        display,
        role,
        environment,
    } = request.body;
    check_text("display", &display)?;
    let key = request.key.as_ref();

    let mut tx = app.db.begin(caller.workspace()).await?;
    let earlier = answered_before::<Member>(&mut tx, caller.principal(), key).await?;
    if let Some(earlier) = earlier {
        return Ok((StatusCode::CREATED, axum::Json(earlier)).into_response());
    }
    let grants = vec![Grant { role, environment }];
    let member = members::create_member(&mut tx, kind, &display, grants)
        .await
        .map_err(unknown_environment)?;
    let entry = NewEntry {
        action: "member.create",
        target: member.principal.as_str(),
        after: Some(json!({ "kind": member.kind, "grants": member.grants })),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    keep_answer(&mut tx, caller.principal(), key, &member).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, axum::Json(member)).into_response())
}

/// Lists the members with their grants.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}/members", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), PageQuery),
    responses((status = 200, body = MemberPage))
)]
pub async fn list_members(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<axum::Json<MemberPage>, ApiError> {
    let limit = page.limit();
    let mut tx = app.db.begin_read(caller.workspace()).await?;
    let members = members::list_members(&mut tx, page.cursor.as_deref(), limit).await?;
    tx.commit().await?;
    let next_cursor = next_cursor(&members, limit, |member| member.principal.to_string());
    Ok(axum::Json(MemberPage {
        members,
        next_cursor,
    }))
}

/// Puts these grants in the place of all that the member has.
#[utoipa::path(
    put, path = "/v1/workspaces/{ws}/members/{principal}/grants", tag = "tenancy",
    request_body = ReplaceGrants,
    params(("ws" = WorkspaceId, Path), ("principal" = PrincipalId, Path)),
    responses(
        (status = 200, body = Member),
        (status = 404, body = protocol::Problem),
        (status = 409, body = protocol::Problem, description = "Nobody would administer the workspace any more"),
    )
)]
pub async fn replace_grants(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    PrincipalParam(principal): PrincipalParam,
    Json(request): Json<ReplaceGrants>,
) -> Result<axum::Json<Member>, ApiError> {
    if request.grants.len() > MAX_GRANTS {
        let detail = format!("a member has at most {MAX_GRANTS} grants");
        return Err(ApiError::with_detail(Code::InvalidRequest, detail));
    }
    change_grants(&app, &caller, &principal, &request.grants)
        .await
        .map(axum::Json)
}

/// Takes all grants from a member. It stays in histories, and its tokens open nothing.
#[utoipa::path(
    delete, path = "/v1/workspaces/{ws}/members/{principal}/grants", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), ("principal" = PrincipalId, Path)),
    responses((status = 200, body = Member), (status = 404, body = protocol::Problem))
)]
pub async fn delete_grants(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    PrincipalParam(principal): PrincipalParam,
) -> Result<axum::Json<Member>, ApiError> {
    change_grants(&app, &caller, &principal, &[])
        .await
        .map(axum::Json)
}

async fn change_grants(
    app: &AppState,
    caller: &WorkspaceCaller,
    principal: &PrincipalId,
    grants: &[Grant],
) -> Result<Member, ApiError> {
    let absent = || ApiError::new(Code::NotFound);
    let mut tx = app.db.begin(caller.workspace()).await?;
    // Two admins who remove each other at the same moment must not both succeed.
    workspaces::lock_workspace(&mut tx).await?;
    let before = members::find_member(&mut tx, principal)
        .await?
        .ok_or_else(absent)?;
    members::replace_grants(&mut tx, principal, grants)
        .await
        .map_err(unknown_environment)?;
    if !members::has_admin(&mut tx).await? {
        return Err(ApiError::with_detail(
            Code::Conflict,
            "nobody would administer the workspace any more",
        ));
    }
    let after = members::find_member(&mut tx, principal)
        .await?
        .ok_or_else(absent)?;
    let entry = NewEntry {
        action: "grants.replace",
        target: principal.as_str(),
        before: Some(json!(before.grants)),
        after: Some(json!(after.grants)),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &**caller, entry).await?;
    tx.commit().await?;
    app.verdicts.forget_all();
    Ok(after)
}
