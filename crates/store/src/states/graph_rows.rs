//! What a dependency graph is made of: rows without their bodies, of a whole version or of what changed between two.

use futures::TryStreamExt as _;
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A row as far as a graph is concerned.
#[derive(Debug, Clone)]
pub struct GraphRow {
    pub address: String,
    pub kind: String,
    pub deposed: Option<String>,
    pub config_address: String,
    pub dependencies: Vec<String>,
    pub born_seq: i64,
}

/// What is left of a row that died: which object it was.
#[derive(Debug, Clone)]
pub struct DeadRow {
    pub address: String,
    pub kind: String,
    pub deposed: Option<String>,
}

/// Hands every row of version `seq` to `take`, in no order.
pub async fn each_graph_row<E: From<Error>>(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    mut take: impl FnMut(GraphRow) -> Result<(), E>,
) -> Result<(), E> {
    let workspace = tx.workspace().clone();
    let mut rows = sqlx::query_as!(
        GraphRow,
        r#"
            SELECT address, kind, deposed, config_address, dependencies, born_seq
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2
              AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
        "#,
        workspace.as_str(),
        state_id,
        seq,
    )
    .fetch(&mut **tx);
    while let Some(row) = rows.try_next().await.map_err(Error::from)? {
        take(row)?;
    }
    Ok(())
}

/// Rows that version `to` has and `from` had not. Before the first version there was nothing, so from there these are all.
pub async fn rows_born_between(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    from: i64,
    to: i64,
) -> Result<Vec<GraphRow>, Error> {
    if from < 1 {
        let mut rows = Vec::new();
        each_graph_row(tx, state_id, to, |row| {
            rows.push(row);
            Ok::<_, Error>(())
        })
        .await?;
        return Ok(rows);
    }
    let workspace = tx.workspace().clone();
    // The index on births is asked for by its own words: it leaves out those of the first version.
    let rows = sqlx::query_as!(
        GraphRow,
        r#"
            SELECT address, kind, deposed, config_address, dependencies, born_seq
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > 1 AND born_seq > $3 AND born_seq <= $4
              AND (dies_seq IS NULL OR dies_seq > $4)
        "#,
        workspace.as_str(),
        state_id,
        from,
        to,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// Rows that version `from` had and `to` has not.
pub async fn rows_dead_between(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    from: i64,
    to: i64,
) -> Result<Vec<DeadRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        DeadRow,
        r#"
            SELECT address, kind, deposed
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $4
              AND born_seq <= $3
        "#,
        workspace.as_str(),
        state_id,
        from,
        to,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}
