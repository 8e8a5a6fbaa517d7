//! Runs as clients get them.

use graph::claims::ClaimSet;
use protocol::runs::{Run, RunReservation, RunVersion, Unsettled};
use protocol::{LockInfo, PrincipalId, ReservationId, RunId, VersionId};
use store::{Reservation, RunRecord, UnsettledMark, WorkspaceTx};

use super::contract_of;
use super::standing::{kind, status};
use crate::EngineError;
use crate::reservations::{overlapping, read_claims, wire_claims};

/// Everything but the backend, which only answers to begin and reopen have.
pub(super) async fn view(tx: &mut WorkspaceTx, record: &RunRecord) -> Result<Run, EngineError> {
    let damaged = EngineError::DamagedRun;
    let mut reservation = None;
    let mut unsettled = Vec::new();
    if record.status == "running" && record.reservation_id.is_none() {
        // It claims nothing, and is told all the same what it has to look at.
        let claims = read_claims(&contract_of(record)?.reservation_candidates)?;
        let marks = overlapping(tx, record.state_id, &claims).await?;
        unsettled = marks.iter().map(mark).collect();
    }
    if let Some(id) = record.reservation_id
        && record.status == "running"
        && let Some(held) = store::find_reservation(tx, id).await?
        && held.is_active()
    {
        let claims = store::find_claims(tx, &[id]).await?;
        let claims = claims.get(&id).cloned().unwrap_or_default();
        let marks = overlapping(tx, record.state_id, &claims).await?;
        unsettled = marks.iter().map(mark).collect();
        reservation = Some(view_reservation(&held, &claims)?);
    }
    let versions = store::list_run_versions(tx, record.state_id, record.id).await?;
    let principal: PrincipalId = record
        .principal_id
        .parse()
        .map_err(|_| damaged("its principal is none"))?;
    Ok(Run {
        id: RunId::from_uuid(record.id),
        state: record
            .state_name
            .parse()
            .map_err(|_| damaged("its state's name is none"))?,
        kind: kind(record),
        status: status(record),
        command: record.command.clone(),
        who: record.who.clone(),
        principal,
        base_seq: record.base_seq,
        base_serial: record
            .base_serial
            .as_deref()
            .and_then(|serial| serial.parse().ok()),
        contract: contract_of(record)?,
        reservation,
        unsettled,
        backend: None,
        versions: versions
            .into_iter()
            .map(|version| RunVersion {
                id: VersionId::from_uuid(version.id),
                seq: version.seq,
                serial: version.serial.parse().unwrap_or_default(),
                changed: version.changed,
            })
            .collect(),
        kept_count: u32::try_from(record.kept_count).unwrap_or(u32::MAX),
        started_at: record.started_at,
        finished_at: record.finished_at.or(record
            .reservation_ended_at
            .filter(|_| record.status == "running")),
        error: record.error.clone().or_else(|| {
            record
                .reservation_end
                .clone()
                .filter(|_| record.status == "running")
        }),
    })
}

/// What a run holds.
pub(super) fn view_reservation(
    held: &Reservation,
    claims: &ClaimSet,
) -> Result<RunReservation, EngineError> {
    Ok(RunReservation {
        id: ReservationId::from_uuid(held.id),
        token: held.token,
        lease_seconds: u32::try_from(held.lease_seconds.unwrap_or_default()).unwrap_or_default(),
        expires_at: held
            .expires_at
            .ok_or(EngineError::DamagedRun("its reservation has no lease"))?,
        claims: wire_claims(claims),
        degraded: true,
    })
}

pub(crate) fn mark(mark: &UnsettledMark) -> Unsettled {
    Unsettled {
        address: mark.path.to_string(),
        run: mark.run_id.map(RunId::from_uuid),
        who: LockInfo::from_slice(mark.info.as_bytes())
            .unwrap_or_default()
            .who,
        reason: mark.reason.clone(),
        since: mark.since,
    }
}
