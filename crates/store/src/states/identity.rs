//! Which state a name means, and its lifecycle.

use chrono::{DateTime, Utc};
use protocol::{EnvironmentId, StateName};
use uuid::Uuid;

use crate::turns::Row;
use crate::{Error, WorkspaceTx};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    Active,
    Importing,
    Archived,
    Deleted,
}

impl Lifecycle {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "active" => Ok(Self::Active),
            "importing" => Ok(Self::Importing),
            "archived" => Ok(Self::Archived),
            "deleted" => Ok(Self::Deleted),
            other => Err(Error::impossible("states", format!("lifecycle {other}"))),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Importing => "importing",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }
}

/// One state: its id outlives its name.
#[derive(Debug, Clone)]
pub struct State {
    pub id: Uuid,
    /// As first written; another spelling of the same letters is a client's mistake.
    pub name: String,
    /// 0 where nothing has been written yet.
    pub head_seq: i64,
    /// Versions up to this number may have been written and forgotten, by a restore from a backup.
    pub seq_floor: i64,
    pub lifecycle: Lifecycle,
    pub created_at: DateTime<Utc>,
}

impl State {
    /// The number of the version after the head.
    pub fn next_seq(&self) -> i64 {
        self.head_seq.max(self.seq_floor) + 1
    }
}

/// A line of a list of states.
#[derive(Debug, Clone)]
pub struct StateRecord {
    pub state: State,
    pub deleted_at: Option<DateTime<Utc>>,
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    pub instance_count: Option<i64>,
    pub byte_size: Option<i64>,
    pub updated_at: Option<DateTime<Utc>>,
    pub updated_by: Option<String>,
    pub locked: bool,
}

/// The state that bears this name now, whatever the case of its letters.
pub async fn find_state(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &StateName,
) -> Result<Option<State>, Error> {
    let row = sqlx::query!(
        r#"
            SELECT id, name, head_seq, seq_floor, lifecycle, created_at
            FROM states
            WHERE workspace_id = $1 AND environment_id = $2 AND folded_name = lower($3)
              AND lifecycle <> 'deleted'
        "#,
        tx.workspace().as_str(),
        environment.as_str(),
        name.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(|row| {
        Ok(State {
            id: row.id,
            name: row.name,
            head_seq: row.head_seq,
            seq_floor: row.seq_floor,
            lifecycle: Lifecycle::parse(&row.lifecycle)?,
            created_at: row.created_at,
        })
    })
    .transpose()
}

/// As `find_state`, and makes the state where there is none. Waits for nothing but another creation of
/// the same name.
pub async fn find_or_create_state(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &StateName,
) -> Result<State, Error> {
    if let Some(state) = find_state(tx, environment, name).await? {
        return Ok(state);
    }
    let id = Uuid::now_v7();
    let created = sqlx::query!(
        r#"
            INSERT INTO states (workspace_id, id, environment_id, name)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING
        "#,
        tx.workspace().as_str(),
        id,
        environment.as_str(),
        name.as_str(),
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if created == 1 {
        sqlx::query!(
            "INSERT INTO lock_heads (workspace_id, state_id) VALUES ($1, $2)",
            tx.workspace().as_str(),
            id,
        )
        .execute(&mut **tx)
        .await?;
    }
    // Whoever won the race, its row is visible now: the insert waited for it to commit.
    find_state(tx, environment, name)
        .await?
        .ok_or(Error::Moved("state was deleted meanwhile"))
}

/// Locks the row of a state until the transaction ends, and reads it as it is then. Whoever only refers to the state, as a
/// reservation does, does not wait for that.
pub async fn lock_state(tx: &mut WorkspaceTx, id: Uuid) -> Result<State, Error> {
    tx.take_turn(Row::State(id)).await;
    let row = sqlx::query!(
        r#"
            SELECT id, name, head_seq, seq_floor, lifecycle, created_at
            FROM states
            WHERE workspace_id = $1 AND id = $2
            FOR NO KEY UPDATE
        "#,
        tx.workspace().as_str(),
        id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(State {
        id: row.id,
        name: row.name,
        head_seq: row.head_seq,
        seq_floor: row.seq_floor,
        lifecycle: Lifecycle::parse(&row.lifecycle)?,
        created_at: row.created_at,
    })
}

/// Marks a locked state deleted: its name is free at once, its history stays.
pub async fn delete_state(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE states
            SET lifecycle = 'deleted', deleted_at = clock_timestamp()
            WHERE workspace_id = $1 AND id = $2 AND lifecycle <> 'deleted'
        "#,
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Gives a deleted state its name back. False when it is not deleted; the caller has seen to it that
/// the name is free, and a race for it ends at the constraint `states_live_name`.
pub async fn undelete_state(tx: &mut WorkspaceTx, id: Uuid) -> Result<bool, Error> {
    let restored = sqlx::query!(
        r#"
            UPDATE states
            SET lifecycle = 'active', deleted_at = NULL
            WHERE workspace_id = $1 AND id = $2 AND lifecycle = 'deleted'
        "#,
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(restored == 1)
}

/// The deleted states that bore this name, the latest deleted first.
pub async fn find_deleted(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &StateName,
) -> Result<Vec<Uuid>, Error> {
    let ids = sqlx::query_scalar!(
        r#"
            SELECT id
            FROM states
            WHERE workspace_id = $1 AND environment_id = $2 AND folded_name = lower($3)
              AND lifecycle = 'deleted'
            ORDER BY deleted_at DESC
        "#,
        tx.workspace().as_str(),
        environment.as_str(),
        name.as_str(),
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(ids)
}

/// States of an environment by name, after `after` (empty: from the start). A name that was only ever planned against
/// holds nothing and is not listed.
pub async fn list_states(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    after: &str,
    limit: i64,
) -> Result<Vec<StateRecord>, Error> {
    list(tx, environment, false, after, limit).await
}

/// Deleted states of an environment that are not purged yet.
pub async fn list_deleted(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    limit: i64,
) -> Result<Vec<StateRecord>, Error> {
    list(tx, environment, true, "", limit).await
}

async fn list(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    deleted: bool,
    after: &str,
    limit: i64,
) -> Result<Vec<StateRecord>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT s.id, s.name, s.head_seq, s.seq_floor, s.lifecycle, s.created_at, s.deleted_at,
                   v.serial::text AS "serial?", v.lineage AS "lineage?",
                   v.terraform_version AS "terraform_version?",
                   v.instance_count AS "instance_count?", v.byte_size AS "byte_size?",
                   v.created_at AS "updated_at?", v.created_by AS "updated_by?",
                   EXISTS (
                       SELECT FROM reservations r
                       WHERE r.workspace_id = s.workspace_id AND r.state_id = s.id
                         AND r.status = 'active'
                   ) AS "locked!"
            FROM states s
            LEFT JOIN LATERAL (
                SELECT *
                FROM state_versions
                WHERE workspace_id = $1 AND state_id = s.id AND seq = s.head_seq
                OFFSET 0
            ) AS v ON true
            WHERE s.workspace_id = $1 AND s.environment_id = $2
              AND (s.lifecycle = 'deleted') = $3 AND s.folded_name > lower($4)
              AND (s.head_seq > 0 OR EXISTS (
                  SELECT FROM reservations r
                  WHERE r.workspace_id = s.workspace_id AND r.state_id = s.id
                    AND r.status = 'active'
              ))
            ORDER BY s.folded_name, s.id
            LIMIT $5
        "#,
        tx.workspace().as_str(),
        environment.as_str(),
        deleted,
        after,
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(StateRecord {
                state: State {
                    id: row.id,
                    name: row.name,
                    head_seq: row.head_seq,
                    seq_floor: row.seq_floor,
                    lifecycle: Lifecycle::parse(&row.lifecycle)?,
                    created_at: row.created_at,
                },
                deleted_at: row.deleted_at,
                serial: row.serial,
                lineage: row.lineage,
                terraform_version: row.terraform_version,
                instance_count: row.instance_count,
                byte_size: row.byte_size,
                updated_at: row.updated_at,
                updated_by: row.updated_by,
                locked: row.locked,
            })
        })
        .collect()
}
