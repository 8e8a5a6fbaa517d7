//! A worker from its start to its end: checks, `/metrics`, the loop, draining.

use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use engine::Engine;
use engine::archive::WorkSettings;
use kld::config::WorkerConfig;
use secrecy::ExposeSecret as _;
use store::{Db, DbOptions, catalogue, queue};
use telemetry::MetricsHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::work::{self, Stop};

/// How often histograms are folded and the queue is measured.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(15);
/// How long a worker waits for a database that is still starting.
const DATABASE_PATIENCE: Duration = Duration::from_secs(60);

/// Runs a worker until the shutdown signal, then drains it.
///
/// # Errors
///
/// When the configuration, the schema or the role are not fit to work with.
pub async fn serve(config: WorkerConfig, shutdown: CancellationToken) -> anyhow::Result<()> {
    let metrics = telemetry::install_metrics()?;
    let mut options = DbOptions::new(config.database_url.clone());
    options.max_connections = config.database_pool;
    // Nobody waits for an answer: a job that waits for a connection is better than one that fails.
    options.acquire_timeout = Duration::from_secs(30);
    let db = Db::connect(&options).context("KL_DATABASE_URL")?;
    wait_for_database(&db).await?;
    catalogue::check(&db).await?;

    let key = config.deployment_key.expose_secret();
    // Without Redis: a worker reserves nothing, and nobody waits for it.
    let engine = Engine::new(db.clone(), key, None, None);
    let archives = config
        .archives
        .archives(&engine, key)
        .context("KL_BLOBS: is not set")?;
    let listener = TcpListener::bind(config.metrics_listen)
        .await
        .with_context(|| {
            format!(
                "KL_METRICS_LISTEN: cannot listen on {}",
                config.metrics_listen
            )
        })?;
    let server =
        tokio::spawn(axum::serve(listener, router(db.clone(), metrics.clone())).into_future());
    let upkeep = tokio::spawn(upkeep(metrics));

    let settings = WorkSettings {
        lease: config.lease,
        abandonments: config.abandonments,
        ..WorkSettings::default()
    };
    let stop = Stop::default();
    let working = tokio::spawn(work::run(
        db.clone(),
        archives,
        settings,
        config.jobs,
        stop.clone(),
    ));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "working");
    shutdown.cancelled().await;
    tracing::info!("draining: no more jobs are taken");
    stop.no_more.cancel();
    let mut working = working;
    if tokio::time::timeout(config.drain, &mut working)
        .await
        .is_err()
    {
        tracing::info!("giving back the jobs that did not finish in time");
        stop.give_back.cancel();
        working.await.context("the loop of the worker stopped")?;
    }
    upkeep.abort();
    server.abort();
    db.close().await;
    tracing::info!("drained");
    Ok(())
}

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

fn router(db: Db, metrics: MetricsHandle) -> Router {
    let measured = async move || {
        let (open, idle) = db.connections();
        telemetry::store_connections(open, u32::try_from(idle).unwrap_or(u32::MAX));
        if let Ok((waiting, running)) = queue::depth(&db).await {
            telemetry::job_queue(waiting, running);
        }
        (
            [("content-type", "text/plain; version=0.0.4")],
            metrics.render(),
        )
    };
    Router::new()
        .route("/metrics", get(measured))
        .route("/healthz", get(async || "ok"))
}

async fn upkeep(metrics: MetricsHandle) {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        metrics.run_upkeep();
    }
}
