//! The metrics of the service, in one list with their help texts.
//!
//! To add one: a constant, a line in [`METRICS`], and a function that takes what may vary as an enum. No label is ever
//! made from a path, a name, an id, an address or an error text.

use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{counter, gauge, histogram};
use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const HTTP_REQUESTS: &str = "kl_http_requests_total";
const HTTP_SECONDS: &str = "kl_http_request_seconds";
const HTTP_IN_FLIGHT: &str = "kl_http_requests_in_flight";
const HTTP_PANICS: &str = "kl_http_panics_total";
const AUTH_REFUSED: &str = "kl_auth_refused_total";
const AUTH_VERDICTS: &str = "kl_auth_verdicts_total";
const STORE_RETRIES: &str = "kl_store_retries_total";
const STORE_CONNECTIONS: &str = "kl_store_connections";
const JOBS_ENDED: &str = "kl_jobs_total";
const JOBS_RUNNING: &str = "kl_jobs_running";
const JOB_QUEUE: &str = "kl_job_queue";
const GRAPHS: &str = "kl_graphs_total";
const GRAPH_SECONDS: &str = "kl_graph_seconds";
const SNAPSHOTS_REFUSED: &str = "kl_graph_snapshots_refused_total";
const WATCHERS: &str = "kl_watchers";
const WATCH_LOOKS: &str = "kl_watch_looks_total";

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Every metric with its help text.
const METRICS: &[(&str, Kind, &str)] = &[
    (
        HTTP_REQUESTS,
        Kind::Counter,
        "Requests answered, by route of the route table and status.",
    ),
    (
        HTTP_SECONDS,
        Kind::Histogram,
        "Seconds from the request's head to the answer's head, by lane.",
    ),
    (HTTP_IN_FLIGHT, Kind::Gauge, "Requests being handled."),
    (
        HTTP_PANICS,
        Kind::Counter,
        "Handlers that panicked. Each is a defect.",
    ),
    (
        AUTH_REFUSED,
        Kind::Counter,
        "Requests refused for want of a valid token, by reason.",
    ),
    (
        AUTH_VERDICTS,
        Kind::Counter,
        "Tokens resolved, by where the verdict came from.",
    ),
    (
        STORE_RETRIES,
        Kind::Counter,
        "Transactions begun again, by reason.",
    ),
    (
        STORE_CONNECTIONS,
        Kind::Gauge,
        "Database connections, by what they do.",
    ),
    (
        GRAPHS,
        Kind::Counter,
        "Dependency graphs asked for, by where they came from.",
    ),
    (
        GRAPH_SECONDS,
        Kind::Histogram,
        "Seconds it took to make a dependency graph, by how it was made.",
    ),
    (
        SNAPSHOTS_REFUSED,
        Kind::Counter,
        "Snapshots of dependency graphs that were not what their keys said.",
    ),
    (
        WATCHERS,
        Kind::Gauge,
        "Clients that watch a state or a run by this replica.",
    ),
    (
        WATCH_LOOKS,
        Kind::Counter,
        "Looks at watched states, each for all who watch it here.",
    ),
    (
        JOBS_ENDED,
        Kind::Counter,
        "Attempts at jobs that have ended here, by how.",
    ),
    (JOBS_RUNNING, Kind::Gauge, "Jobs that this worker is at."),
    (
        JOB_QUEUE,
        Kind::Gauge,
        "Jobs of the deployment, by whether they wait or run.",
    ),
];

/// From half a millisecond to a minute: a head-only read at one end, a large write on a slow link at the other.
const SECONDS_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// Which part of the API a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneLabel {
    /// Plain Terraform.
    Terraform,
    /// Everything else with an action.
    Api,
    /// Health, version, the API document, and what matched no route.
    Service,
}

/// Why a request was refused before anything was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthRefusal {
    /// It carried no credentials.
    Missing,
    /// It carried something that is no token.
    Malformed,
    /// The token is not known, or its secret is not the stored one.
    Unknown,
    /// The token has ended.
    Expired,
    /// The token was revoked.
    Revoked,
}

/// Where a verdict on a token came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictSource {
    /// This process remembered it.
    Cache,
    /// The database.
    Store,
}

/// Where a dependency graph came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphSource {
    /// This process had it.
    Memory,
    /// It was made from that of an older version, by what changed since.
    Patched,
    /// It was unpacked from what another process published.
    Snapshot,
    /// It was built from all rows.
    Built,
}

/// Why a transaction is begun again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryReason {
    /// A concurrent transaction won.
    Serialization,
    /// The connection broke before the commit.
    Disconnected,
}

/// How an attempt at a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnding {
    /// The job is done.
    Done,
    /// It failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Another attempt will follow.
    Again,
    /// Another worker has it.
    Lost,
    /// Leftovers were removed.
    Cleaned,
}

/// A worker has begun a job.
pub fn job_started() {
    gauge!(JOBS_RUNNING).increment(1);
}

/// An attempt at a job has ended.
pub fn job_ended(ending: JobEnding) {
    let ending = match ending {
        JobEnding::Done => "done",
        JobEnding::Failed => "failed",
        JobEnding::Cancelled => "cancelled",
        JobEnding::Again => "again",
        JobEnding::Lost => "lost",
        JobEnding::Cleaned => "cleaned",
    };
    gauge!(JOBS_RUNNING).decrement(1);
    counter!(JOBS_ENDED, "ending" => ending).increment(1);
}

/// How many jobs wait, and how many run.
pub fn job_queue(waiting: i64, running: i64) {
    // Counts of jobs are far below what a double holds exactly.
    for (state, count) in [("waiting", waiting), ("running", running)] {
        gauge!(JOB_QUEUE, "state" => state).set(count as f64);
    }
}

/// A request has begun.
pub fn http_request_started() {
    gauge!(HTTP_IN_FLIGHT).increment(1);
}

/// A request was answered. `route` is the name of a row of the route table.
pub fn http_request_finished(
    route: &'static str,
    lane: LaneLabel,
    status: u16,
    duration: Duration,
) {
    let lane = match lane {
        LaneLabel::Terraform => "terraform",
        LaneLabel::Api => "api",
        LaneLabel::Service => "service",
    };
    gauge!(HTTP_IN_FLIGHT).decrement(1);
    counter!(HTTP_REQUESTS, "route" => route, "status" => status_label(status)).increment(1);
    histogram!(HTTP_SECONDS, "lane" => lane).record(duration.as_secs_f64());
}

/// A handler panicked.
pub fn http_panicked() {
    counter!(HTTP_PANICS).increment(1);
}

/// A request was refused for want of a valid token.
pub fn auth_refused(reason: AuthRefusal) {
    let reason = match reason {
        AuthRefusal::Missing => "missing",
        AuthRefusal::Malformed => "malformed",
        AuthRefusal::Unknown => "unknown",
        AuthRefusal::Expired => "expired",
        AuthRefusal::Revoked => "revoked",
    };
    counter!(AUTH_REFUSED, "reason" => reason).increment(1);
}

/// A token was resolved.
pub fn verdict_resolved(source: VerdictSource) {
    let source = match source {
        VerdictSource::Cache => "cache",
        VerdictSource::Store => "store",
    };
    counter!(AUTH_VERDICTS, "source" => source).increment(1);
}

/// A transaction is begun again.
pub fn store_retry(reason: RetryReason) {
    let reason = match reason {
        RetryReason::Serialization => "serialization",
        RetryReason::Disconnected => "disconnected",
    };
    counter!(STORE_RETRIES, "reason" => reason).increment(1);
}

/// How many database connections there are now.
pub fn store_connections(open: u32, idle: u32) {
    gauge!(STORE_CONNECTIONS, "state" => "idle").set(f64::from(idle));
    gauge!(STORE_CONNECTIONS, "state" => "busy").set(f64::from(open.saturating_sub(idle)));
}

/// A snapshot of a graph was not what its key said, and was thrown away.
pub fn snapshot_refused() {
    counter!(SNAPSHOTS_REFUSED).increment(1);
}

/// Somebody begins to watch a state or a run.
pub fn watcher_came() {
    gauge!(WATCHERS).increment(1);
}

/// Somebody has stopped watching.
pub fn watcher_left() {
    gauge!(WATCHERS).decrement(1);
}

/// A state was looked at for those who watch it.
pub fn watched_state_looked_at() {
    counter!(WATCH_LOOKS).increment(1);
}

/// A dependency graph was asked for; making it took so long, unless it was there.
pub fn graph_loaded(source: GraphSource, making: Option<Duration>) {
    let source = match source {
        GraphSource::Memory => "memory",
        GraphSource::Patched => "patched",
        GraphSource::Snapshot => "snapshot",
        GraphSource::Built => "built",
    };
    counter!(GRAPHS, "source" => source).increment(1);
    if let Some(making) = making {
        histogram!(GRAPH_SECONDS, "source" => source).record(making.as_secs_f64());
    }
}

/// The statuses the service answers with; anything else is one value.
const fn status_label(status: u16) -> &'static str {
    match status {
        200 => "200",
        201 => "201",
        204 => "204",
        304 => "304",
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        405 => "405",
        406 => "406",
        408 => "408",
        409 => "409",
        413 => "413",
        415 => "415",
        422 => "422",
        423 => "423",
        429 => "429",
        500 => "500",
        503 => "503",
        507 => "507",
        _ => "other",
    }
}

/// Renders what was measured.
#[derive(Clone)]
pub struct MetricsHandle(PrometheusHandle);

impl MetricsHandle {
    /// Everything measured so far, in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Folds what histograms have gathered. To be called every few seconds, or memory grows between two scrapes.
    pub fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Starts measuring. There is one recorder for a process, so a second call gives the first one's handle.
///
/// # Errors
///
/// When something else in the process records already.
pub fn install_metrics() -> anyhow::Result<MetricsHandle> {
    static INSTALLED: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| install().map_err(|error| format!("{error:#}")));
    installed
        .clone()
        .map(MetricsHandle)
        .map_err(anyhow::Error::msg)
}

fn install() -> anyhow::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(HTTP_SECONDS.to_owned()), &SECONDS_BUCKETS)
        .and_then(|builder| {
            builder
                .set_buckets_for_metric(Matcher::Full(GRAPH_SECONDS.to_owned()), &SECONDS_BUCKETS)
        })
        .context("set the buckets of durations")?
        .build_recorder();
    let handle = recorder.handle();
    ::metrics::set_global_recorder(recorder)
        .map_err(|_| anyhow::anyhow!("another metrics recorder is installed in this process"))?;
    for &(name, kind, help) in METRICS {
        match kind {
            Kind::Counter => ::metrics::describe_counter!(name, help),
            Kind::Gauge => ::metrics::describe_gauge!(name, help),
            Kind::Histogram => ::metrics::describe_histogram!(name, help),
        }
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_rendered_with_its_help_and_closed_labels() {
        let handle = install_metrics().unwrap();
        assert!(
            install_metrics().is_ok(),
            "a second call finds the first recorder"
        );
        http_request_started();
        for status in 0..2000 {
            http_request_started();
            http_request_finished("test", LaneLabel::Api, status, Duration::from_millis(3));
        }
        handle.run_upkeep();
        let text = handle.render();
        assert!(text.contains("# HELP kl_http_requests_total Requests answered"));
        assert!(text.contains(r#"kl_http_requests_total{route="test",status="other"}"#));
        let series = text
            .lines()
            .filter(|line| line.starts_with("kl_http_requests_total{"))
            .count();
        assert!(series <= 25, "{series}");
    }
}
