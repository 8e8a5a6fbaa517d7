//! Finding versions: the head by the state's name, single ones by what a caller names them, and lists.

use protocol::{EnvironmentId, StateName, WorkspaceId};
use uuid::Uuid;

use super::identity::Lifecycle;
use super::versions::{Head, HeadRef, Version, VersionRef, VersionRow, version_if_any};
use crate::{Db, Error, WorkspaceTx};

/// The state of this name and its newest version, in one statement: the hot read.
pub async fn find_head(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &StateName,
) -> Result<Option<Head>, Error> {
    let row = sqlx::query!(
        r#"
            SELECT s.id AS state_id, s.name, s.lifecycle,
                   v.seq AS "seq?", v.id AS "id?", v.serial::text AS "serial?", v.lineage AS "lineage?",
                   v.terraform_version AS "terraform_version?", v.source AS "source?",
                   v.created_at AS "created_at?", v.created_by AS "created_by?", v.forced AS "forced?",
                   v.unlocked AS "unlocked?", v.form AS "form?", v.opaque_reason AS "opaque_reason?",
                   v.header AS "header?", v.rows_digest AS "rows_digest?", v.sha256 AS "sha256?",
                   v.byte_size AS "byte_size?", v.instance_count AS "instance_count?",
                   v.rows_changed AS "rows_changed?", v.run_id AS "run_id?"
            FROM states s
            LEFT JOIN LATERAL (
                SELECT *
                FROM state_versions
                WHERE workspace_id = $1 AND state_id = s.id AND seq = s.head_seq
                OFFSET 0
            ) AS v ON true
            WHERE s.workspace_id = $1 AND s.environment_id = $2 AND s.folded_name = lower($3)
              AND s.lifecycle <> 'deleted'
        "#,
        tx.workspace().as_str(),
        environment.as_str(),
        name.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Head {
        state_id: row.state_id,
        name: row.name,
        lifecycle: Lifecycle::parse(&row.lifecycle)?,
        version: version_if_any!(row)?,
    }))
}

/// Which version is the newest of the state of this name, in one round trip: the hot read of those who have the version
/// in memory. `None` is not to be believed: it also stands for whatever kept the statement from seeing the state.
pub async fn find_head_at_once(
    db: &Db,
    workspace: &WorkspaceId,
    environment: &EnvironmentId,
    name: &StateName,
) -> Result<Option<HeadRef>, Error> {
    db.ask(|pool| async move {
        sqlx::query_as!(
            HeadRef,
            r#"
                SELECT state_id AS "state_id!", name AS "name!", seq AS "seq!", sha256
                FROM head_of_state($1, $2, $3)
            "#,
            workspace.as_str(),
            environment.as_str(),
            name.as_str(),
        )
        .fetch_optional(&pool)
        .await
    })
    .await
}

/// One version of a state.
pub async fn find_version(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    wanted: VersionRef,
) -> Result<Option<Version>, Error> {
    let known = match wanted {
        VersionRef::Head => None,
        VersionRef::Seq(seq) => Some(seq),
        VersionRef::Back(back) => seq_back(tx, state_id, back).await?,
        VersionRef::Id(id) => seq_of_version(tx, state_id, id).await?,
    };
    if known.is_none() && !matches!(wanted, VersionRef::Head) {
        return Ok(None);
    }
    // The number is a query of its own: under row security, an index serves comparisons with plain values alone. And no
    // `max`, for which all versions are read where nobody has counted them.
    let row = sqlx::query_as!(
        VersionRow,
        r#"
            SELECT seq, id, serial::text AS "serial", lineage, terraform_version, source, created_at,
                   created_by, forced, unlocked, form, opaque_reason, header, rows_digest, sha256,
                   byte_size, instance_count, NULL::bigint AS "previous_instance_count", rows_changed, run_id,
                   (
                       SELECT r.command FROM runs r
                       WHERE r.workspace_id = state_versions.workspace_id AND r.id = state_versions.run_id
                   ) AS "command"
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq = (
                SELECT coalesce(
                    $3::bigint,
                    (
                        SELECT seq
                        FROM state_versions
                        WHERE workspace_id = $1 AND state_id = $2
                        ORDER BY seq DESC
                        LIMIT 1
                    )
                )
            )
        "#,
        tx.workspace().as_str(),
        state_id,
        known,
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(Version::try_from).transpose()
}

async fn seq_back(tx: &mut WorkspaceTx, state_id: Uuid, back: i64) -> Result<Option<i64>, Error> {
    let seq = sqlx::query_scalar!(
        r#"
            SELECT seq
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2
            ORDER BY seq DESC
            OFFSET $3
            LIMIT 1
        "#,
        tx.workspace().as_str(),
        state_id,
        back,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(seq)
}

async fn seq_of_version(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
) -> Result<Option<i64>, Error> {
    // By the id alone: the state would lead to all its versions where nobody has counted them.
    let seq = sqlx::query_scalar!(
        r#"
            SELECT found.seq AS "seq!"
            FROM (SELECT state_id, seq FROM state_versions WHERE workspace_id = $1 AND id = $3 OFFSET 0) AS found
            WHERE found.state_id = $2
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(seq)
}

/// Versions before `before` (`None`: from the head), newest first; headers are left out.
pub async fn list_versions(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Version>, Error> {
    let rows = sqlx::query_as!(
        VersionRow,
        r#"
            SELECT seq, id, serial::text AS "serial", lineage, terraform_version, source, created_at,
                   created_by, forced, unlocked, form, opaque_reason, NULL::bytea AS "header",
                   rows_digest, sha256, byte_size, instance_count,
                   (
                       SELECT before.instance_count
                       FROM state_versions before
                       WHERE before.workspace_id = $1 AND before.state_id = $2
                         AND before.seq < state_versions.seq
                       ORDER BY before.seq DESC
                       LIMIT 1
                   ) AS "previous_instance_count",
                   rows_changed, run_id,
                   (
                       SELECT r.command FROM runs r
                       WHERE r.workspace_id = state_versions.workspace_id AND r.id = state_versions.run_id
                   ) AS "command"
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq < $3
            ORDER BY seq DESC
            LIMIT $4
        "#,
        tx.workspace().as_str(),
        state_id,
        before.unwrap_or(i64::MAX),
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(Version::try_from).collect()
}

/// How many versions a state has.
pub async fn count_versions(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<i64, Error> {
    let workspace = tx.workspace().clone();
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM state_versions WHERE workspace_id = $1 AND state_id = $2"#,
        workspace.as_str(),
        state_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(count)
}

/// Whether a version with these bytes was written under this reservation.
pub async fn was_written_under(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    reservation: Uuid,
    sha256: &[u8],
) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let written = sqlx::query_scalar!(
        r#"
            SELECT EXISTS (
                SELECT FROM state_versions
                WHERE workspace_id = $1 AND state_id = $2 AND reservation_id = $3 AND sha256 = $4
            ) AS "written!"
        "#,
        workspace.as_str(),
        state_id,
        reservation,
        sha256,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(written)
}

/// The newest version with this serial.
pub async fn find_seq_of_serial(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    serial: u64,
) -> Result<Option<i64>, Error> {
    let seq = sqlx::query_scalar!(
        r#"
            SELECT seq
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND serial = $3::text::numeric
            ORDER BY seq DESC
            LIMIT 1
        "#,
        tx.workspace().as_str(),
        state_id,
        serial.to_string(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(seq)
}
