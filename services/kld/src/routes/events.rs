//! Streams of events for those who watch a state or a run (docs/watching.md).
//!
//! A stream looks at nothing by itself: the engine looks once for all who watch a state by this replica. What a stream does
//! alone is to ask, before anything is sent, whether its caller may still see it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use auth::Action;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use engine::{Seen, Standing, Watcher, is_over};
use futures::stream;
use protocol::Code;
use protocol::RunId;
use protocol::events::{Bye, ByeReason, RunEvent, StandingEvent, names};
use serde::{Deserialize, Serialize};
use tokio::time::{Interval, MissedTickBehavior, interval};
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::parameter::QueryParams;
use super::states::render;
use super::terraform::{acting, acting_on};
use crate::access::{Lasting, RunCaller, StateCaller};
use crate::error::ApiError;
use crate::state::AppState;
use crate::table::Route;

/// How often something is sent when there is nothing to say: proxies end what is silent, mostly after a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How soon a client comes back when its stream breaks, in milliseconds.
const RETRY: Duration = Duration::from_secs(1);
/// Holders and waiters shown by name.
const SHOWN: usize = 100;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Keeps nginx from holding a stream back.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The rows of these routes.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::api(
            "watch_state",
            Method::GET,
            "/v1/states/{ws}/{env}/{name}/events",
            Action::ReadMetadata,
            routes!(watch_state),
        ),
        Route::api(
            "watch_run",
            Method::GET,
            "/v1/runs/{run}/events",
            Action::ReadRun,
            routes!(watch_run),
        ),
    ]
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchQuery {
    /// The number of the last version the client knows; `Last-Event-ID` says the same, and goes first.
    after: Option<i64>,
}

/// Watches a state: server-sent events, until the client goes away.
///
/// `standing` comes first and whenever somebody takes a part of the state, gives it back or begins to wait; `version` with
/// each new version, whose number is the event's id; `run` when a run begins, ends or goes to sleep; `missed` in the stead
/// of versions that are too many; `bye` at the end, with the reason.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/events", tag = "states",
    params(WatchQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "a stream of events; this is the data of `standing`", body = StandingEvent,
        content_type = "text/event-stream")))]
pub(super) async fn watch_state(
    State(app): State<AppState>,
    caller: StateCaller,
    lasting: Lasting,
    headers: HeaderMap,
    QueryParams(query): QueryParams<WatchQuery>,
) -> Result<Response, ApiError> {
    wanted(&app)?;
    let after = last_event_id(&headers)?.or(query.after);
    let watcher = app
        .engine
        .watch_state(&acting(&caller)?, caller.name(), after)
        .await?;
    Ok(Stream::new(app, lasting, watcher).into_response())
}

/// Watches a run: an event `run` at once and whenever it changes, until it is over.
#[utoipa::path(get, path = "/v1/runs/{run}/events", tag = "runs", params(("run" = RunId, Path)),
    responses((status = 200, description = "a stream of events; this is the data of `run`", body = RunEvent,
        content_type = "text/event-stream")))]
pub(super) async fn watch_run(
    State(app): State<AppState>,
    caller: RunCaller,
    lasting: Lasting,
) -> Result<Response, ApiError> {
    wanted(&app)?;
    let (run, watcher) = app.engine.watch_run(&acting_on(&caller)?).await?;
    let mut stream = Stream::new(app, lasting, watcher);
    stream.of_run = true;
    stream.say_run(&run);
    Ok(stream.into_response())
}

/// Fails when the replica is about to go: another one is to be asked.
fn wanted(app: &AppState) -> Result<(), ApiError> {
    if app.readiness.is_draining() {
        return Err(ApiError::new(Code::Unavailable).retry_after(1));
    }
    Ok(())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    seq.map(Some).ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "Last-Event-ID is the number of a version",
        )
    })
}

/// What one client is sent.
struct Stream {
    app: AppState,
    lasting: Lasting,
    watcher: Watcher,
    beat: Interval,
    ready: VecDeque<Event>,
    /// Whether the stream is of one run, and what was said of it last.
    of_run: bool,
    said: Option<RunEvent>,
    /// Nothing follows what is ready.
    is_last: bool,
}

impl Stream {
    fn new(app: AppState, lasting: Lasting, watcher: Watcher) -> Self {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        Self {
            app,
            lasting,
            watcher,
            beat,
            // At once, so that the client knows that it is heard.
            ready: VecDeque::from([Event::default().retry(RETRY).comment("watching")]),
            of_run: false,
            said: None,
            is_last: false,
        }
    }

    fn into_response(self) -> Response {
        let events = stream::unfold(self, Self::next);
        let mut response = Sse::new(events).into_response();
        let headers = response.headers_mut();
        headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
        // Nothing of a state is to lie in a cache, be it asked for again or not.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            if self.is_last {
                return None;
            }
            self.wait().await;
        }
    }

    /// Waits until there is something to be said.
    async fn wait(&mut self) {
        tokio::select! {
            () = self.app.readiness.drains() => self.end(ByeReason::Draining),
            seen = self.watcher.next() => match (seen, self.lasting.holds(&self.app).await) {
                (Some(seen), Ok(true)) => self.tell(seen),
                (_, Ok(false)) => self.end(ByeReason::Unauthorized),
                // The client comes back and is told what is wrong.
                (None, _) | (_, Err(_)) => self.is_last = true,
            },
            _ = self.beat.tick() => match self.lasting.holds(&self.app).await {
                Ok(false) => self.end(ByeReason::Unauthorized),
                // Where that cannot be asked, nothing is sent that would matter.
                Ok(true) | Err(_) => self.ready.push_back(Event::default().comment("")),
            },
        }
    }

    fn tell(&mut self, seen: Seen) {
        match seen {
            Seen::Version(version) => {
                let event = Event::default().id(version.seq.to_string());
                self.say(event, names::VERSION, &render::version(&version));
            }
            Seen::Missed(missed) => self.say(Event::default(), names::MISSED, &missed),
            Seen::Standing { head_seq, standing } => match shown(head_seq, &standing) {
                Ok(shown) => {
                    let event = Event::default().id(head_seq.to_string());
                    self.say(event, names::STANDING, &shown);
                }
                Err(_) => self.is_last = true,
            },
            Seen::Run(run) => self.say_run(&run),
        }
    }

    fn say_run(&mut self, run: &RunEvent) {
        if self.said.as_ref() == Some(run) {
            return;
        }
        self.say(Event::default(), names::RUN, run);
        if self.of_run {
            self.said = Some(run.clone());
            if is_over(run.status) {
                self.end(ByeReason::Over);
            }
        }
    }

    fn say(&mut self, event: Event, name: &str, data: &impl Serialize) {
        match event.event(name).json_data(data) {
            Ok(event) => self.ready.push_back(event),
            Err(error) => {
                tracing::error!(%error, "an event cannot be written");
                self.is_last = true;
            }
        }
    }

    fn end(&mut self, reason: ByeReason) {
        self.say(Event::default(), names::BYE, &Bye { reason });
        self.is_last = true;
    }
}

fn shown(head_seq: i64, standing: &Standing) -> Result<StandingEvent, ApiError> {
    let holders = standing.holders.iter().take(SHOWN);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(StandingEvent {
        head_seq,
        holders: holders
            .map(|holder| render::holder(holder.clone()))
            .collect::<Result<_, _>>()?,
        holder_count: count(standing.holders.len()),
        waiting: standing.waiting.iter().take(SHOWN).cloned().collect(),
        waiting_count: count(standing.waiting.len()),
        unsettled_count: count(standing.unsettled),
    })
}
