//! What is there: states of an environment, and the instances and outputs of one.

use std::collections::BTreeMap;

use auth::Action;
use axum::Json;
use axum::extract::{Query, State};
use engine::{EngineError, VersionRef};
use protocol::Code;
use protocol::states::{
    KeptResult, Output, Outputs, ResourceDetail, ResourcePage, StatePage, StateStatus,
};
use protocol::{RunId, StateId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tfstate::Address;
use utoipa::IntoParams;

use super::history::named_version;
use super::mask::mask;
use super::render;
use crate::access::{EnvironmentCaller, StateCaller};
use crate::error::ApiError;
use crate::routes::terraform::{acting, acting_in};
use crate::state::AppState;

const PAGE: i64 = 200;
const LARGEST_PAGE: i64 = 2_000;

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct PageQuery {
    /// At most so many; 200 unless given, 2000 at most.
    limit: Option<i64>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

impl PageQuery {
    fn limit(&self) -> i64 {
        self.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)
    }
}

/// The states of an environment, by name.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}", tag = "states",
    params(PageQuery, ("ws" = String, Path), ("env" = String, Path)), responses((status = 200, body = StatePage)))]
pub(super) async fn list_states(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
    Query(query): Query<PageQuery>,
) -> Result<Json<StatePage>, ApiError> {
    let after = query.cursor.as_deref().unwrap_or_default();
    let records = app
        .engine
        .list_states(&acting_in(&caller)?, after, query.limit())
        .await?;
    let full = records.len() as i64 == query.limit();
    let next_cursor = records
        .last()
        .filter(|_| full)
        .map(|last| last.state.name.to_lowercase());
    let states = records
        .into_iter()
        .map(render::state)
        .collect::<Result<_, _>>()?;
    Ok(Json(StatePage {
        states,
        next_cursor,
    }))
}

/// States of an environment that were deleted and can be brought back.
#[utoipa::path(get, path = "/v1/deleted-states/{ws}/{env}", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path)), responses((status = 200, body = StatePage)))]
pub(super) async fn list_deleted_states(
    State(app): State<AppState>,
    caller: EnvironmentCaller,
) -> Result<Json<StatePage>, ApiError> {
    let records = app
        .engine
        .list_deleted_states(&acting_in(&caller)?, LARGEST_PAGE)
        .await?;
    let states = records
        .into_iter()
        .map(render::state)
        .collect::<Result<_, _>>()?;
    Ok(Json(StatePage {
        states,
        next_cursor: None,
    }))
}

/// A state with its newest version, who holds it, and what was kept of late writes.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/status", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = StateStatus)))]
pub(super) async fn get_status(
    State(app): State<AppState>,
    caller: StateCaller,
) -> Result<Json<StateStatus>, ApiError> {
    let status = app.engine.status(&acting(&caller)?, caller.name()).await?;
    Ok(Json(StateStatus {
        id: StateId::from_uuid(status.state.id),
        name: caller.name().clone(),
        lifecycle: render::lifecycle(status.state.lifecycle),
        created_at: status.state.created_at,
        head: status.head.as_ref().map(render::version),
        version_count: status.version_count,
        waiting: status.waiting,
        usual_hold_seconds: status
            .usual_hold_seconds
            .map(|seconds| seconds.ceil() as u32),
        holders: status
            .holders
            .into_iter()
            .map(render::holder)
            .collect::<Result<_, _>>()?,
        kept: status
            .kept
            .into_iter()
            .map(|kept| KeptResult {
                id: kept.id,
                lock_id: kept.lock_id,
                run: kept.run_id.map(RunId::from_uuid),
                base_seq: kept.base_seq,
                size_bytes: kept.byte_size,
                kept_at: kept.kept_at,
                kept_by: kept.kept_by,
                settled: kept.settled_at.is_some(),
            })
            .collect(),
        unsettled: status.unsettled,
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct ResourcesQuery {
    /// The version to look at; the newest unless given.
    version: Option<String>,
    /// At most so many; 200 unless given, 2000 at most.
    limit: Option<i64>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The instances of a version, without values, in the order of the document.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/resources", tag = "states",
    params(ResourcesQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = ResourcePage)))]
pub(super) async fn list_resources(
    State(app): State<AppState>,
    caller: StateCaller,
    Query(query): Query<ResourcesQuery>,
) -> Result<Json<ResourcePage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let (wanted, after) = match &query.cursor {
        Some(cursor) => position(cursor)?,
        None => {
            let version = query.version.as_deref();
            (wanted(&app, &caller, version).await?, Vec::new())
        }
    };
    let (version, rows) = app
        .engine
        .list_resources(&acting(&caller)?, caller.name(), wanted, &after, limit)
        .await?;
    let full = rows.len() as i64 == limit;
    let next_cursor = rows
        .last()
        .filter(|_| full)
        .map(|last| format!("{}.{}", version.seq, render::hex(&last.ord)));
    Ok(Json(ResourcePage {
        seq: version.seq,
        resources: rows.iter().map(render::resource).collect(),
        next_cursor,
    }))
}

async fn wanted(
    app: &AppState,
    caller: &StateCaller,
    version: Option<&str>,
) -> Result<VersionRef, ApiError> {
    match version {
        None => Ok(VersionRef::Head),
        Some(version) => named_version(app, caller, version).await,
    }
}

/// A cursor names the version as well: pages of a list do not move when the head does.
fn position(cursor: &str) -> Result<(VersionRef, Vec<u8>), ApiError> {
    let parsed = cursor.split_once('.').and_then(|(seq, place)| {
        let seq = seq.parse().ok()?;
        let digits = place.as_bytes().chunks_exact(2);
        let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        Some((VersionRef::Seq(seq), bytes.collect::<Option<Vec<u8>>>()?))
    });
    parsed.ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "the cursor is not one that a page gave",
        )
    })
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct ResourceQuery {
    /// The instance's address, as `terraform state list` prints it.
    address: String,
    /// The version to look at; the newest unless given.
    version: Option<String>,
    /// The key of a deposed object, instead of the current one.
    deposed: Option<String>,
    /// Whether to show values that are marked sensitive; recorded in the audit log.
    sensitive: Option<bool>,
}

/// One instance: without values for a viewer, with sensitive ones masked unless asked for.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/resource", tag = "states",
    params(ResourceQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = ResourceDetail)))]
pub(super) async fn get_resource(
    State(app): State<AppState>,
    caller: StateCaller,
    Query(query): Query<ResourceQuery>,
) -> Result<Json<ResourceDetail>, ApiError> {
    let acting = acting(&caller)?;
    let address: Address = query
        .address
        .parse()
        .map_err(|error: tfstate::AddressError| {
            ApiError::with_detail(Code::InvalidRequest, error.to_string())
        })?;
    let show_sensitive = query.sensitive.unwrap_or(false);
    if show_sensitive && !caller.permits(Action::ReadValues) {
        return Err(ApiError::new(Code::Forbidden));
    }
    let (version, rows) = app
        .engine
        .instance(
            &acting,
            caller.name(),
            wanted(&app, &caller, query.version.as_deref()).await?,
            &address.to_string(),
        )
        .await?;
    let row = rows
        .into_iter()
        .find(|row| row.deposed == query.deposed)
        .ok_or(EngineError::NoSuchInstance)?;
    let members =
        tfstate::instance_members(&row.body).ok_or_else(|| render::unshowable("instance"))?;
    let attributes = match members.attributes.or(members.attributes_flat) {
        Some(attributes) if caller.permits(Action::ReadValues) => {
            let paths = members.sensitive_attributes.unwrap_or(b"[]");
            let shown = if show_sensitive {
                attributes.to_vec()
            } else {
                mask(attributes, paths)
            };
            Some(render::raw(&shown, "attributes")?)
        }
        _ => None,
    };
    if show_sensitive {
        app.engine
            .record_sensitive_read(&acting, caller.name(), version.seq, &row.address)
            .await?;
    }
    Ok(Json(ResourceDetail {
        summary: render::resource(&row),
        seq: version.seq,
        tainted: members.is_tainted(),
        dependencies: row.dependencies.clone(),
        masked: attributes.is_some() && !show_sensitive,
        attributes,
    }))
}

/// A root output as it is stored: whatever a hand-made document holds there.
#[derive(Deserialize)]
#[serde(transparent)]
struct StoredOutput(BTreeMap<String, Box<RawValue>>);

impl StoredOutput {
    fn member(&mut self, name: &str) -> Box<RawValue> {
        self.0
            .remove(name)
            .unwrap_or_else(|| RawValue::NULL.to_owned())
    }

    /// What does not say clearly that it is not sensitive, is.
    fn is_sensitive(&self) -> bool {
        self.0
            .get("sensitive")
            .is_some_and(|mark| !matches!(mark.get(), "false" | "null"))
    }
}

/// The root outputs of the newest version.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/outputs", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Outputs)))]
pub(super) async fn get_outputs(
    State(app): State<AppState>,
    caller: StateCaller,
) -> Result<Json<Outputs>, ApiError> {
    let (version, rows) = app.engine.outputs(&acting(&caller)?, caller.name()).await?;
    let all = caller.permits(Action::ReadSensitiveOutputs);
    let outputs = rows
        .into_iter()
        .map(|row| {
            let mut stored: StoredOutput =
                serde_json::from_slice(&row.body).map_err(|_| render::unshowable("output"))?;
            let sensitive = stored.is_sensitive();
            let output = Output {
                value: (all || !sensitive).then(|| stored.member("value")),
                kind: stored.member("type"),
                sensitive,
            };
            Ok((row.name, output))
        })
        .collect::<Result<_, ApiError>>()?;
    Ok(Json(Outputs {
        seq: version.seq,
        outputs,
    }))
}
