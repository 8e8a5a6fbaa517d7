//! `kld serve`: checks everything that can be checked, then opens sockets.

use std::time::Duration;

use anyhow::Context as _;
use store::{Db, DbOptions, catalogue};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Source};
use crate::serve::{Drain, Listeners, serve};
use crate::state::AppState;

/// How long `/readyz` says no before the listener closes. Balancers ask every few seconds.
const NOTICE: Duration = Duration::from_secs(5);
/// How long a replica waits for a database that is still starting.
const DATABASE_PATIENCE: Duration = Duration::from_secs(60);

/// Runs a replica until SIGTERM or an interrupt.
///
/// # Errors
///
/// When the configuration, the database's schema or its roles are not fit to serve with.
pub async fn run(source: &Source) -> anyhow::Result<()> {
    let config = Config::load(source)?;
    telemetry::log::init(config.log_format, &config.log)?;
    std::panic::set_hook(Box::new(|panic| {
        // Where, and not what: the message may hold a document.
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(reason = %place, "panicked");
    }));
    let metrics = telemetry::install_metrics()?;

    let mut options = DbOptions::new(config.database_url.clone());
    options.max_connections = config.database_pool;
    let db = Db::connect(&options).context("KL_DATABASE_URL")?;
    wait_for_database(&db).await?;
    catalogue::check(&db).await?;

    let listeners = Listeners {
        api: bind("KL_LISTEN", config.listen).await?,
        metrics: bind("KL_METRICS_LISTEN", config.metrics_listen).await?,
    };
    let drain = Drain {
        notice: NOTICE.min(config.drain),
        bound: config.drain,
    };
    tracing::info!(address = %config.listen, version = env!("CARGO_PKG_VERSION"), "serving");
    serve(
        AppState::new(config, db),
        listeners,
        metrics,
        drain,
        on_signal()?,
    )
    .await
}

/// Waits until the schema can be asked for, and refuses one that is too old.
async fn wait_for_database(db: &Db) -> anyhow::Result<()> {
    let started = tokio::time::Instant::now();
    loop {
        match db.check_schema().await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_temporary() && started.elapsed() < DATABASE_PATIENCE => {
                tracing::warn!(error = %telemetry::Chain(&error), "waiting for the database");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn bind(key: &str, address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{key}: cannot listen on {address}; is another process there?"))
}

/// A token that SIGTERM and SIGINT cancel.
fn on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "asked to stop");
        cancelled.cancel();
    });
    Ok(shutdown)
}
