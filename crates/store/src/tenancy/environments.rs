//! The environments of a workspace.

use chrono::{DateTime, Utc};
use protocol::EnvironmentId;
use protocol::name::DisplayName;
use protocol::tenancy::{Environment, UpdateEnvironment};

use crate::{Error, Result, WorkspaceTx};

/// The constraint that keeps names apart.
pub const NAME_KEY: &str = "environments_name_key";

struct Row {
    id: String,
    name: String,
    require_locks: bool,
    terraform_lock_ttl_seconds: Option<i32>,
    created_at: DateTime<Utc>,
}

impl TryFrom<Row> for Environment {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let impossible = |reason: String| Error::impossible("environments", reason);
        Ok(Self {
            id: row
                .id
                .parse()
                .map_err(|error| Error::impossible("environments", error))?,
            name: row.name,
            require_locks: row.require_locks,
            terraform_lock_ttl_seconds: row
                .terraform_lock_ttl_seconds
                .map(u32::try_from)
                .transpose()
                .map_err(|error| impossible(error.to_string()))?,
            created_at: row.created_at,
        })
    }
}

/// Makes an environment.
///
/// # Errors
///
/// [`Error::Constraint`] with [`NAME_KEY`] when the name is taken.
pub async fn create_environment(
    tx: &mut WorkspaceTx,
    name: &DisplayName,
    require_locks: bool,
    terraform_lock_ttl_seconds: Option<i32>,
) -> Result<Environment> {
    let workspace = tx.workspace().clone();
    let id = EnvironmentId::from_bytes(rand::random());
    sqlx::query_as!(
        Row,
        r#"
            INSERT INTO environments (workspace_id, id, name, require_locks, terraform_lock_ttl_seconds)
            VALUES ($1, $2, $3, $4, $5)
            RETURNING id, name, require_locks, terraform_lock_ttl_seconds, created_at
        "#,
        workspace.as_str(),
        id.as_str(),
        name.as_str(),
        require_locks,
        terraform_lock_ttl_seconds,
    )
    .fetch_one(&mut **tx)
    .await?
    .try_into()
}

/// An environment of the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn find_environment(
    tx: &mut WorkspaceTx,
    id: &EnvironmentId,
) -> Result<Option<Environment>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT id, name, require_locks, terraform_lock_ttl_seconds, created_at
            FROM environments
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        id.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The environments after an id, by id, of those that are visible; `None`: all are.
///
/// # Errors
///
/// Those of the database.
pub async fn list_environments(
    tx: &mut WorkspaceTx,
    visible: Option<&[String]>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Environment>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT id, name, require_locks, terraform_lock_ttl_seconds, created_at
            FROM environments
            WHERE workspace_id = $1
                AND id > $2
                AND ($3::text[] IS NULL OR id = ANY ($3))
            ORDER BY id
            LIMIT $4
        "#,
        workspace.as_str(),
        after.unwrap_or_default(),
        visible,
        i64::from(limit),
    )
    .fetch_all(&mut **tx)
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// Changes an environment's settings; what the change does not name stays. `None` when there is no such environment.
///
/// # Errors
///
/// Those of the database.
pub async fn update_environment(
    tx: &mut WorkspaceTx,
    id: &EnvironmentId,
    change: &UpdateEnvironment,
) -> Result<Option<Environment>> {
    let workspace = tx.workspace().clone();
    let ttl = change
        .terraform_lock_ttl_seconds
        .flatten()
        .map(i32::try_from)
        .transpose()
        .map_err(|error| Error::impossible("environments", error))?;
    sqlx::query_as!(
        Row,
        r#"
            UPDATE environments
            SET require_locks = coalesce($3, require_locks),
                terraform_lock_ttl_seconds = CASE WHEN $4 THEN $5 ELSE terraform_lock_ttl_seconds END
            WHERE workspace_id = $1 AND id = $2
            RETURNING id, name, require_locks, terraform_lock_ttl_seconds, created_at
        "#,
        workspace.as_str(),
        id.as_str(),
        change.require_locks,
        change.terraform_lock_ttl_seconds.is_some(),
        ttl,
    )
    .fetch_optional(&mut **tx)
    .await?
    .map(TryInto::try_into)
    .transpose()
}
