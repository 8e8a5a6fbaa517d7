//! The objects at some addresses, whole.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use engine::SliceObject;
use protocol::Code;
use protocol::state_engine::{
    Slice, SliceDiagnostics, SliceMetadata, SliceRequest, SliceResource, SliceResponse,
};
use serde_json::value::RawValue;
use tfstate::{Address, Digest, Key};

use super::full_name;
use crate::access::Named;
use crate::error::ApiError;
use crate::routes::states::render::{raw, unshowable};
use crate::routes::terraform::acting;
use crate::state::AppState;

/// A hundred thousand addresses fit.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The objects at these addresses in the newest version, current and deposed; what is not there is left out.
#[utoipa::path(post, path = "/v1/state-engine/state/slice", tag = "state engine", request_body = SliceRequest,
    responses((status = 200, body = SliceResponse)))]
pub(super) async fn read_slice(
    State(app): State<AppState>,
    Named { caller, body }: Named<SliceRequest, MAX_BYTES>,
) -> Result<Json<SliceResponse>, ApiError> {
    let started = Instant::now();
    let addresses = addresses(&body.addresses)?;
    let found = app
        .engine
        .slice(&acting(&caller)?, caller.name(), &addresses)
        .await?;
    let resources: Vec<SliceResource> = found
        .objects
        .iter()
        .map(resource)
        .collect::<Result<_, _>>()?;
    let serial = found.version.serial.as_deref();
    Ok(Json(SliceResponse {
        state: full_name(&caller),
        state_id: found.state.id,
        lineage: found.version.lineage.unwrap_or_default(),
        serial: serial
            .and_then(|serial| serial.parse().ok())
            .unwrap_or_default(),
        seq: found.version.seq,
        slice: Slice {
            outputs: Vec::new(),
            metadata: SliceMetadata {
                base_serial: body.base_serial,
                diagnostics: SliceDiagnostics {
                    requested_address_count: body.addresses.len() as u64,
                    materialized_count: resources.len() as u64,
                    materialize_duration_ms: u64::try_from(started.elapsed().as_millis())
                        .unwrap_or(u64::MAX),
                },
            },
            resources,
        },
    }))
}

/// The addresses as a state spells them.
fn addresses(texts: &[String]) -> Result<Vec<String>, ApiError> {
    let read = |(place, text): (usize, &String)| {
        let address = text.parse::<Address>().map_err(|error| {
            ApiError::with_detail(
                Code::InvalidRequest,
                format!("`addresses[{place}]`: {error}"),
            )
        })?;
        Ok(address.to_string())
    };
    texts.iter().enumerate().map(read).collect()
}

fn resource(object: &SliceObject) -> Result<SliceResource, ApiError> {
    let row = &object.row;
    let address: Address = row.address.parse().map_err(|_| unshowable("address"))?;
    let members = tfstate::instance_members(&row.body).ok_or_else(|| unshowable("instance"))?;
    let show = |member: Option<&[u8]>| -> Result<Option<Box<RawValue>>, ApiError> {
        member.map(|member| raw(member, "instance")).transpose()
    };
    let attributes = members
        .attributes
        .or(members.attributes_flat)
        .unwrap_or(b"{}");
    let (index_kind, index_value) = match &address.key {
        None => ("none", None),
        Some(Key::Int(number)) => ("int", Some(number.to_string())),
        Some(Key::Str(text)) => ("string", Some(text.clone())),
    };
    let provider = members.provider.and_then(tfstate::decode_string);
    Ok(SliceResource {
        mode: address.mode.as_str().to_owned(),
        module_path: address.module_path(),
        index_kind: index_kind.to_owned(),
        index_value,
        provider: provider
            .map(|provider| provider.into_owned())
            .or_else(|| row.provider.clone())
            .unwrap_or_default(),
        create_serial: object.born_serial.unwrap_or_default(),
        attributes: raw(attributes, "attributes")?,
        sensitive_paths: raw(members.sensitive_attributes.unwrap_or(b"[]"), "paths")?,
        dependencies: members
            .dependencies
            .map(tfstate::string_array)
            .unwrap_or_default(),
        attributes_hash: Digest::of(attributes).to_string(),
        schema_version: show(members.schema_version)?,
        private: show(members.private)?,
        status: show(members.status)?,
        deposed: row.deposed.clone(),
        create_before_destroy: show(members.create_before_destroy)?,
        identity: show(members.identity)?,
        identity_schema_version: show(members.identity_schema_version)?,
        kind: address.kind,
        name: address.name,
        address: row.address.clone(),
    })
}
