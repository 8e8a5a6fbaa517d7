//! Tags: names for versions.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A tag with the version it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub tag: String,
    pub seq: i64,
    pub description: Option<String>,
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

/// The tags of a state, by name.
pub async fn list_tags(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<Vec<Tag>, Error> {
    let workspace = tx.workspace().clone();
    let tags = sqlx::query_as!(
        Tag,
        r#"
            SELECT tag, seq, description, created_by, created_at
            FROM version_tags
            WHERE workspace_id = $1 AND state_id = $2
            ORDER BY tag
        "#,
        workspace.as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(tags)
}

pub async fn find_tag(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    tag: &str,
) -> Result<Option<Tag>, Error> {
    let workspace = tx.workspace().clone();
    let tag = sqlx::query_as!(
        Tag,
        r#"
            SELECT tag, seq, description, created_by, created_at
            FROM version_tags
            WHERE workspace_id = $1 AND state_id = $2 AND tag = $3
        "#,
        workspace.as_str(),
        state_id,
        tag,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(tag)
}

/// Sets a tag, whatever it named before. `created_at`: now when absent.
pub async fn set_tag(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    tag: &str,
    seq: i64,
    description: Option<&str>,
    created_by: &str,
    created_at: Option<DateTime<Utc>>,
) -> Result<Tag, Error> {
    let workspace = tx.workspace().clone();
    let set = sqlx::query_as!(
        Tag,
        r#"
            INSERT INTO version_tags (
                workspace_id, state_id, tag, seq, description, created_by, created_at
            )
            VALUES ($1, $2, $3, $4, $5, $6, coalesce($7, clock_timestamp()))
            ON CONFLICT (workspace_id, state_id, tag) DO UPDATE
            SET seq = excluded.seq, description = excluded.description,
                created_by = excluded.created_by, created_at = excluded.created_at
            RETURNING tag, seq, description, created_by, created_at
        "#,
        workspace.as_str(),
        state_id,
        tag,
        seq,
        description,
        created_by,
        created_at,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(set)
}

/// Removes a tag; false when there is none.
pub async fn delete_tag(tx: &mut WorkspaceTx, state_id: Uuid, tag: &str) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let deleted = sqlx::query!(
        "DELETE FROM version_tags WHERE workspace_id = $1 AND state_id = $2 AND tag = $3",
        workspace.as_str(),
        state_id,
        tag,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(deleted == 1)
}
