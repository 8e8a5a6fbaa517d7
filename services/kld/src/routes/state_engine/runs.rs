//! Runs of clients that work out their scope themselves: begin, look, end. Their ids are the ids of runs.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use engine::{Beginner, EngineError, UnscopedRun};
use protocol::Code;
use protocol::runs::{AbortRun, FinishRun, Run, RunOutcome, RunStatus};
use protocol::state_engine::{ApplyRun, BeginApplyRun, Done, FinishApplyRun, RunState, StoppedBy};
use serde_json::{Value, json};

use super::request_digest;
use super::spelling::spell_both_ways;
use crate::access::{Named, RunCaller, StateCaller};
use crate::body::{Json as JsonBody, idempotency_key};
use crate::error::ApiError;
use crate::routes::terraform::{acting, acting_on};
use crate::state::AppState;

/// Begins a run that reserves nothing yet. The same key again, in the body or as Idempotency-Key, is the same run.
#[utoipa::path(post, path = "/v1/state-engine/apply-runs/begin", tag = "state engine", request_body = BeginApplyRun,
    responses(
        (status = 200, body = ApplyRun),
        (status = 422, description = "the key came with another request before", body = protocol::Problem),
    ))]
pub(super) async fn begin_apply_run(
    State(app): State<AppState>,
    headers: HeaderMap,
    Named { caller, body }: Named<BeginApplyRun>,
) -> Result<Json<Value>, ApiError> {
    let key = chosen_key(&headers, body.key.as_deref())?;
    let digest = request_digest(&body)?;
    let who = text(body.actor.as_deref()).unwrap_or_else(|| caller.display().to_owned());
    let beginner = Beginner {
        key: &key,
        command: "kl apply",
        who: &who,
        request_digest: digest,
    };
    let begun = app
        .engine
        .begin_unscoped_run(&acting(&caller)?, caller.name(), &beginner)
        .await?;
    shown(&caller, &begun, body.info)
}

/// The key that the client chose, or one that nobody else has.
fn chosen_key(headers: &HeaderMap, in_body: Option<&str>) -> Result<String, ApiError> {
    let in_head = idempotency_key(headers)?;
    match (in_head, text(in_body)) {
        (Some(head), Some(body)) if head != body => {
            Err(invalid("Idempotency-Key and `key` are two different keys"))
        }
        (Some(key), _) | (None, Some(key)) => Ok(key),
        (None, None) => Ok(uuid::Uuid::now_v7().to_string()),
    }
}

fn text(text: Option<&str>) -> Option<String> {
    let text = text.unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn shown(
    caller: &StateCaller,
    begun: &UnscopedRun,
    info: Option<Value>,
) -> Result<Json<Value>, ApiError> {
    let run = ApplyRun {
        id: begun.run.id.as_uuid(),
        state_id: begun.state,
        from_version_id: begun.from_version,
        to_version_id: None,
        source_serial: begun.run.base_serial.unwrap_or_default(),
        committed_serial: None,
        actor: begun.run.who.clone(),
        status: status(begun.run.status).to_owned(),
        started_at: begun.run.started_at,
        created_at: begun.run.started_at,
        finished_at: None,
        error_summary: None,
        info: info.unwrap_or_else(|| json!({})),
    };
    let mut answer = serde_json::to_value(run).map_err(|error| ApiError::internal(&error))?;
    spell_both_ways(&mut answer);
    answer["state"] = super::full_name(caller).into();
    Ok(Json(answer))
}

/// How far a run has come.
#[utoipa::path(get, path = "/v1/state-engine/apply-runs/{run}/status", tag = "state engine",
    params(("run" = protocol::RunId, Path)), responses((status = 200, body = RunState)))]
pub(super) async fn get_apply_run(
    State(app): State<AppState>,
    caller: RunCaller,
) -> Result<Json<RunState>, ApiError> {
    let run = app.engine.run(&acting_on(&caller)?).await?;
    Ok(Json(RunState {
        status: status(run.status).to_owned(),
    }))
}

/// Ends a run and releases what it holds.
#[utoipa::path(post, path = "/v1/state-engine/apply-runs/{run}/finish", tag = "state engine",
    params(("run" = protocol::RunId, Path)), request_body = FinishApplyRun, responses((status = 200, body = Done)))]
pub(super) async fn finish_apply_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<FinishApplyRun>,
) -> Result<Json<Done>, ApiError> {
    let acting = acting_on(&caller)?;
    let outcome = match (request.status.as_str(), request.committed_serial) {
        ("committed", Some(_)) => RunOutcome::Succeeded,
        ("committed", None) => {
            return Err(invalid("committed status requires a committed_serial"));
        }
        ("failed" | "aborted", Some(_)) => {
            return Err(invalid(
                "committed_serial must be nil unless the status is committed",
            ));
        }
        ("failed" | "aborted", None) => RunOutcome::Failed,
        (other, _) => return Err(invalid(&format!("status {other:?} is not terminal"))),
    };
    running(&app.engine.run(&acting).await?)?;
    if request.status == "aborted" {
        let reason = request.error_summary.unwrap_or_default();
        app.engine.abort_run(&acting, &AbortRun { reason }).await?;
    } else {
        let request = FinishRun {
            outcome,
            plan_sha256: None,
            error: request
                .error_summary
                .filter(|_| outcome == RunOutcome::Failed),
            checked: true,
            refreshed: true,
        };
        let finished = app.engine.finish_run(&acting, &request).await;
        finished.map_err(finished_before)?;
    }
    Ok(Json(Done { ok: true }))
}

/// Ends somebody's run.
#[utoipa::path(post, path = "/v1/state-engine/apply-runs/{run}/abort", tag = "state engine",
    params(("run" = protocol::RunId, Path)), request_body = StoppedBy, responses((status = 200, body = Done)))]
pub(super) async fn abort_apply_run(
    State(app): State<AppState>,
    caller: RunCaller,
    JsonBody(request): JsonBody<StoppedBy>,
) -> Result<Json<Done>, ApiError> {
    let acting = acting_on(&caller)?;
    let before = app.engine.run(&acting).await?;
    let reason =
        text(request.reason.as_deref()).unwrap_or_else(|| "aborted by operator".to_owned());
    // Ending what has ended changes nothing, so whether the caller may is asked first.
    app.engine.abort_run(&acting, &AbortRun { reason }).await?;
    running(&before)?;
    Ok(Json(Done { ok: true }))
}

/// Fails for a run that has ended. Clients look for these words.
fn running(run: &Run) -> Result<(), ApiError> {
    match run.status {
        RunStatus::Running | RunStatus::Planned => Ok(()),
        _ => Err(invalid("apply run already finished")),
    }
}

fn finished_before(error: EngineError) -> ApiError {
    match error {
        EngineError::RunEnded(_) => invalid("apply run already finished"),
        error => error.into(),
    }
}

fn invalid(detail: &str) -> ApiError {
    ApiError::with_detail(Code::InvalidRequest, detail).with("error", detail)
}

fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running | RunStatus::Planned => "running",
        RunStatus::Succeeded => "committed",
        RunStatus::Failed => "failed",
        RunStatus::Aborted | RunStatus::Expired => "aborted",
    }
}
