//! Which file of the configuration a resource was last written from.

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A block and the file it was last written from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedSource {
    pub config_address: String,
    pub file: String,
}

/// Records with version `seq` from which file each block was written. No block twice.
pub async fn record_sources(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    sources: &[RecordedSource],
) -> Result<(), Error> {
    if sources.is_empty() {
        return Ok(());
    }
    // In one order everywhere, so that two transactions never wait for each other crosswise.
    let mut sources: Vec<&RecordedSource> = sources.iter().collect();
    sources.sort_unstable();
    let addresses: Vec<&str> = sources
        .iter()
        .map(|source| source.config_address.as_str())
        .collect();
    let files: Vec<&str> = sources.iter().map(|source| source.file.as_str()).collect();
    sqlx::query!(
        r#"
            INSERT INTO address_sources (workspace_id, state_id, config_address, file, seq)
            SELECT $1, $2, u.config_address, u.file, $3
            FROM unnest($4::text[], $5::text[]) AS u (config_address, file)
            ON CONFLICT (workspace_id, state_id, config_address)
            DO UPDATE SET file = excluded.file, seq = excluded.seq
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        &addresses as &[&str],
        &files as &[&str],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The blocks that were last written from one of these files, whether the state still has them or not; sorted.
pub async fn sources_in_files(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    files: &[String],
) -> Result<Vec<RecordedSource>, Error> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = tx.workspace().clone();
    let sources = sqlx::query_as!(
        RecordedSource,
        r#"
            SELECT config_address, file
            FROM address_sources
            WHERE workspace_id = $1 AND state_id = $2 AND file = ANY ($3)
            ORDER BY config_address
        "#,
        workspace.as_str(),
        state_id,
        files,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(sources)
}

/// Every recorded source of a state, sorted by block.
pub async fn list_sources(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
) -> Result<Vec<RecordedSource>, Error> {
    let workspace = tx.workspace().clone();
    let sources = sqlx::query_as!(
        RecordedSource,
        r#"
            SELECT config_address, file
            FROM address_sources
            WHERE workspace_id = $1 AND state_id = $2
            ORDER BY config_address
        "#,
        workspace.as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(sources)
}
