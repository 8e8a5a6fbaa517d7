//! Root outputs: rows with a life span of their own, because they grow with the state and a version
//! must not pay for those it does not change.

use std::borrow::Cow;

use uuid::Uuid;

use super::instances::{digest, owned};
use crate::{Error, WorkspaceTx};

/// A live output of the head, as a comparison needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOutput {
    pub name: String,
    pub digest: [u8; 32],
}

/// An output to be born.
#[derive(Debug, Clone)]
pub struct NewOutput<'a> {
    pub name: Cow<'a, str>,
    /// The member's name as the document spells it, quotes included.
    pub name_token: Cow<'a, [u8]>,
    pub body: Cow<'a, [u8]>,
    pub digest: [u8; 32],
}

impl NewOutput<'_> {
    /// The same, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> NewOutput<'static> {
        NewOutput {
            name: owned(self.name),
            name_token: owned(self.name_token),
            body: owned(self.body),
            digest: self.digest,
        }
    }
}

/// An output of one version.
#[derive(Debug, Clone)]
pub struct OutputRow {
    pub name: String,
    pub name_token: Vec<u8>,
    pub body: Vec<u8>,
    pub digest: Vec<u8>,
}

pub async fn list_live_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
) -> Result<Vec<LiveOutput>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT name, body_digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq IS NULL
            ORDER BY name
        "#,
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LiveOutput {
                name: row.name,
                digest: digest(&row.body_digest)?,
            })
        })
        .collect()
}

/// Those of these outputs that live at the head.
pub async fn live_outputs_named(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    names: &[String],
) -> Result<Vec<LiveOutput>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"
            SELECT o.name, o.body_digest
            FROM unnest($3::text[]) AS wanted (name)
            CROSS JOIN LATERAL (
                SELECT name, body_digest
                FROM outputs
                WHERE workspace_id = $1 AND state_id = $2 AND outputs.name = wanted.name AND dies_seq IS NULL
                OFFSET 0
            ) AS o
        "#,
        tx.workspace().as_str(),
        state_id,
        names,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LiveOutput {
                name: row.name,
                digest: digest(&row.body_digest)?,
            })
        })
        .collect()
}

/// Ends the life of live outputs; every one must be live.
pub async fn close_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    names: &[String],
) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let closed = sqlx::query_scalar!(
        r#"SELECT close_outputs($1, $2, $3, $4) AS "closed!""#,
        tx.workspace().as_str(),
        state_id,
        seq,
        names,
    )
    .fetch_one(&mut **tx)
    .await?;
    if closed == names.len() as i64 {
        Ok(())
    } else {
        Err(Error::Moved(
            "the outputs of the head are not those compared with",
        ))
    }
}

pub async fn insert_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    outputs: &[NewOutput<'_>],
) -> Result<(), Error> {
    if outputs.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = outputs.iter().map(|output| &*output.name).collect();
    let tokens: Vec<&[u8]> = outputs.iter().map(|output| &*output.name_token).collect();
    let bodies: Vec<&[u8]> = outputs.iter().map(|output| &*output.body).collect();
    let digests: Vec<&[u8]> = outputs
        .iter()
        .map(|output| output.digest.as_slice())
        .collect();
    sqlx::query!(
        r#"
            INSERT INTO outputs (workspace_id, state_id, born_seq, name, name_token, body, body_digest)
            SELECT $1, $2, $3, u.name, u.token, u.body, u.digest
            FROM unnest($4::text[], $5::bytea[], $6::bytea[], $7::bytea[]) AS u (name, token, body, digest)
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        &names as &[&str],
        &tokens as &[&[u8]],
        &bodies as &[&[u8]],
        &digests as &[&[u8]],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// All outputs of version `seq`, by name.
pub async fn outputs_at(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
) -> Result<Vec<OutputRow>, Error> {
    let rows = sqlx::query_as!(
        OutputRow,
        r#"
            SELECT name, name_token, body, body_digest AS digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2
              AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
            ORDER BY name
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}
