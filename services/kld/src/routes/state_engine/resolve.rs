//! What the service can do, what a state is, and which blocks it has.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use protocol::scope::AddressSource;
use protocol::state_engine::{
    Capabilities, Inventory, InventoryAddress, ResolveRequest, ResolveResponse, StateIdentity,
};

use super::full_name;
use crate::access::{Caller, Named};
use crate::error::ApiError;
use crate::routes::terraform::acting;
use crate::state::AppState;

/// What this deployment can do, by the names of the protocol.
const CAPABILITIES: [&str; 9] = [
    "slice_fetch",
    "backend_closure_expansion",
    "resource_reservations",
    "terraform_visible_native_lock",
    "delta_commit",
    "native_state_rm",
    "native_state_mv",
    "native_resource_rollback",
    "native_resource_patch",
];

/// What this deployment can do.
#[utoipa::path(get, path = "/v1/state-engine/capabilities", tag = "state engine",
    responses((status = 200, body = Capabilities)))]
pub(super) async fn get_capabilities(_: Caller) -> Json<Capabilities> {
    let capabilities = CAPABILITIES.map(|name| (name.to_owned(), true));
    Json(Capabilities {
        protocol: "state-engine".to_owned(),
        version: "v1".to_owned(),
        capabilities: BTreeMap::from(capabilities),
    })
}

/// What a state is. A state that nothing was ever written to is not made by asking.
#[utoipa::path(post, path = "/v1/state-engine/state/resolve", tag = "state engine", request_body = ResolveRequest,
    responses((status = 200, body = ResolveResponse)))]
pub(super) async fn resolve_state(
    State(app): State<AppState>,
    Named { caller, body }: Named<ResolveRequest>,
) -> Result<Json<ResolveResponse>, ApiError> {
    let found = app
        .engine
        .resolve(&acting(&caller)?, caller.name(), &body.files)
        .await?;
    let head = found.head.as_ref();
    let sources = found.recorded_sources.into_iter();
    Ok(Json(ResolveResponse {
        state: full_name(&caller),
        state_id: found.state.map(|state| state.id),
        workspace_id: caller.workspace().to_string(),
        env_public_id: caller.environment().to_string(),
        state_name: caller.name().to_string(),
        lineage: head
            .and_then(|head| head.lineage.clone())
            .unwrap_or_default(),
        serial: head
            .and_then(|head| head.serial.as_ref()?.parse().ok())
            .unwrap_or_default(),
        creator: found.creator.unwrap_or_default(),
        seq: head.map_or(0, |head| head.seq),
        native: found.is_native,
        inventory_digest: found.inventory_digest,
        recorded_sources: sources
            .map(|source| AddressSource {
                address: source.config_address,
                file: source.file,
            })
            .collect(),
        outputs: found.outputs,
    }))
}

/// The config-level addresses of managed resources in a state, each with the file it was last written from.
#[utoipa::path(get, path = "/v1/state-engine/state/inventory", tag = "state engine",
    params(("state" = String, Query, description = "`workspace/environment/name`")),
    responses((status = 200, body = Inventory)))]
pub(super) async fn get_inventory(
    State(app): State<AppState>,
    Named { caller, .. }: Named<StateIdentity>,
) -> Result<Json<Inventory>, ApiError> {
    let found = app
        .engine
        .inventory(&acting(&caller)?, caller.name())
        .await?;
    let blocks = found.blocks.into_iter();
    Ok(Json(Inventory {
        seq: found.seq,
        digest: found.digest,
        addresses: blocks
            .map(|(address, file)| InventoryAddress { address, file })
            .collect(),
    }))
}
