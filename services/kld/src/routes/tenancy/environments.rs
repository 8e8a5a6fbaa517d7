//! `/v1/workspaces/{ws}/environments`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::page::PageQuery;
use protocol::tenancy::{CreateEnvironment, Environment, EnvironmentPage, UpdateEnvironment};
use protocol::{Code, EnvironmentId, WorkspaceId};
use serde_json::json;
use store::tenancy::audit::{self, NewEntry};
use store::tenancy::environments;

use super::repeatable::{answered_before, keep_answer};
use super::{next_cursor, parse_name};
use crate::access::{EnvironmentCaller, WorkspaceCaller};
use crate::body::{Create, Json};
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::state::AppState;

/// The longest and shortest life of a Terraform lock that an environment may set. A shorter one would end locks under
/// running applies; longer than a month is as good as none.
const LOCK_TTL_SECONDS: std::ops::RangeInclusive<u32> = 10..=31 * 24 * 3600;

fn check_ttl(seconds: Option<u32>) -> Result<Option<i32>, ApiError> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    match i32::try_from(seconds) {
        Ok(checked) if LOCK_TTL_SECONDS.contains(&seconds) => Ok(Some(checked)),
        _ => Err(ApiError::with_detail(
            Code::InvalidRequest,
            format!(
                "`terraform_lock_ttl_seconds` is between {} and {}",
                LOCK_TTL_SECONDS.start(),
                LOCK_TTL_SECONDS.end()
            ),
        )),
    }
}

/// Makes an environment.
#[utoipa::path(
    post, path = "/v1/workspaces/{ws}/environments", tag = "tenancy", request_body = CreateEnvironment,
    params(
        ("ws" = WorkspaceId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable"),
    ),
    responses((status = 201, body = Environment), (status = 409, body = protocol::Problem))
)]
pub async fn create_environment(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    request: Create<CreateEnvironment>,
) -> Result<Response, ApiError> {
    let name = parse_name(&request.body.name)?;
    let ttl = check_ttl(request.body.terraform_lock_ttl_seconds)?;
    let key = request.key.as_ref();

    let mut tx = app.db.begin(caller.workspace()).await?;
    let earlier = answered_before::<Environment>(&mut tx, caller.principal(), key).await?;
    if let Some(earlier) = earlier {
        return Ok((StatusCode::CREATED, axum::Json(earlier)).into_response());
    }
    let made =
        environments::create_environment(&mut tx, &name, request.body.require_locks, ttl).await;
    let environment = match made {
        Ok(environment) => environment,
        Err(error) if error.is_constraint(environments::NAME_KEY) => {
            return Err(ApiError::new(Code::NameTaken));
        }
        Err(error) => return Err(error.into()),
    };
    let entry = NewEntry {
        action: "environment.create",
        target: environment.id.as_str(),
        environment: Some(&environment.id),
        after: Some(json!({
            "name": name,
            "require_locks": environment.require_locks,
            "terraform_lock_ttl_seconds": environment.terraform_lock_ttl_seconds,
        })),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    keep_answer(&mut tx, caller.principal(), key, &environment).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, axum::Json(environment)).into_response())
}

/// Lists the environments in which the caller has a role.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}/environments", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), PageQuery),
    responses((status = 200, body = EnvironmentPage))
)]
pub async fn list_environments(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<axum::Json<EnvironmentPage>, ApiError> {
    let limit = page.limit();
    let visible = caller.resolved().visible_environments();
    let visible: Option<Vec<String>> =
        visible.map(|ids| ids.iter().map(ToString::to_string).collect());
    let mut tx = app.db.begin_read(caller.workspace()).await?;
    let environments =
        environments::list_environments(&mut tx, visible.as_deref(), page.cursor.as_deref(), limit)
            .await?;
    tx.commit().await?;
    let next_cursor = next_cursor(&environments, limit, |environment| {
        environment.id.to_string()
    });
    Ok(axum::Json(EnvironmentPage {
        environments,
        next_cursor,
    }))
}

/// Shows an environment.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}/environments/{env}", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), ("env" = EnvironmentId, Path)),
    responses((status = 200, body = Environment), (status = 404, body = protocol::Problem))
)]
pub async fn get_environment(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
) -> Result<axum::Json<Environment>, ApiError> {
    let mut tx = app.db.begin_read(caller.workspace()).await?;
    let found = environments::find_environment(&mut tx, caller.environment()).await?;
    tx.commit().await?;
    found
        .map(axum::Json)
        .ok_or_else(|| ApiError::new(Code::NotFound))
}

/// Changes an environment's settings. What the body does not name stays.
#[utoipa::path(
    patch, path = "/v1/workspaces/{ws}/environments/{env}", tag = "tenancy",
    request_body = UpdateEnvironment,
    params(("ws" = WorkspaceId, Path), ("env" = EnvironmentId, Path)),
    responses((status = 200, body = Environment), (status = 404, body = protocol::Problem))
)]
pub async fn update_environment(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Json(change): Json<UpdateEnvironment>,
) -> Result<axum::Json<Environment>, ApiError> {
    check_ttl(change.terraform_lock_ttl_seconds.flatten())?;
    let id = caller.environment();
    let absent = || ApiError::new(Code::NotFound);

    let mut tx = app.db.begin(caller.workspace()).await?;
    let before = environments::find_environment(&mut tx, id)
        .await?
        .ok_or_else(absent)?;
    let after = environments::update_environment(&mut tx, id, &change)
        .await?
        .ok_or_else(absent)?;
    let settings = |environment: &Environment| {
        json!({
            "require_locks": environment.require_locks,
            "terraform_lock_ttl_seconds": environment.terraform_lock_ttl_seconds,
        })
    };
    let entry = NewEntry {
        action: "environment.update",
        target: id.as_str(),
        environment: Some(id),
        before: Some(settings(&before)),
        after: Some(settings(&after)),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    tx.commit().await?;
    Ok(axum::Json(after))
}
