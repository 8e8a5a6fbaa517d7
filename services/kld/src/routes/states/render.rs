//! From what the engine knows to what the API shows.

use chrono::Utc;
use engine::Holder;
use protocol::states::{
    LockHolder, LockLane, ResourceSummary, StateLifecycle, StateSummary, Version, VersionSource,
};
use protocol::{ReservationId, RunId, StateId, VersionId};
use serde_json::value::RawValue;
use store::{Lifecycle, ResourceRow, StateRecord};

use crate::error::ApiError;

/// Stored data that does not have the form it was stored in.
#[derive(Debug, thiserror::Error)]
#[error("stored {0} cannot be shown")]
pub(in crate::routes) struct Unshowable(pub(super) &'static str);

pub(in crate::routes) fn unshowable(what: &'static str) -> ApiError {
    ApiError::internal(&Unshowable(what))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serial(text: Option<&str>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}

pub(super) fn lifecycle(lifecycle: Lifecycle) -> StateLifecycle {
    match lifecycle {
        Lifecycle::Active => StateLifecycle::Active,
        Lifecycle::Importing => StateLifecycle::Importing,
        Lifecycle::Archived => StateLifecycle::Archived,
        Lifecycle::Deleted => StateLifecycle::Deleted,
    }
}

pub(in crate::routes) fn version(version: &store::Version) -> Version {
    Version {
        id: VersionId::from_uuid(version.id),
        seq: version.seq,
        serial: serial(version.serial.as_deref()),
        lineage: version.lineage.clone(),
        terraform_version: version.terraform_version.clone(),
        source: match version.source.as_str() {
            "import" => VersionSource::Import,
            "rollback" => VersionSource::Rollback,
            "native" => VersionSource::Native,
            _ => VersionSource::Terraform,
        },
        created_at: version.created_at,
        created_by: version.created_by.clone(),
        instance_count: version.instance_count,
        previous_instance_count: version.previous_instance_count,
        rows_changed: version.rows_changed,
        size_bytes: version.byte_size,
        sha256: version.sha256.as_deref().map(hex),
        forced: version.forced,
        unlocked: version.unlocked,
        run: version.run_id.map(RunId::from_uuid),
        command: version.command.clone(),
    }
}

pub(super) fn state(record: StateRecord) -> Result<StateSummary, ApiError> {
    Ok(StateSummary {
        id: StateId::from_uuid(record.state.id),
        name: record
            .state
            .name
            .parse()
            .map_err(|_| unshowable("name of a state"))?,
        lifecycle: lifecycle(record.state.lifecycle),
        head_seq: (record.state.head_seq > 0).then_some(record.state.head_seq),
        serial: serial(record.serial.as_deref()),
        instance_count: record.instance_count,
        size_bytes: record.byte_size,
        updated_at: record.updated_at,
        deleted_at: record.deleted_at,
        locked: record.locked,
    })
}

pub(in crate::routes) fn holder(holder: Holder) -> Result<LockHolder, ApiError> {
    Ok(LockHolder {
        id: ReservationId::from_uuid(holder.reservation),
        lane: match holder.lane.as_str() {
            "admin" => LockLane::Admin,
            "native" => LockLane::Native,
            _ => LockLane::Terraform,
        },
        lock_id: holder.info.id,
        who: holder.info.who,
        operation: holder.info.operation,
        info: holder.info.info,
        principal: holder
            .principal
            .parse()
            .map_err(|_| unshowable("principal of a lock"))?,
        created_at: holder.since,
        age_seconds: (Utc::now() - holder.since).num_seconds().max(0),
        last_activity_at: Some(holder.last_active),
        expires_at: holder.expires_at,
    })
}

pub(super) fn resource(row: &ResourceRow) -> ResourceSummary {
    ResourceSummary {
        address: row.address.clone(),
        mode: row.mode.clone(),
        kind: row.resource_type.clone(),
        name: row.name.clone(),
        provider: row.provider.clone().unwrap_or_default(),
        deposed: row.deposed.clone(),
        since_seq: row.born_seq,
    }
}

/// Raw JSON of a stored body.
pub(in crate::routes) fn raw(bytes: &[u8], what: &'static str) -> Result<Box<RawValue>, ApiError> {
    serde_json::from_slice(bytes).map_err(|_| unshowable(what))
}
