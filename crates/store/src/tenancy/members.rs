//! The principals of a workspace and their grants.

use chrono::{DateTime, Utc};
use protocol::PrincipalId;
use protocol::tenancy::{Grant, Member, MemberKind};

use crate::{Error, Result, WorkspaceTx};

/// The constraint that a grant names an environment of the workspace.
pub const GRANT_ENVIRONMENT: &str = "grants_environment";

struct Row {
    id: String,
    kind: String,
    display: String,
    created_at: DateTime<Utc>,
    roles: Vec<String>,
    environments: Vec<String>,
}

impl TryFrom<Row> for Member {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            principal: row
                .id
                .parse()
                .map_err(|error| Error::impossible("principals", error))?,
            kind: match row.kind.as_str() {
                "person" => MemberKind::Person,
                "service" => MemberKind::Service,
                other => return Err(Error::impossible("principals", format!("kind {other}"))),
            },
            display: row.display,
            grants: parse_grants(&row.roles, &row.environments)?,
            created_at: row.created_at,
        })
    }
}

/// Joins the two columns that grants are read in. An empty environment stands for all of them.
pub(super) fn parse_grants(roles: &[String], environments: &[String]) -> Result<Vec<Grant>> {
    let pairs = roles.iter().zip(environments);
    pairs
        .map(|(role, environment)| {
            Ok(Grant {
                role: role
                    .parse()
                    .map_err(|error| Error::impossible("grants", error))?,
                environment: match environment.as_str() {
                    "" => None,
                    id => Some(
                        id.parse()
                            .map_err(|error| Error::impossible("grants", error))?,
                    ),
                },
            })
        })
        .collect()
}

const fn kind_text(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Person => "person",
        MemberKind::Service => "service",
    }
}

/// Makes a member with its grants.
///
/// # Errors
///
/// [`Error::Constraint`] with [`GRANT_ENVIRONMENT`] when a grant names an environment that does not exist.
pub async fn create_member(
    tx: &mut WorkspaceTx,
    kind: MemberKind,
    display: &str,
    grants: Vec<Grant>,
) -> Result<Member> {
    let workspace = tx.workspace().clone();
    let principal = PrincipalId::from_bytes(rand::random());
    let created_at = sqlx::query_scalar!(
        r#"
            INSERT INTO principals (workspace_id, id, kind, display)
            VALUES ($1, $2, $3, $4)
            RETURNING created_at
        "#,
        workspace.as_str(),
        principal.as_str(),
        kind_text(kind),
        display,
    )
    .fetch_one(&mut **tx)
    .await?;
    insert_grants(tx, &principal, &grants).await?;
    Ok(Member {
        principal,
        kind,
        display: display.to_owned(),
        grants,
        created_at,
    })
}

/// A member of the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn find_member(tx: &mut WorkspaceTx, id: &PrincipalId) -> Result<Option<Member>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT
                p.id,
                p.kind,
                p.display,
                p.created_at,
                ARRAY(
                    SELECT g.role FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "roles!",
                ARRAY(
                    SELECT coalesce(g.environment_id, '') FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "environments!"
            FROM principals p
            WHERE p.workspace_id = $1 AND p.id = $2
        "#,
        workspace.as_str(),
        id.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The members after an id, by id.
///
/// # Errors
///
/// Those of the database.
pub async fn list_members(
    tx: &mut WorkspaceTx,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Member>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT
                p.id,
                p.kind,
                p.display,
                p.created_at,
                ARRAY(
                    SELECT g.role FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "roles!",
                ARRAY(
                    SELECT coalesce(g.environment_id, '') FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "environments!"
            FROM principals p
            WHERE p.workspace_id = $1 AND p.id > $2
            ORDER BY p.id
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

/// Puts these grants in the place of all that the member had.
///
/// # Errors
///
/// [`Error::Constraint`] with [`GRANT_ENVIRONMENT`] when a grant names an environment that does not exist.
pub async fn replace_grants(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    grants: &[Grant],
) -> Result<()> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            DELETE FROM grants
            WHERE workspace_id = $1 AND principal_id = $2
        "#,
        workspace.as_str(),
        principal.as_str(),
    )
    .execute(&mut **tx)
    .await?;
    insert_grants(tx, principal, grants).await
}

/// Whether anybody administers the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn has_admin(tx: &mut WorkspaceTx) -> Result<bool> {
    let workspace = tx.workspace().clone();
    Ok(sqlx::query_scalar!(
        r#"
            SELECT EXISTS (
                SELECT FROM grants
                WHERE workspace_id = $1 AND environment_id IS NULL AND role = 'admin'
            ) AS "exists!"
        "#,
        workspace.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?)
}

async fn insert_grants(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    grants: &[Grant],
) -> Result<()> {
    let workspace = tx.workspace().clone();
    let roles: Vec<String> = grants.iter().map(|grant| grant.role.to_string()).collect();
    let environments: Vec<String> = grants
        .iter()
        .map(|grant| {
            grant
                .environment
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default()
        })
        .collect();
    // The same grant twice in one request is one grant.
    sqlx::query!(
        r#"
            INSERT INTO grants (workspace_id, principal_id, environment_id, role)
            SELECT $1, $2, nullif(new.environment, ''), new.role
            FROM unnest($3::text[], $4::text[]) AS new (environment, role)
            ON CONFLICT DO NOTHING
        "#,
        workspace.as_str(),
        principal.as_str(),
        &environments,
        &roles,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
