//! Versions: one immutable entry of a state's history each, and adding one.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::identity::Lifecycle;
use super::instances::{
    BATCH, Columns, NewInstance, all_closed, batches, close_instances, insert_instances,
};
use crate::runs::NewReceipt;
use crate::tenancy::audit::Entry;
use crate::{Error, WorkspaceTx, text::without_nul};

/// How a version's bytes are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Rendered from rows.
    Rows,
    /// Rows, and the posted bytes beside them because rendering does not give those.
    Kept,
    /// Only the posted bytes.
    Opaque,
}

impl Form {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "rows" => Ok(Self::Rows),
            "kept" => Ok(Self::Kept),
            "opaque" => Ok(Self::Opaque),
            other => Err(Error::impossible("state_versions", format!("form {other}"))),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Kept => "kept",
            Self::Opaque => "opaque",
        }
    }
}

/// What made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Terraform,
    Import,
    Rollback,
    Native,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::Import => "import",
            Self::Rollback => "rollback",
            Self::Native => "native",
        }
    }
}

/// A version as it is recorded.
#[derive(Debug, Clone)]
pub struct Version {
    pub seq: i64,
    pub id: Uuid,
    /// Decimal digits of a u64; `None` where the document shows none.
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    pub source: String,
    pub created_at: DateTime<Utc>,
    pub created_by: String,
    pub forced: bool,
    pub unlocked: bool,
    pub form: Form,
    pub opaque_reason: Option<String>,
    pub header: Option<Vec<u8>>,
    pub rows_digest: Vec<u8>,
    pub sha256: Option<Vec<u8>>,
    pub byte_size: Option<i64>,
    pub instance_count: i64,
    /// Of the version before; only lists know it.
    pub previous_instance_count: Option<i64>,
    pub rows_changed: i64,
    pub run_id: Option<Uuid>,
    /// The command of that run; only lists and single versions know it.
    pub command: Option<String>,
}

/// A state by name together with its newest version.
#[derive(Debug, Clone)]
pub struct Head {
    pub state_id: Uuid,
    pub name: String,
    pub lifecycle: Lifecycle,
    pub version: Option<Version>,
}

/// Which version is the newest of a state, and nothing else about it.
#[derive(Debug, Clone)]
pub struct HeadRef {
    pub state_id: Uuid,
    pub name: String,
    pub seq: i64,
    pub sha256: Option<Vec<u8>>,
}

/// How a caller names a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRef {
    Head,
    Seq(i64),
    /// So many versions before the head.
    Back(i64),
    Id(Uuid),
}

/// Rows that a version closes and brings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changed<'a> {
    /// Places of live rows; every one must be live.
    pub closed: &'a [Vec<u8>],
    pub born: &'a [NewInstance<'a>],
}

/// What a write records of its new version.
#[derive(Debug, Clone)]
pub struct NewVersion<'a> {
    pub state_id: Uuid,
    pub seq: i64,
    pub id: Uuid,
    pub serial: Option<u64>,
    pub lineage: Option<&'a str>,
    pub terraform_version: Option<&'a str>,
    pub source: Source,
    pub created_by: &'a str,
    pub principal_id: &'a str,
    pub reservation: Option<(Uuid, i64)>,
    pub run_id: Option<Uuid>,
    pub forced: bool,
    pub unlocked: bool,
    pub form: Form,
    pub opaque_reason: Option<&'a str>,
    pub header: Option<&'a [u8]>,
    pub rows_digest: &'a [u8],
    pub sha256: Option<&'a [u8]>,
    pub byte_size: Option<i64>,
    pub instance_count: i64,
    pub rows_changed: i64,
    /// The head that it follows.
    pub after: i64,
    /// Whether it says what a native run did to real infrastructure, which has begun to apply then.
    pub was_applied: bool,
    /// What its writer is answered if it asks again.
    pub receipt: Option<NewReceipt<'a>>,
}

/// One row as every query of this module selects it.
pub(super) struct VersionRow {
    pub(super) seq: i64,
    pub(super) id: Uuid,
    pub(super) serial: Option<String>,
    pub(super) lineage: Option<String>,
    pub(super) terraform_version: Option<String>,
    pub(super) source: String,
    pub(super) created_at: DateTime<Utc>,
    pub(super) created_by: String,
    pub(super) forced: bool,
    pub(super) unlocked: bool,
    pub(super) form: String,
    pub(super) opaque_reason: Option<String>,
    pub(super) header: Option<Vec<u8>>,
    pub(super) rows_digest: Vec<u8>,
    pub(super) sha256: Option<Vec<u8>>,
    pub(super) byte_size: Option<i64>,
    pub(super) instance_count: i64,
    pub(super) previous_instance_count: Option<i64>,
    pub(super) rows_changed: i64,
    pub(super) run_id: Option<Uuid>,
    pub(super) command: Option<String>,
}

/// The version of a row in which there may be none, in which case its columns are null.
macro_rules! version_if_any {
    ($row:ident) => {
        match (
            $row.seq,
            $row.id,
            $row.source,
            $row.created_at,
            $row.created_by,
            $row.form,
            $row.rows_digest,
        ) {
            (
                Some(seq),
                Some(id),
                Some(source),
                Some(created_at),
                Some(created_by),
                Some(form),
                Some(rows_digest),
            ) => Version::try_from(VersionRow {
                seq,
                id,
                serial: $row.serial,
                lineage: $row.lineage,
                terraform_version: $row.terraform_version,
                source,
                created_at,
                created_by,
                forced: $row.forced.unwrap_or_default(),
                unlocked: $row.unlocked.unwrap_or_default(),
                form,
                opaque_reason: $row.opaque_reason,
                header: $row.header,
                rows_digest,
                sha256: $row.sha256,
                byte_size: $row.byte_size,
                instance_count: $row.instance_count.unwrap_or_default(),
                previous_instance_count: None,
                rows_changed: $row.rows_changed.unwrap_or_default(),
                run_id: $row.run_id,
                command: None,
            })
            .map(Some),
            _ => Ok(None),
        }
    };
}
pub(super) use version_if_any;

impl TryFrom<VersionRow> for Version {
    type Error = Error;

    fn try_from(row: VersionRow) -> Result<Self, Error> {
        Ok(Self {
            form: Form::parse(&row.form)?,
            seq: row.seq,
            id: row.id,
            serial: row.serial,
            lineage: row.lineage,
            terraform_version: row.terraform_version,
            source: row.source,
            created_at: row.created_at,
            created_by: row.created_by,
            forced: row.forced,
            unlocked: row.unlocked,
            opaque_reason: row.opaque_reason,
            header: row.header,
            rows_digest: row.rows_digest,
            sha256: row.sha256,
            byte_size: row.byte_size,
            instance_count: row.instance_count,
            previous_instance_count: row.previous_instance_count,
            rows_changed: row.rows_changed,
            run_id: row.run_id,
            command: row.command,
        })
    }
}

/// Adds a version, all in one statement, since others wait for the state meanwhile: the rows it changes, if these are few, the
/// head moves on to it, the reservation it was written under has it as its base and starts its lease anew, its writer has a
/// receipt, and the audit log the entry. The caller holds the state's row, and the reservation's.
pub async fn insert_version(
    tx: &mut WorkspaceTx,
    version: &NewVersion<'_>,
    changed: Changed<'_>,
    entry: Entry,
) -> Result<(), Error> {
    let serial = version.serial.map(|serial| serial.to_string());
    let lineage = version.lineage.map(without_nul);
    let terraform_version = version.terraform_version.map(without_nul);
    let receipt = version.receipt;
    let changed = few_of(tx, version, changed).await?;
    let born = Columns::of(changed.born);
    // Rows are born behind the count of those that are closed, and so after these: a place has one live row.
    let row = sqlx::query!(
        r#"
            WITH closed AS MATERIALIZED (
                SELECT close_instances($1, $2, $3, $30) AS count
            ),
            born AS (
                INSERT INTO instances (
                    workspace_id, state_id, born_seq, ord, kind, address, config_address, module, mode,
                    type, name, index_key, deposed, provider, block, body, body_digest, dependencies
                )
                SELECT $1, $2, $3, u.ord, u.kind, u.address, u.config_address, u.module, u.mode, u.type,
                       u.name, u.index_key, u.deposed, u.provider, u.block, u.body, u.digest,
                       string_to_array(u.dependencies, E'\n')
                FROM closed, unnest(
                    $31::bytea[], $32::text[], $33::text[], $34::text[], $35::text[], $36::text[], $37::text[],
                    $38::text[], $39::text[], $40::text[], $41::text[], $42::bytea[], $43::bytea[],
                    $44::bytea[], $45::text[]
                ) AS u (
                    ord, kind, address, config_address, module, mode, type, name, index_key, deposed,
                    provider, block, body, digest, dependencies
                )
            ),
            version AS (
                INSERT INTO state_versions (
                    workspace_id, state_id, seq, id, serial, lineage, terraform_version, source, created_by,
                    principal_id, reservation_id, token, incarnation, forced, unlocked, form, opaque_reason,
                    header, rows_digest, sha256, byte_size, instance_count, rows_changed, run_id
                )
                SELECT $1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10, $11, $12, incarnation, $13,
                       $14, $15, $16, $17, $18, $19, $20, $21, $22, $23
                FROM lock_service
            ),
            head AS (
                UPDATE states
                SET head_seq = $3
                WHERE workspace_id = $1 AND id = $2 AND head_seq = $24
                RETURNING id
            ),
            holder AS (
                UPDATE reservations
                SET base_seq = $3, last_active_at = clock_timestamp(),
                    expires_at = clock_timestamp() + make_interval(secs => lease_seconds::double precision),
                    began_at = CASE WHEN $28 THEN coalesce(began_at, clock_timestamp()) ELSE began_at END
                WHERE workspace_id = $1 AND id = $11 AND status = 'active'
            ),
            receipt AS (
                INSERT INTO commit_receipts (workspace_id, run_id, commit_key, request_digest, seq, serial)
                SELECT $1, $25, $26, $27, $3, $5::text::numeric
                WHERE $25::uuid IS NOT NULL
            )
            SELECT EXISTS (SELECT FROM head) AS "is_next!", closed.count AS "closed!"
            FROM closed, record_entry($1, $29)
        "#,
        tx.workspace().as_str(),
        version.state_id,
        version.seq,
        version.id,
        serial,
        lineage.as_deref(),
        terraform_version.as_deref(),
        version.source.as_str(),
        version.created_by,
        version.principal_id,
        version.reservation.map(|(id, _)| id),
        version.reservation.map(|(_, token)| token),
        version.forced,
        version.unlocked,
        version.form.as_str(),
        version.opaque_reason,
        version.header,
        version.rows_digest,
        version.sha256,
        version.byte_size,
        version.instance_count,
        version.rows_changed,
        version.run_id,
        version.after,
        receipt.map(|receipt| receipt.run_id),
        receipt.map(|receipt| receipt.commit_key),
        receipt.map(|receipt| receipt.request_digest),
        version.was_applied,
        entry.0,
        changed.closed,
        &born.ord as &[&[u8]],
        &born.kind as &[&str],
        &born.address as &[&str],
        &born.config_address as &[&str],
        &born.module as &[&str],
        &born.mode as &[&str],
        &born.resource_type as &[&str],
        &born.name as &[&str],
        &born.index_key as &[Option<&str>],
        &born.deposed as &[Option<&str>],
        &born.provider as &[Option<&str>],
        &born.block as &[&[u8]],
        &born.body as &[&[u8]],
        &born.digest as &[&[u8]],
        &born.dependencies,
    )
    .fetch_one(&mut **tx)
    .await?;
    if !row.is_next {
        return Err(Error::Moved("the head moved"));
    }
    all_closed(row.closed, changed.closed)?;
    tx.note_seen(version.state_id);
    tx.note_entry();
    Ok(())
}

/// The rows that are left to be changed together with the version: those of a large change are changed here.
async fn few_of<'a>(
    tx: &mut WorkspaceTx,
    version: &NewVersion<'_>,
    changed: Changed<'a>,
) -> Result<Changed<'a>, Error> {
    if changed.closed.len() <= BATCH && batches(changed.born).nth(1).is_none() {
        return Ok(changed);
    }
    close_instances(tx, version.state_id, version.seq, changed.closed).await?;
    insert_instances(tx, version.state_id, version.seq, changed.born).await?;
    Ok(Changed::default())
}

/// Records what a version's document hashes to, once it has been rendered for the first time.
pub async fn set_document_digest(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    sha256: &[u8],
    byte_size: i64,
) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE state_versions
            SET sha256 = $4, byte_size = $5
            WHERE workspace_id = $1 AND state_id = $2 AND seq = $3 AND sha256 IS NULL
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        sha256,
        byte_size,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
