//! Serving: connections in, requests to the router, and an orderly end.
//!
//! Everything started here takes its listener, state and shutdown signal from outside, so tests start the same.

mod pulse;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use telemetry::MetricsHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use self::pulse::{Pulse, Watched};
use crate::state::AppState;
use crate::table::{self, Route};
use crate::{dispatch, routes};

/// How often an HTTP/2 client is asked for a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How often token uses are written and histograms folded.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(15);

/// The other end of a request's connection.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// What a replica serves on.
pub struct Listeners {
    /// For the API.
    pub api: TcpListener,
    /// For `/metrics`.
    pub metrics: TcpListener,
}

/// How a replica ends.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    /// How long `/readyz` says no while requests are still taken, so that balancers notice.
    pub notice: Duration,
    /// How long requests may take to finish after that.
    pub bound: Duration,
}

/// Serves the route table until the shutdown signal, then drains.
///
/// # Errors
///
/// When the table contradicts itself.
pub async fn serve(
    app: AppState,
    listeners: Listeners,
    metrics: MetricsHandle,
    drain: Drain,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    serve_table(routes::table(), app, listeners, metrics, drain, shutdown).await
}

/// Serves a table of one's own: the routes of the service, and perhaps some of a test.
///
/// # Errors
///
/// When the table contradicts itself.
pub async fn serve_table(
    table: Vec<Route>,
    app: AppState,
    listeners: Listeners,
    metrics: MetricsHandle,
    drain: Drain,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let table = table::checked(table).context("the route table contradicts itself")?;
    let router = dispatch::router(&app, table);

    let upkeep = tokio::spawn(upkeep(app.clone(), metrics.clone()));
    let engine = app.engine.clone();
    let heartbeat = tokio::spawn(async move { engine.keep_beating().await });
    let engine = app.engine.clone();
    let index = tokio::spawn(async move { engine.keep_index().await });
    let engine = app.engine.clone();
    let chain = tokio::spawn(async move { engine.keep_chain().await });
    let metrics_end = CancellationToken::new();
    let metrics_router = metrics_router(&app, metrics);
    let metrics_server = tokio::spawn(run(
        listeners.metrics,
        metrics_router,
        metrics_end.clone(),
        Duration::from_secs(1),
    ));

    let end = CancellationToken::new();
    let api_server = tokio::spawn(run(listeners.api, router, end.clone(), drain.bound));
    shutdown.cancelled().await;
    tracing::info!("draining: no longer ready, still answering");
    app.readiness.begin_draining();
    tokio::time::sleep(drain.notice).await;
    end.cancel();
    api_server.await.context("the API server stopped")?;
    metrics_end.cancel();
    metrics_server.await.context("the metrics server stopped")?;
    upkeep.abort();
    heartbeat.abort();
    index.abort();
    chain.abort();
    app.token_uses.write(&app.db).await;
    app.db.close().await;
    tracing::info!("drained");
    Ok(())
}

/// Takes connections until the end is signalled, then lets requests finish within the bound.
async fn run(listener: TcpListener, router: Router, end: CancellationToken, bound: Duration) {
    let graceful = GracefulShutdown::new();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely; closing connections will bring some back.
                    tracing::warn!(error = %telemetry::Chain(&error), "could not take a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            // Forget connections that have ended, or the set grows for ever.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = end.cancelled() => break,
        };
        connections.spawn(connection(stream, peer, router.clone(), graceful.watcher()));
    }
    drop(listener);
    if tokio::time::timeout(bound, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(
            count = connections.len(),
            "cut off requests that did not finish in time"
        );
    }
    connections.abort_all();
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers go out when they are ready: small ones would wait 40 ms for company.
    let _ = stream.set_nodelay(true);
    let pulse = Pulse::new();
    let stream = Watched::new(stream, pulse.clone());
    let requests = pulse.clone();
    let service = tower::service_fn(move |mut request: hyper::Request<Incoming>| {
        let in_flight = requests.request();
        request.extensions_mut().insert(PeerAddress(peer));
        let answer = router.clone().oneshot(request.map(Body::new));
        async move {
            let answer = answer.await;
            drop(in_flight);
            answer
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // A connection that breaks is the client's affair; the request it broke is counted where it was handled.
    tokio::select! {
        _ = watcher.watch(connection.into_owned()) => {}
        () = pulse.stopped() => {}
    }
}

async fn upkeep(app: AppState, metrics: MetricsHandle) {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        metrics.run_upkeep();
        app.token_uses.write(&app.db).await;
    }
}

fn metrics_router(app: &AppState, metrics: MetricsHandle) -> Router {
    let db = app.db.clone();
    let router = Router::new().route(
        "/metrics",
        get(async move || {
            let (open, idle) = db.connections();
            telemetry::store_connections(open, u32::try_from(idle).unwrap_or(u32::MAX));
            (
                [("content-type", "text/plain; version=0.0.4")],
                metrics.render(),
            )
        }),
    );
    #[cfg(feature = "faults")]
    let router = router.merge(crate::faults::router());
    router
}
