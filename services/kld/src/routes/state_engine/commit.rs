//! Commits of selected addresses.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use engine::{EngineError, SelectedCommit, SelectedOutputs};
use graph::scope::Target;
use protocol::Code;
use protocol::state_engine::{CommitAnswer, CommitDelta, CommitRequest};
use serde_json::json;

use super::reservations::run_id;
use crate::access::Named;
use crate::error::ApiError;
use crate::routes::terraform::acting;
use crate::state::AppState;

/// A whole state in a JSON string fits.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Commits what a client says is to stand at some addresses, under the reservation of its run. All else stays byte for byte
/// what it was.
#[utoipa::path(post, path = "/v1/state-engine/state/commit", tag = "state engine", request_body = CommitRequest,
    responses(
        (status = 200, body = CommitAnswer),
        (status = 409, description = "not reserved, or changed meanwhile", body = protocol::Problem),
    ))]
pub(super) async fn commit_state(
    State(app): State<AppState>,
    Named { caller, body }: Named<CommitRequest, MAX_BYTES>,
) -> Result<Json<CommitAnswer>, ApiError> {
    let (wanted, mode) = selected(body)?;
    let committed = app
        .engine
        .commit_selected(&acting(&caller)?, caller.name(), &wanted)
        .await
        .map_err(refused)?;
    Ok(Json(CommitAnswer {
        ok: true,
        committed_serial: committed.serial,
        new_version_id: committed.version,
        commit_mode: mode.to_owned(),
    }))
}

/// Clients try again when they read these words.
fn refused(error: EngineError) -> ApiError {
    let serial = match &error {
        EngineError::VersionConflict { head } => head.serial.clone(),
        _ => return error.into(),
    };
    ApiError::from(error)
        .with("error", "state_serial_conflict")
        .with("message", "state serial conflict")
        .with(
            "current_serial",
            serial.and_then(|serial| serial.parse::<u64>().ok()),
        )
}

/// What is to be committed, and the mode as the answer names it.
fn selected(request: CommitRequest) -> Result<(SelectedCommit, &'static str), ApiError> {
    let run = run_id(&request.apply_id)?;
    let write = targets("write_set", &request.write_set)?;
    let base_serial = request.base_serial;
    let commit = |document, write, delete, outputs| SelectedCommit {
        run,
        base_serial,
        document,
        write,
        delete,
        outputs,
    };
    match (
        request.mode.as_deref().unwrap_or_default(),
        request.delta,
        request.raw_state,
    ) {
        ("" | "snapshot", _, Some(document)) if request.write_set.is_empty() => {
            let all = commit(
                document.into(),
                vec![Target::Everything],
                Vec::new(),
                SelectedOutputs::All,
            );
            Ok((all, "snapshot"))
        }
        ("" | "snapshot", _, Some(document)) => {
            let none = SelectedOutputs::Named(Vec::new());
            Ok((
                commit(document.into(), write, Vec::new(), none),
                "snapshot-selected",
            ))
        }
        ("" | "snapshot", _, None) => Err(invalid("`raw_state` is required")),
        ("delta", Some(delta), _) => {
            let delete = targets("delta.delete_set", &delta.delete_set)?;
            let write = if request.write_set.is_empty() {
                targets("delta.write_set", &delta.write_set)?
            } else {
                write
            };
            let names = delta.output_writes.keys().chain(&delta.output_delete_set);
            let outputs = SelectedOutputs::Named(names.cloned().collect());
            Ok((commit(document(&delta)?, write, delete, outputs), "delta"))
        }
        ("delta", None, Some(document)) if !request.write_set.is_empty() => {
            let none = SelectedOutputs::Named(Vec::new());
            Ok((commit(document.into(), write, Vec::new(), none), "delta"))
        }
        ("delta", _, _) => Err(invalid(
            "a delta needs `delta`, or `raw_state` with a `write_set`",
        )),
        (other, _, _) => {
            let said = format!("there is no commit of mode {other:?}");
            Err(ApiError::with_detail(Code::InvalidRequest, said)
                .with("error", "native_commit_not_supported")
                .with("message", "the modes are `snapshot` and `delta`"))
        }
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::with_detail(Code::InvalidRequest, message)
        .with("error", "invalid_request")
        .with("message", message)
}

fn targets(field: &str, texts: &[String]) -> Result<Vec<Target>, ApiError> {
    let read = |(place, text): (usize, &String)| match text.as_str() {
        "*" => Ok(Target::Everything),
        _ => text.parse().map_err(|error: graph::scope::NotATarget| {
            ApiError::with_detail(Code::InvalidRequest, format!("`{field}[{place}]`: {error}"))
        }),
    };
    texts.iter().enumerate().map(read).collect()
}

/// The delta as a document: what it writes, and nothing else.
fn document(delta: &CommitDelta) -> Result<Bytes, ApiError> {
    let document = json!({
        "version": 4,
        "terraform_version": delta.terraform_version.as_deref().unwrap_or_default(),
        "serial": 1,
        "lineage": delta.lineage.as_deref().unwrap_or_default(),
    });
    // The values stay the bytes they are.
    #[derive(serde::Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        head: serde_json::Value,
        outputs: &'a std::collections::BTreeMap<String, Box<serde_json::value::RawValue>>,
        resources: &'a [Box<serde_json::value::RawValue>],
    }
    let document = Document {
        head: document,
        outputs: &delta.output_writes,
        resources: &delta.resources,
    };
    let bytes = serde_json::to_vec(&document).map_err(|error| ApiError::internal(&error))?;
    Ok(bytes.into())
}
