//! Reservations of such runs, and what plain Terraform is shown of them.

use axum::Json;
use axum::extract::State;
use engine::{Conflict, EngineError};
use protocol::Code;
use protocol::scope::{ClaimMode, ScopeClaim};
use protocol::state_engine::{
    AcquireReservations, Done, Lease, NativeLock, NativeLockRequest, RenewedReservations,
    WantedClaim,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::spelling::spell_both_ways;
use crate::access::{Named, RunCaller, StateCaller};
use crate::error::ApiError;
use crate::routes::terraform::{acting, acting_on};
use crate::state::AppState;

/// Leases in seconds: for those who do not say, and what is granted.
const LEASE: i64 = 900;
const LEASES: std::ops::RangeInclusive<i64> = 10..=900;

/// Reserves addresses for a run, all or none. What it has already, it keeps.
///
/// Who is refused for what others hold and comes back within 45 seconds has a place in the queue; the ticket of the refusal
/// keeps it, whatever becomes of the queue meanwhile.
#[utoipa::path(post, path = "/v1/state-engine/reservations/acquire", tag = "state engine",
    request_body = AcquireReservations,
    responses(
        (status = 200, body = Done),
        (status = 423, description = "part of it is held, or waited for: `conflicts` says by whom, `ahead` by how many, `ticket` keeps the place", body = protocol::Problem),
    ))]
pub(super) async fn acquire_reservations(
    State(app): State<AppState>,
    Named { caller, body }: Named<AcquireReservations>,
) -> Result<Json<Done>, ApiError> {
    let run = run_id(&body.apply_id)?;
    let wanted = body.want.iter().enumerate().map(claim);
    let wanted: Vec<ScopeClaim> = wanted.collect::<Result<_, _>>()?;
    let lease = match body.lease_seconds.unwrap_or_default() {
        ..=0 => LEASE,
        seconds => seconds.clamp(*LEASES.start(), *LEASES.end()),
    };
    let reserved = app
        .engine
        .reserve_for_run(
            &acting(&caller)?,
            caller.name(),
            run,
            &wanted,
            lease,
            body.ticket.as_deref(),
        )
        .await;
    reserved.map_err(refused)?;
    Ok(Json(Done { ok: true }))
}

/// Starts the lease of a run anew. A run that holds nothing any more renews nothing, which is no error.
#[utoipa::path(post, path = "/v1/state-engine/reservations/{run}/renew", tag = "state engine",
    params(("run" = protocol::RunId, Path)), request_body = Lease,
    responses((status = 200, body = RenewedReservations)))]
pub(super) async fn renew_reservations(
    State(app): State<AppState>,
    caller: RunCaller,
) -> Result<Json<RenewedReservations>, ApiError> {
    let renewed = app.engine.renew_unscoped_run(&acting_on(&caller)?).await?;
    Ok(Json(RenewedReservations {
        ok: true,
        renewed: renewed as u64,
    }))
}

/// Gives up what a run holds.
#[utoipa::path(post, path = "/v1/state-engine/reservations/{run}/release", tag = "state engine",
    params(("run" = protocol::RunId, Path)), responses((status = 200, body = Done)))]
pub(super) async fn release_reservations(
    State(app): State<AppState>,
    caller: RunCaller,
) -> Result<Json<Done>, ApiError> {
    app.engine
        .release_unscoped_run(&acting_on(&caller)?)
        .await?;
    Ok(Json(Done { ok: true }))
}

/// Confirms that plain Terraform finds the state locked while the run holds something. That follows from its reservations,
/// and many runs may share it, so nothing is taken here.
#[utoipa::path(post, path = "/v1/state-engine/terraform-lock/acquire", tag = "state engine",
    request_body = NativeLockRequest,
    responses(
        (status = 200, body = NativeLock),
        (status = 423, description = "plain Terraform or an administrator holds the state", body = protocol::Problem),
    ))]
pub(super) async fn acquire_native_lock(
    State(app): State<AppState>,
    Named { caller, body }: Named<NativeLockRequest>,
) -> Result<Json<NativeLock>, ApiError> {
    let run = run_id(&body.apply_id)?;
    confirm(&app, &caller, run).await?;
    Ok(Json(NativeLock {
        ok: true,
        lock_id: format!("state-engine-{run}"),
    }))
}

async fn confirm(app: &AppState, caller: &StateCaller, run: Uuid) -> Result<(), ApiError> {
    let confirmed = app
        .engine
        .confirm_visibility(&acting(caller)?, caller.name(), run)
        .await;
    confirmed.map_err(|error| match error {
        EngineError::Locked(holder) => {
            let info = holder.info.clone();
            ApiError::from(EngineError::Locked(holder))
                .with("error", "terraform_locked")
                .with("lock", info)
        }
        error => error.into(),
    })
}

/// There is nothing to release: see above.
#[utoipa::path(post, path = "/v1/state-engine/terraform-lock/release", tag = "state engine",
    request_body = NativeLockRequest, responses((status = 200, body = Done)))]
pub(super) async fn release_native_lock(Named { .. }: Named<NativeLockRequest>) -> Json<Done> {
    Json(Done { ok: true })
}

/// A run's id, as the protocol or as the service writes it.
pub(super) fn run_id(text: &str) -> Result<Uuid, ApiError> {
    let id = text.parse::<protocol::RunId>();
    id.map(|id| id.as_uuid()).map_err(|error| {
        ApiError::with_detail(Code::InvalidRequest, format!("`apply_id`: {error}"))
    })
}

fn claim((place, wanted): (usize, &WantedClaim)) -> Result<ScopeClaim, ApiError> {
    let refuse = |what: &str| {
        ApiError::with_detail(Code::InvalidRequest, format!("`want[{place}]`: {what}"))
    };
    let address = wanted.address_glob.trim();
    if address.is_empty() {
        return Err(refuse("`address_glob` is required"));
    }
    let mode = match wanted.mode.as_str() {
        "read" => ClaimMode::Read,
        "write" => ClaimMode::Write,
        _ => return Err(refuse("`mode` is `read` or `write`")),
    };
    Ok(ScopeClaim {
        address: address.to_owned(),
        mode,
    })
}

/// A conflict in the words of the protocol, beside those of the service.
fn refused(error: EngineError) -> ApiError {
    let conflicts = match &error {
        EngineError::ScopeBusy(busy) => &busy.conflicts,
        EngineError::ExtendConflict(conflicts) => conflicts,
        _ => return error.into(),
    };
    let conflicts: Vec<Value> = conflicts.iter().map(conflict).collect();
    ApiError::from(error)
        .with("error", "reservation_conflict")
        .with("conflicts", conflicts)
}

fn conflict(conflict: &Conflict) -> Value {
    let holder = &conflict.holder;
    let mut value = json!({
        "id": holder.reservation,
        "address_glob": conflict.path.to_string(),
        "address": conflict.path.to_string(),
        "mode": conflict.access.as_str(),
        "holder": holder.info.who,
        "who": holder.info.who,
        "command": holder.info.operation,
        "apply_id": holder.run,
        "acquired_at": holder.since,
        "expires_at": holder.expires_at,
    });
    spell_both_ways(&mut value);
    value
}
