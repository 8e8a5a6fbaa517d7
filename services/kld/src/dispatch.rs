//! The way of every request: row of the table → credentials → decision → handler → answer.
//!
//! Built from the route table. Whatever happens on the way, a panic included, ends in one envelope, with the headers
//! every answer carries.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts as _;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use futures::FutureExt as _;
use protocol::{Code, Problem};
use telemetry::LaneLabel;
use tower::ServiceExt as _;
use tracing::Instrument as _;
use tracing::field::Empty;
use uuid::Uuid;

use crate::access::{PathParams, admit, identify, query_holds_token, record};
use crate::body::{Activity, guard};
use crate::error::ApiError;
use crate::packing::packed;
use crate::routes::terraform::choose_coding;
use crate::state::AppState;
use crate::table::{Access, Lane, Route};

/// The header that names a request in answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where an address holds one of these, a Terraform client may be looking for its state, however it is misspelled (a
/// doubled slash, another case, an escaped one). What matches no route is then refused as on its lane: a 404 would be "no
/// state yet".
const STATE_WORDS: [&str; 3] = ["states", "state-unlock", "runs"];

/// Names a request in logs, audit entries and answers. Made by us: a client's own could be anything.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

impl RequestId {
    fn new() -> Self {
        Self(format!("req_{}", Uuid::now_v7().simple()))
    }
}

/// Builds the router from the table.
pub fn router(app: &AppState, table: Vec<Route>) -> Router {
    let mut paths: Vec<(&'static str, Vec<Bound>)> = Vec::new();
    for route in table {
        let path = route.path;
        let bound = Bound {
            handler: route.handler.clone().with_state(app.clone()),
            route,
        };
        match paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, rows)) => rows.push(bound),
            None => paths.push((path, vec![bound])),
        }
    }
    let mut router = Router::new();
    for (path, rows) in paths {
        let rows: Arc<[Bound]> = rows.into();
        let app = app.clone();
        let service = tower::service_fn(move |request: Request| {
            let (app, rows) = (app.clone(), Arc::clone(&rows));
            async move { Ok::<_, std::convert::Infallible>(answer(&app, &rows, request).await) }
        });
        router = router.route_service(path, service);
    }
    let app = app.clone();
    router.fallback(move |request: Request| {
        let app = app.clone();
        async move { answer(&app, &[], request).await }
    })
}

/// A row with its handler ready to be called.
struct Bound {
    route: Route,
    handler: MethodRouter,
}

/// Answers one request to an address, whose rows differ by method. No rows: the address is not in the table.
async fn answer(app: &AppState, rows: &[Bound], request: Request) -> Response {
    let started = Instant::now();
    let request_id = RequestId::new();
    let bound = find(rows, request.method());
    let terraform_address = names_states(request.uri().path());
    let coding = choose_coding(request.headers());
    let (name, lane) = match bound {
        Some(bound) => (bound.route.name, bound.route.lane),
        None if rows.is_empty() && terraform_address => ("unmatched", Lane::Terraform),
        None if rows.is_empty() => ("unmatched", Lane::Api),
        None => ("method_not_allowed", rows[0].route.lane),
    };
    let label = match (bound, lane) {
        (Some(bound), _) if matches!(bound.route.access, Access::Public(_)) => LaneLabel::Service,
        (Some(_), Lane::Terraform) => LaneLabel::Terraform,
        (Some(_), Lane::Api) => LaneLabel::Api,
        (None, _) => LaneLabel::Service,
    };
    let span = tracing::info_span!(
        "request",
        request.id = %request_id.0,
        route = name,
        workspace.id = Empty,
        environment.id = Empty,
        token.id = Empty,
    );

    telemetry::http_request_started();
    let counted = Counted {
        name,
        label,
        started,
        status: None,
    };
    let response = async {
        let outcome = match bound {
            Some(bound) => handle(app, bound, &request_id, request).await,
            None if rows.is_empty() && terraform_address => Err(ApiError::new(Code::Forbidden)),
            None if rows.is_empty() => Err(ApiError::new(Code::NotFound)),
            None => Err(method_not_allowed(rows)),
        };
        let response = finish(outcome.into_response(), lane, &request_id);
        let response = packed(coding, response).await;
        let (status, duration_ms) = (response.status().as_u16(), started.elapsed().as_millis());
        let duration_ms = u64::try_from(duration_ms).unwrap_or(u64::MAX);
        if label == LaneLabel::Service {
            tracing::debug!(status, duration_ms, "answered");
        } else {
            tracing::info!(status, duration_ms, "answered");
        }
        response
    }
    .instrument(span)
    .await;
    counted.answered(response.status());
    response
}

fn names_states(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2f", "/");
    let mut segments = path.split('/');
    segments.any(|segment| STATE_WORDS.contains(&segment))
}

/// The row for a method. HEAD is answered by GET's row where it has none of its own; the body stays behind.
fn find<'a>(rows: &'a [Bound], method: &Method) -> Option<&'a Bound> {
    let exact = rows.iter().find(|bound| bound.route.method == *method);
    exact.or_else(|| {
        (method == Method::HEAD)
            .then(|| rows.iter().find(|bound| bound.route.method == Method::GET))
            .flatten()
    })
}

fn method_not_allowed(rows: &[Bound]) -> ApiError {
    let mut methods: Vec<&str> = rows
        .iter()
        .map(|bound| bound.route.method.as_str())
        .collect();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        methods.push("HEAD");
    }
    let allow = methods.join(", ");
    let error = ApiError::with_detail(Code::MethodNotAllowed, format!("allowed: {allow}"));
    match HeaderValue::from_str(&allow) {
        Ok(allow) => error.with_header(header::ALLOW, allow),
        Err(_) => error,
    }
}

/// Admits the caller and calls the handler.
async fn handle(
    app: &AppState,
    bound: &Bound,
    request_id: &RequestId,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    if parts.uri.query().is_some_and(query_holds_token) {
        return Err(ApiError::with_detail(
            Code::TokenInQuery,
            "the address holds a token and may be in logs by now: revoke it, and send its successor in a header",
        ));
    }
    let params = path_params(&mut parts).await;
    let route = &bound.route;
    match route.access {
        Access::Needs(action) => {
            let mut admitted = admit(app, &parts, route, action, &params).await?;
            admitted.context = admitted.context.in_request(request_id.0.as_str());
            record(&admitted.context);
            parts.extensions.insert(admitted);
        }
        Access::NeedsOnNamed(action) => {
            let undecided = identify(app, &parts).await?.asking(action, route.lane);
            parts.extensions.insert(undecided);
        }
        Access::Public(_) => {}
    }
    parts.extensions.insert(params);
    parts.extensions.insert(request_id.clone());

    let activity = Activity::new();
    let request = Request::from_parts(parts, guard(body, &activity));
    let handler = bound.handler.clone().oneshot(request);
    tokio::select! {
        outcome = AssertUnwindSafe(handler).catch_unwind() => match outcome {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(never)) => match never {},
            Err(_) => {
                // The panic hook has logged where; what the panic said may hold data and goes nowhere.
                telemetry::http_panicked();
                Err(ApiError::new(Code::Internal))
            }
        },
        () = activity.idle_too_long() => Err(ApiError::new(Code::Timeout).retry_after(1)),
    }
}

/// The parameters that decisions are made on. An address whose percent-encoding is no UTF-8 names nothing.
async fn path_params(parts: &mut axum::http::request::Parts) -> PathParams {
    let mut params = PathParams::default();
    if let Ok(raw) = RawPathParams::from_request_parts(parts, &()).await {
        for (key, value) in &raw {
            match key {
                "ws" => params.workspace = Some(value.to_owned()),
                "env" => params.environment = Some(value.to_owned()),
                "name" => params.state = Some(value.to_owned()),
                "run" => params.run = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    params
}

/// Gives a response its envelope, if it is a refusal, and the headers that all carry.
fn finish(mut response: Response, lane: Lane, request_id: &RequestId) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        response = render(error, lane, request_id);
    } else if response.status().is_client_error() && !is_json(&response) {
        // An extractor's own refusal, in plain text. Its status says enough.
        response = render(ApiError::new(code_of(response.status())), lane, request_id);
    }
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000"),
    );
    if let Ok(value) = HeaderValue::from_str(&request_id.0) {
        headers.insert(REQUEST_ID, value);
    }
    response
}

fn is_json(response: &Response) -> bool {
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/"))
        || response.body().size_hint().exact() == Some(0) && kind.is_none()
}

const fn code_of(status: StatusCode) -> Code {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        StatusCode::NOT_FOUND => Code::NotFound,
        _ => Code::InvalidRequest,
    }
}

fn render(error: ApiError, lane: Lane, request_id: &RequestId) -> Response {
    let error = error.into_inner();
    if let Some(cause) = &error.cause {
        // Refusals that are the caller's affair have no cause. 503 is weather; 500 wants somebody to look.
        if error.code.status() == 503 {
            tracing::warn!(code = %error.code, error = %cause, "answered that the store is away");
        } else {
            tracing::error!(code = %error.code, error = %cause, "answered with an internal error");
        }
    }
    let mut problem = Problem::new(error.code, request_id.0.as_str());
    problem.detail = error.detail;
    problem.extra = error.extra;
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = match lane {
        Lane::Terraform => "application/json",
        Lane::Api => "application/problem+json",
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = (status, [(header::CONTENT_TYPE, kind)], Body::from(body)).into_response();
    for (name, value) in error.headers {
        response.headers_mut().append(name, value);
    }
    response
}

/// Counts a request once, also when its client goes away and the future is dropped.
struct Counted {
    name: &'static str,
    label: LaneLabel,
    started: Instant,
    status: Option<StatusCode>,
}

impl Counted {
    fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // 499: nobody is there to be answered. Its label is `other`.
        let status = self.status.map_or(499, |status| status.as_u16());
        telemetry::http_request_finished(self.name, self.label, status, self.started.elapsed());
    }
}
