//! Tokens. A table without row security, as a token is looked up before its workspace is known: every statement that
//! serves a workspace names it in its `WHERE` clause.

use auth::{TokenId, TokenKind, TokenMac};
use chrono::{DateTime, Utc};
use protocol::tenancy::{Token, TokenScope};
use protocol::{PrincipalId, WorkspaceId};
use sqlx::Connection as _;

use crate::{Db, Error, Result, WorkspaceTx};

/// A token to be stored.
#[derive(Debug)]
pub struct NewToken<'a> {
    /// Its public id.
    pub id: &'a TokenId,
    /// The kind it was generated with.
    pub kind: TokenKind,
    /// Whose it is.
    pub principal: &'a PrincipalId,
    /// What proves it.
    pub mac: &'a TokenMac,
    /// What it is for, in words.
    pub description: Option<&'a str>,
    /// What it may do at most.
    pub scope: &'a TokenScope,
    /// Who made it: a principal's id, or `kld admin`.
    pub created_by: &'a str,
    /// How long it lives.
    pub lifetime_days: u16,
}

/// How a token was used last.
#[derive(Debug, Clone)]
pub struct TokenUse {
    /// Which token.
    pub token_id: TokenId,
    /// When.
    pub at: DateTime<Utc>,
    /// From which network: the address without its last part.
    pub network: Option<String>,
    /// With which user agent, cut to a sensible length.
    pub agent: Option<String>,
}

struct Row {
    token_id: String,
    principal_id: String,
    description: Option<String>,
    scope_role: Option<String>,
    scope_environment_id: Option<String>,
    created_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
    last_used_at: Option<DateTime<Utc>>,
    last_used_network: Option<String>,
    last_used_agent: Option<String>,
}

impl TryFrom<Row> for Token {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let scope = parse_scope(
            row.scope_role.as_deref(),
            row.scope_environment_id.as_deref(),
        )?;
        Ok(Self {
            token_id: row.token_id,
            principal: row
                .principal_id
                .parse()
                .map_err(|error| Error::impossible("credentials", error))?,
            description: row.description,
            scope: (scope != TokenScope::default()).then_some(scope),
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
            last_used_network: row.last_used_network,
            last_used_agent: row.last_used_agent,
        })
    }
}

pub(super) fn parse_scope(role: Option<&str>, environment: Option<&str>) -> Result<TokenScope> {
    Ok(TokenScope {
        role: role
            .map(str::parse)
            .transpose()
            .map_err(|error| Error::impossible("credentials", error))?,
        environment: environment
            .map(str::parse)
            .transpose()
            .map_err(|error| Error::impossible("credentials", error))?,
    })
}

/// Stores a token of a member of the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn create_token(tx: &mut WorkspaceTx, new: &NewToken<'_>) -> Result<Token> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            INSERT INTO credentials (
                token_id, workspace_id, principal_id, kind, mac, description,
                scope_role, scope_environment_id, created_by, expires_at
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + make_interval(days => $10))
            RETURNING
                token_id, principal_id, description, scope_role, scope_environment_id,
                created_at, expires_at, revoked_at, last_used_at, last_used_network, last_used_agent
        "#,
        new.id.as_str(),
        workspace.as_str(),
        new.principal.as_str(),
        new.kind.as_str(),
        new.mac.as_bytes().as_slice(),
        new.description,
        new.scope.role.map(|role| role.as_str()),
        new.scope
            .environment
            .as_ref()
            .map(|environment| environment.as_str()),
        new.created_by,
        i32::from(new.lifetime_days),
    )
    .fetch_one(&mut **tx)
    .await?
    .try_into()
}

/// Stores the first operator's token. `None` when there is an operator already whose token still works.
///
/// # Errors
///
/// Those of the database.
pub async fn create_first_operator(
    db: &Db,
    new: &NewToken<'_>,
    display: &str,
) -> Result<Option<DateTime<Utc>>> {
    let mut connection = db.system().await?;
    let mut tx = connection.begin().await?;
    // Two bootstraps at once would each see no operator. The number means nothing; it is used nowhere else.
    sqlx::query!("SELECT pg_advisory_xact_lock(7205931104)")
        .execute(&mut *tx)
        .await?;
    let expires_at = sqlx::query_scalar!(
        r#"
            INSERT INTO credentials (
                token_id, principal_id, kind, operator_display, mac, description, created_by, expires_at
            )
            SELECT $1, $2, 'operator', $3, $4, $5, $6, now() + make_interval(days => $7)
            WHERE NOT EXISTS (
                SELECT FROM credentials
                WHERE kind = 'operator' AND revoked_at IS NULL AND expires_at > now()
            )
            RETURNING expires_at
        "#,
        new.id.as_str(),
        new.principal.as_str(),
        display,
        new.mac.as_bytes().as_slice(),
        new.description,
        new.created_by,
        i32::from(new.lifetime_days),
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(expires_at)
}

/// Stores a token of an operator, known or new.
///
/// # Errors
///
/// Those of the database.
pub async fn create_operator_token(
    db: &Db,
    new: &NewToken<'_>,
    display: &str,
) -> Result<DateTime<Utc>> {
    Ok(sqlx::query_scalar!(
        r#"
            INSERT INTO credentials (
                token_id, principal_id, kind, operator_display, mac, description, created_by, expires_at
            )
            VALUES ($1, $2, 'operator', $3, $4, $5, $6, now() + make_interval(days => $7))
            RETURNING expires_at
        "#,
        new.id.as_str(),
        new.principal.as_str(),
        display,
        new.mac.as_bytes().as_slice(),
        new.description,
        new.created_by,
        i32::from(new.lifetime_days),
    )
    .fetch_one(&mut *db.system().await?)
    .await?)
}

/// The tokens of the transaction's workspace after an id, by id.
///
/// # Errors
///
/// Those of the database.
pub async fn list_tokens(
    tx: &mut WorkspaceTx,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Token>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT
                token_id, principal_id, description, scope_role, scope_environment_id,
                created_at, expires_at, revoked_at, last_used_at, last_used_network, last_used_agent
            FROM credentials
            WHERE workspace_id = $1 AND token_id > $2 AND kind <> 'run'
            ORDER BY token_id
            LIMIT $3
        "#,
        workspace.as_str(),
        after.unwrap_or_default(),
        i64::from(limit),
    )
    .fetch_all(&mut **tx)
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// What [`revoke_token`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The token works no more.
    Done,
    /// It had been revoked before.
    AlreadyRevoked,
    /// The workspace has no such token.
    NotFound,
}

/// Revokes a token of the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn revoke_token(tx: &mut WorkspaceTx, id: &TokenId) -> Result<Revocation> {
    let workspace = tx.workspace().clone();
    let revoked = sqlx::query!(
        r#"
            UPDATE credentials
            SET revoked_at = now()
            WHERE workspace_id = $1 AND token_id = $2 AND revoked_at IS NULL
        "#,
        workspace.as_str(),
        id.as_str(),
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if revoked == 1 {
        return Ok(Revocation::Done);
    }
    let known = sqlx::query_scalar!(
        r#"
            SELECT EXISTS (
                SELECT FROM credentials
                WHERE workspace_id = $1 AND token_id = $2
            ) AS "exists!"
        "#,
        workspace.as_str(),
        id.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(if known {
        Revocation::AlreadyRevoked
    } else {
        Revocation::NotFound
    })
}

/// Revokes an operator's token, given in full as its own proof. An operator belongs to no workspace, so there is no
/// audit log to write to; the caller logs it.
///
/// # Errors
///
/// Those of the database.
pub async fn revoke_operator_token(db: &Db, id: &TokenId) -> Result<()> {
    sqlx::query!(
        r#"
            UPDATE credentials
            SET revoked_at = now()
            WHERE workspace_id IS NULL AND token_id = $1 AND revoked_at IS NULL
        "#,
        id.as_str(),
    )
    .execute(&mut *db.system().await?)
    .await?;
    Ok(())
}

/// Whose token it is, and what proves it. For revocation by possession; logging in goes through
/// [`super::verdicts::find_verdict`].
#[derive(Debug)]
pub struct TokenOwner {
    /// What proves it.
    pub mac: TokenMac,
    /// The workspace; `None` for an operator.
    pub workspace: Option<WorkspaceId>,
    /// The principal.
    pub principal: PrincipalId,
}

/// The owner of a token.
///
/// # Errors
///
/// Those of the database.
pub async fn find_token_owner(db: &Db, id: &TokenId) -> Result<Option<TokenOwner>> {
    let row = sqlx::query!(
        r#"
            SELECT mac, workspace_id, principal_id
            FROM credentials
            WHERE token_id = $1
        "#,
        id.as_str(),
    )
    .fetch_optional(&mut *db.system().await?)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let impossible = |error: &dyn std::fmt::Display| Error::impossible("credentials", error);
    Ok(Some(TokenOwner {
        mac: TokenMac::from_slice(&row.mac).map_err(|error| impossible(&error))?,
        workspace: row
            .workspace_id
            .map(|id| id.parse())
            .transpose()
            .map_err(|error| impossible(&error))?,
        principal: row
            .principal_id
            .parse()
            .map_err(|error| impossible(&error))?,
    }))
}

/// Notes how tokens were used last, in one statement for all of them.
///
/// # Errors
///
/// Those of the database.
pub async fn record_token_uses(db: &Db, uses: &[TokenUse]) -> Result<()> {
    let ids: Vec<String> = uses.iter().map(|u| u.token_id.to_string()).collect();
    let times: Vec<DateTime<Utc>> = uses.iter().map(|u| u.at).collect();
    let networks: Vec<String> = uses
        .iter()
        .map(|u| u.network.clone().unwrap_or_default())
        .collect();
    let agents: Vec<String> = uses
        .iter()
        .map(|u| u.agent.clone().unwrap_or_default())
        .collect();
    sqlx::query!(
        r#"
            UPDATE credentials
            SET last_used_at = used.at,
                last_used_network = nullif(used.network, ''),
                last_used_agent = nullif(used.agent, '')
            FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[])
                AS used (token_id, at, network, agent)
            WHERE credentials.token_id = used.token_id
                AND (credentials.last_used_at IS NULL OR credentials.last_used_at < used.at)
        "#,
        &ids,
        &times,
        &networks,
        &agents,
    )
    .execute(&mut *db.system().await?)
    .await?;
    Ok(())
}
