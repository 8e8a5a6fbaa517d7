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

/// Rows that one version has and a later one has not, and the other way round.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub dead: Vec<DeadRow>,
    pub born: Vec<GraphRow>,
}

/// What changed between version `from`, if it is still the one of this id, and version `to`. `None`: it is another one now,
/// as after a restore.
pub async fn changes_since(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    (from, id): (i64, Uuid),
    to: i64,
) -> Result<Option<Changes>, Error> {
    let workspace = tx.workspace().clone();
    // The index on births is asked for by its own words: it leaves out those of the first version.
    let rows = sqlx::query!(
        r#"
            SELECT changed.address AS "address?", changed.kind AS "kind?", changed.deposed,
                   changed.config_address AS "config_address?", changed.dependencies AS "dependencies?",
                   changed.born_seq AS "born_seq?"
            FROM state_versions base
            LEFT JOIN LATERAL (
                SELECT address, kind, deposed, config_address, dependencies, born_seq
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND born_seq > 1 AND born_seq > $3 AND born_seq <= $5
                  AND (dies_seq IS NULL OR dies_seq > $5)
                UNION ALL
                SELECT address, kind, deposed, NULL, NULL, NULL
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $5 AND born_seq <= $3
            ) AS changed ON true
            WHERE base.workspace_id = $1 AND base.state_id = $2 AND base.seq = $3 AND base.id = $4
        "#,
        workspace.as_str(),
        state_id,
        from,
        id,
        to,
    )
    .fetch_all(&mut **tx)
    .await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut changes = Changes::default();
    for row in rows {
        let deposed = row.deposed;
        let Some((address, kind)) = row.address.zip(row.kind) else {
            continue;
        };
        match (row.config_address, row.dependencies, row.born_seq) {
            (Some(config_address), Some(dependencies), Some(born_seq)) => {
                changes.born.push(GraphRow {
                    address,
                    kind,
                    deposed,
                    config_address,
                    dependencies,
                    born_seq,
                });
            }
            _ => changes.dead.push(DeadRow {
                address,
                kind,
                deposed,
            }),
        }
    }
    Ok(Some(changes))
}

/// What differs between two versions, by name only.
#[derive(Debug, Clone, Default)]
pub struct Touched {
    /// Addresses of instances; one may stand here more than once.
    pub addresses: Vec<String>,
    /// Names of outputs.
    pub outputs: Vec<String>,
}

/// The places at which version `to` is not what version `from` is; all of its places where `from` is none.
pub async fn touched_between(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    from: i64,
    to: i64,
) -> Result<Touched, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query!(
        r#"SELECT place AS "place!", is_output AS "is_output!" FROM places_touched($1, $2, $3, $4)"#,
        workspace.as_str(),
        state_id,
        from,
        to,
    )
    .fetch_all(&mut **tx)
    .await?;
    let mut touched = Touched::default();
    for row in rows {
        match row.is_output {
            true => touched.outputs.push(row.place),
            false => touched.addresses.push(row.place),
        }
    }
    if from < 1 {
        // Those of the first version stand in no index.
        each_graph_row(tx, state_id, to, |row| {
            touched.addresses.push(row.address);
            Ok::<_, Error>(())
        })
        .await?;
    }
    Ok(touched)
}
