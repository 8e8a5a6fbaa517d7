//! What a version holds, by address: lists and single instances.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// One instance of a version, with the version it was born in.
#[derive(Debug)]
pub struct ResourceRow {
    pub ord: Vec<u8>,
    pub address: String,
    pub kind: String,
    pub mode: String,
    pub resource_type: String,
    pub name: String,
    pub module: String,
    pub index_key: Option<String>,
    pub deposed: Option<String>,
    pub provider: Option<String>,
    pub born_seq: i64,
    pub born_at: DateTime<Utc>,
    pub dependencies: Vec<String>,
    /// Empty in lists.
    pub body: Vec<u8>,
}

/// Up to `limit` instances of version `seq` in document order, behind the place `after`; shells, which
/// hold no instance, are left out.
pub async fn list_resources(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    after: &[u8],
    limit: i64,
) -> Result<Vec<ResourceRow>, Error> {
    let rows = sqlx::query_as!(
        ResourceRow,
        r#"
            SELECT i.ord, i.address, i.kind, i.mode, i.type AS resource_type, i.name, i.module, i.index_key,
                   i.deposed, i.provider, i.born_seq, v.created_at AS born_at, i.dependencies,
                   ''::bytea AS "body!"
            FROM instances i
            JOIN state_versions v
              ON v.workspace_id = i.workspace_id AND v.state_id = i.state_id AND v.seq = i.born_seq
            WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.ord > $4 AND i.kind <> 'shell'
              AND i.born_seq <= $3 AND (i.dies_seq IS NULL OR i.dies_seq > $3)
            ORDER BY i.ord
            LIMIT $5
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        after,
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// Everything version `seq` holds between two places of the document order: the current object of an
/// address and its deposed ones stand together.
pub async fn find_instance(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    address: &str,
) -> Result<Vec<ResourceRow>, Error> {
    let rows = sqlx::query_as!(
        ResourceRow,
        r#"
            SELECT i.ord, i.address, i.kind, i.mode, i.type AS resource_type, i.name, i.module, i.index_key,
                   i.deposed, i.provider, i.born_seq, v.created_at AS born_at, i.dependencies, i.body
            FROM instances i
            JOIN state_versions v
              ON v.workspace_id = i.workspace_id AND v.state_id = i.state_id AND v.seq = i.born_seq
            WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.address = $4 AND i.kind <> 'shell'
              AND i.born_seq <= $3 AND (i.dies_seq IS NULL OR i.dies_seq > $3)
            ORDER BY i.ord
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        address,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}
