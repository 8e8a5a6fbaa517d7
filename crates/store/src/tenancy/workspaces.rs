//! The workspaces of the deployment. A table without row security: it is read before the workspace is known.

use chrono::{DateTime, Utc};
use protocol::name::DisplayName;
use protocol::tenancy::{Workspace, WorkspaceLifecycle};
use protocol::{PrincipalId, WorkspaceId};

use crate::{Db, Error, Result, WorkspaceTx};

/// The constraint that keeps names apart.
pub const NAME_KEY: &str = "workspaces_name_key";
/// The constraint that keeps a repeated creation from making a second workspace.
pub const CREATION_KEY: &str = "workspaces_creation_key";

struct Row {
    id: String,
    name: String,
    lifecycle: String,
    created_at: DateTime<Utc>,
}

impl TryFrom<Row> for Workspace {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: row
                .id
                .parse()
                .map_err(|error| Error::impossible("workspaces", error))?,
            name: row.name,
            lifecycle: parse_lifecycle(&row.lifecycle)?,
            created_at: row.created_at,
        })
    }
}

pub(super) fn parse_lifecycle(text: &str) -> Result<WorkspaceLifecycle> {
    match text {
        "active" => Ok(WorkspaceLifecycle::Active),
        "suspended" => Ok(WorkspaceLifecycle::Suspended),
        other => Err(Error::impossible(
            "workspaces",
            format!("lifecycle {other}"),
        )),
    }
}

/// A new id. Six random bytes: the primary key refuses the one in 2^48 that is taken.
#[must_use]
pub fn new_workspace_id() -> WorkspaceId {
    WorkspaceId::from_bytes(rand::random())
}

/// Makes the workspace that the transaction was begun for.
///
/// # Errors
///
/// [`Error::Constraint`] with [`NAME_KEY`] when the name is taken, with [`CREATION_KEY`] when the request was made
/// before.
pub async fn create_workspace(
    tx: &mut WorkspaceTx,
    name: &DisplayName,
    created_by: &str,
    creation_key: Option<&str>,
) -> Result<Workspace> {
    let id = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            INSERT INTO workspaces (id, name, created_by, creation_key)
            VALUES ($1, $2, $3, $4)
            RETURNING id, name, lifecycle, created_at
        "#,
        id.as_str(),
        name.as_str(),
        created_by,
        creation_key,
    )
    .fetch_one(&mut **tx)
    .await?
    .try_into()
}

/// The workspace that this operator made with this Idempotency-Key.
///
/// # Errors
///
/// Those of the database.
pub async fn find_workspace_by_creation_key(
    db: &Db,
    created_by: &PrincipalId,
    creation_key: &str,
) -> Result<Option<WorkspaceId>> {
    let id = sqlx::query_scalar!(
        r#"
            SELECT id
            FROM workspaces
            WHERE created_by = $1 AND creation_key = $2
        "#,
        created_by.as_str(),
        creation_key,
    )
    .fetch_optional(&mut *db.system().await?)
    .await?;
    id.map(|id| {
        id.parse()
            .map_err(|error| Error::impossible("workspaces", error))
    })
    .transpose()
}

/// A workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn find_workspace(db: &Db, id: &WorkspaceId) -> Result<Option<Workspace>> {
    sqlx::query_as!(
        Row,
        r#"
            SELECT id, name, lifecycle, created_at
            FROM workspaces
            WHERE id = $1
        "#,
        id.as_str(),
    )
    .fetch_optional(&mut *db.system().await?)
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The workspaces after an id, by id.
///
/// # Errors
///
/// Those of the database.
pub async fn list_workspaces(db: &Db, after: Option<&str>, limit: u32) -> Result<Vec<Workspace>> {
    sqlx::query_as!(
        Row,
        r#"
            SELECT id, name, lifecycle, created_at
            FROM workspaces
            WHERE id > $1
            ORDER BY id
            LIMIT $2
        "#,
        after.unwrap_or_default(),
        i64::from(limit),
    )
    .fetch_all(&mut *db.system().await?)
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// Suspends or resumes the transaction's workspace. `None` when there is no such workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn update_workspace(
    tx: &mut WorkspaceTx,
    lifecycle: WorkspaceLifecycle,
) -> Result<Option<Workspace>> {
    let id = tx.workspace().clone();
    let lifecycle = match lifecycle {
        WorkspaceLifecycle::Active => "active",
        WorkspaceLifecycle::Suspended => "suspended",
    };
    sqlx::query_as!(
        Row,
        r#"
            UPDATE workspaces
            SET lifecycle = $2
            WHERE id = $1
            RETURNING id, name, lifecycle, created_at
        "#,
        id.as_str(),
        lifecycle,
    )
    .fetch_optional(&mut **tx)
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// Locks the transaction's workspace against other changes of who administers it.
///
/// # Errors
///
/// Those of the database.
pub async fn lock_workspace(tx: &mut WorkspaceTx) -> Result<()> {
    let id = tx.workspace().clone();
    sqlx::query_scalar!(
        "SELECT id FROM workspaces WHERE id = $1 FOR NO KEY UPDATE",
        id.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(())
}
