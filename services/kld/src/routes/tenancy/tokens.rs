//! `/v1/workspaces/{ws}/tokens`, and the end of tokens found elsewhere.

use auth::{Pepper, Token, TokenId, TokenKind};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::page::PageQuery;
use protocol::tenancy::{
    CreateToken, CreatedToken, Member, MemberKind, RevokeToken, TokenPage, TokenScope,
};
use protocol::{Code, WorkspaceId};
use serde_json::json;
use store::WorkspaceTx;
use store::tenancy::audit::{self, Actor, NewEntry};
use store::tenancy::credentials::{self, NewToken, Revocation};
use store::tenancy::{environments, members};

use super::repeatable::{answered_before, keep_answer};
use super::{check_text, next_cursor};
use crate::access::WorkspaceCaller;
use crate::body::{Create, Json};
use crate::dispatch::RequestId;
use crate::error::ApiError;
use crate::routes::parameter::{QueryParams, TokenParam};
use crate::state::AppState;

/// How long a token lives when nobody says.
pub(super) const DEFAULT_LIFETIME_DAYS: u16 = 90;
/// The longest life of a token.
const MAX_LIFETIME_DAYS: u16 = 365;

/// Makes a token of a member and stores what proves it. The answer holds the secret, for this once.
///
/// # Errors
///
/// Those of the database.
pub async fn issue_token(
    tx: &mut WorkspaceTx,
    pepper: &Pepper,
    member: &Member,
    description: Option<&str>,
    scope: &TokenScope,
    created_by: &str,
    lifetime_days: u16,
) -> Result<CreatedToken, store::Error> {
    let kind = match member.kind {
        MemberKind::Person => TokenKind::Person,
        MemberKind::Service => TokenKind::Service,
    };
    let secret = Token::generate(kind, &mut rand::rng());
    let new = NewToken {
        id: secret.id(),
        kind,
        principal: &member.principal,
        mac: &pepper.mac(&secret),
        description,
        scope,
        created_by,
        lifetime_days,
    };
    let token = credentials::create_token(tx, &new).await?;
    Ok(CreatedToken {
        token,
        secret: Some(secret.expose().to_owned()),
    })
}

/// Makes a token of a member. It is in the answer and is never shown again.
#[utoipa::path(
    post, path = "/v1/workspaces/{ws}/tokens", tag = "tenancy", request_body = CreateToken,
    params(
        ("ws" = WorkspaceId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable"),
    ),
    responses((status = 201, body = CreatedToken), (status = 404, body = protocol::Problem))
)]
pub async fn create_token(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    request: Create<CreateToken>,
) -> Result<Response, ApiError> {
    let CreateToken {
        principal,
        expires_in_days,
        description,
        scope,
    } = request.body;
    let lifetime_days = expires_in_days.unwrap_or(DEFAULT_LIFETIME_DAYS);
    if !(1..=MAX_LIFETIME_DAYS).contains(&lifetime_days) {
        let detail = format!("`expires_in_days` is between 1 and {MAX_LIFETIME_DAYS}");
        return Err(ApiError::with_detail(Code::InvalidRequest, detail));
    }
    if let Some(description) = &description {
        check_text("description", description)?;
    }
    let scope = scope.unwrap_or_default();
    let key = request.key.as_ref();

    let mut tx = app.db.begin(caller.workspace()).await?;
    let earlier = answered_before::<CreatedToken>(&mut tx, caller.principal(), key).await?;
    if let Some(earlier) = earlier {
        return Ok((StatusCode::CREATED, axum::Json(earlier)).into_response());
    }
    let member = members::find_member(&mut tx, &principal)
        .await?
        .ok_or_else(|| ApiError::with_detail(Code::NotFound, "there is no such member"))?;
    if let Some(environment) = &scope.environment
        && environments::find_environment(&mut tx, environment)
            .await?
            .is_none()
    {
        let detail = "the scope names an environment that does not exist";
        return Err(ApiError::with_detail(Code::InvalidRequest, detail));
    }
    let created_by = caller.principal().as_str();
    let description = description.as_deref();
    let pepper = &app.config.token_pepper;
    let mut created = issue_token(
        &mut tx,
        pepper,
        &member,
        description,
        &scope,
        created_by,
        lifetime_days,
    )
    .await?;
    let secret = created.secret.take();
    let entry = NewEntry {
        action: "token.create",
        target: &created.token.token_id,
        after: Some(json!({
            "principal": principal,
            "scope": scope,
            "expires_at": created.token.expires_at,
        })),
        ..NewEntry::default()
    };
    audit::record(&mut tx, &*caller, entry).await?;
    keep_answer(&mut tx, caller.principal(), key, &created).await?;
    tx.commit().await?;

    created.secret = secret;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// Lists the tokens of the workspace, without secrets, with when and where they were used last.
#[utoipa::path(
    get, path = "/v1/workspaces/{ws}/tokens", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), PageQuery),
    responses((status = 200, body = TokenPage))
)]
pub async fn list_tokens(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<axum::Json<TokenPage>, ApiError> {
    let limit = page.limit();
    let mut tx = app.db.begin_read(caller.workspace()).await?;
    let tokens = credentials::list_tokens(&mut tx, page.cursor.as_deref(), limit).await?;
    tx.commit().await?;
    let next_cursor = next_cursor(&tokens, limit, |token| token.token_id.clone());
    Ok(axum::Json(TokenPage {
        tokens,
        next_cursor,
    }))
}

/// Revokes a token. It stops working within five seconds, everywhere.
#[utoipa::path(
    delete, path = "/v1/workspaces/{ws}/tokens/{token_id}", tag = "tenancy",
    params(("ws" = WorkspaceId, Path), ("token_id" = String, Path, description = "The token's public id")),
    responses((status = 204, description = "Revoked, now or before"), (status = 404, body = protocol::Problem))
)]
pub async fn revoke_token(
    State(app): State<AppState>,
    caller: WorkspaceCaller,
    TokenParam(token_id): TokenParam,
) -> Result<StatusCode, ApiError> {
    let mut tx = app.db.begin(caller.workspace()).await?;
    revoke(&mut tx, &*caller, &token_id).await?;
    tx.commit().await?;
    app.verdicts.forget_all();
    Ok(StatusCode::NO_CONTENT)
}

/// Revokes a token that was found somewhere. The token is its own proof; no login is needed, and the answer is the same
/// whether it was valid or not.
#[utoipa::path(
    post, path = "/v1/tokens/revoke", tag = "tenancy", request_body = RevokeToken,
    responses((status = 204, description = "If it was a token, it works no more"))
)]
pub async fn revoke_found_token(
    State(app): State<AppState>,
    axum::Extension(request_id): axum::Extension<RequestId>,
    Json(request): Json<RevokeToken>,
) -> Result<StatusCode, ApiError> {
    let Ok(token) = Token::parse(request.token.trim()) else {
        return Ok(StatusCode::NO_CONTENT);
    };
    let Some(owner) = credentials::find_token_owner(&app.db, token.id()).await? else {
        return Ok(StatusCode::NO_CONTENT);
    };
    if app.config.token_pepper.mac(&token) != owner.mac {
        return Ok(StatusCode::NO_CONTENT);
    }
    match &owner.workspace {
        Some(workspace) => {
            let mut tx = app.db.begin(workspace).await?;
            let actor = Actor {
                principal: &owner.principal,
                display: "bearer of the token",
                token_id: Some(token.id().as_str()),
                request_id: &request_id.0,
            };
            revoke(&mut tx, actor, token.id()).await?;
            tx.commit().await?;
        }
        None => {
            credentials::revoke_operator_token(&app.db, token.id()).await?;
            tracing::warn!(token.id = %token.id(), "an operator's token was revoked by its bearer");
        }
    }
    app.verdicts.forget_all();
    Ok(StatusCode::NO_CONTENT)
}

async fn revoke<'a>(
    tx: &mut WorkspaceTx,
    actor: impl Into<Actor<'a>>,
    token_id: &TokenId,
) -> Result<(), ApiError> {
    match credentials::revoke_token(tx, token_id).await? {
        Revocation::NotFound => Err(ApiError::new(Code::NotFound)),
        Revocation::AlreadyRevoked => Ok(()),
        Revocation::Done => {
            let entry = NewEntry {
                action: "token.revoke",
                target: token_id.as_str(),
                ..NewEntry::default()
            };
            Ok(audit::record(tx, actor, entry).await?)
        }
    }
}
