//! `POST /v1/runs` and `POST /v1/runs/reopen`.

use auth::{Token, TokenKind};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use engine::RunCredential;
use protocol::runs::{BeginRun, ReopenRun, Run, RunBackend, RunStatus};

use crate::access::Named;
use crate::error::ApiError;
use crate::routes::terraform::acting;
use crate::state::AppState;

/// The largest request to begin a run: it holds the part of a configuration that bears on its scope.
const MAX_SCOPE_BYTES: u64 = 16 * 1024 * 1024;
/// What an edge that ends TLS says of how the request came to it.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// For `username`: any will do, and none would keep Terraform from sending the password.
const USERNAME: &str = "run";

/// Begins a run: proves its scope, reserves it, renders its slice. The same key again is the same run.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = BeginRun,
    responses(
        (status = 200, body = Run),
        (status = 422, description = "the scope cannot be proven: `contract` says why", body = protocol::Problem),
        (status = 423, description = "part of the scope is held: `conflicts` says by whom", body = protocol::Problem),
    ))]
pub(super) async fn begin_run(
    State(app): State<AppState>,
    headers: HeaderMap,
    Named { caller, body }: Named<BeginRun, MAX_SCOPE_BYTES>,
) -> Result<Json<Run>, ApiError> {
    let (token, credential) = new_token(&app);
    let run = app
        .engine
        .begin_run(&acting(&caller)?, caller.name(), &body, &credential)
        .await?;
    Ok(Json(with_backend(run, &app, &headers, &token)))
}

/// Wakes the run of a saved plan, to apply it.
#[utoipa::path(post, path = "/v1/runs/reopen", tag = "runs", request_body = ReopenRun,
    responses(
        (status = 200, body = Run),
        (status = 404, description = "no run of this state made the plan", body = protocol::Problem),
        (status = 409, description = "it was applied before, or is stale", body = protocol::Problem),
        (status = 423, description = "part of the scope is held: `conflicts` says by whom", body = protocol::Problem),
    ))]
pub(super) async fn reopen_run(
    State(app): State<AppState>,
    headers: HeaderMap,
    Named { caller, body }: Named<ReopenRun>,
) -> Result<Json<Run>, ApiError> {
    let (token, credential) = new_token(&app);
    let run = app
        .engine
        .reopen_run(&acting(&caller)?, caller.name(), &body, &credential)
        .await?;
    // The token in the plan file is the caller's from now on.
    app.verdicts.forget_all();
    Ok(Json(with_backend(run, &app, &headers, &token)))
}

fn new_token(app: &AppState) -> (Token, RunCredential) {
    let token = Token::generate(TokenKind::Run, &mut rand::rng());
    let credential = RunCredential {
        id: token.id().clone(),
        mac: app.config.token_pepper.mac(&token),
    };
    (token, credential)
}

/// Says where Terraform finds the run, unless it has ended.
fn with_backend(mut run: Run, app: &AppState, headers: &HeaderMap, token: &Token) -> Run {
    if run.status == RunStatus::Running {
        run.backend = Some(RunBackend {
            address: format!("{}/v1/runs/{}/state", base_url(app, headers), run.id),
            username: USERNAME.to_owned(),
            password: token.expose().to_owned(),
        });
    }
    run
}

/// Where the caller reaches the service: as configured, or as the request came.
fn base_url(app: &AppState, headers: &HeaderMap) -> String {
    if let Some(url) = &app.config.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = match text(FORWARDED_PROTO) {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{}", text(header::HOST).unwrap_or_default())
}
