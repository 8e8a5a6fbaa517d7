//! Whole bodies beside the rows: verbatim documents, and header members stored once per content.

use std::borrow::Cow;

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// Keeps the packed (compressed, sealed) bytes of a version's document.
pub async fn insert_document(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    packed: &[u8],
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO version_documents (workspace_id, state_id, seq, body) VALUES ($1, $2, $3, $4)",
        tx.workspace().as_str(),
        state_id,
        seq,
        packed,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub async fn find_document(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
) -> Result<Option<Vec<u8>>, Error> {
    let body = sqlx::query_scalar!(
        r#"
            SELECT body
            FROM version_documents
            WHERE workspace_id = $1 AND state_id = $2 AND seq = $3
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(body)
}

/// Stores header members that are not stored yet.
pub async fn insert_parts(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    parts: &[([u8; 32], Cow<'_, [u8]>)],
) -> Result<(), Error> {
    if parts.is_empty() {
        return Ok(());
    }
    let digests: Vec<&[u8]> = parts.iter().map(|(digest, _)| digest.as_slice()).collect();
    let bodies: Vec<&[u8]> = parts.iter().map(|(_, body)| &**body).collect();
    sqlx::query!(
        r#"
            INSERT INTO header_parts (workspace_id, state_id, digest, body)
            SELECT $1, $2, u.digest, u.body
            FROM unnest($3::bytea[], $4::bytea[]) AS u (digest, body)
            ON CONFLICT DO NOTHING
        "#,
        tx.workspace().as_str(),
        state_id,
        &digests as &[&[u8]],
        &bodies as &[&[u8]],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The named header members that exist, as (digest, body).
pub async fn find_parts(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    digests: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
    if digests.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"
            SELECT digest, body
            FROM header_parts
            WHERE workspace_id = $1 AND state_id = $2 AND digest = ANY ($3)
        "#,
        tx.workspace().as_str(),
        state_id,
        digests,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.digest, row.body)).collect())
}
