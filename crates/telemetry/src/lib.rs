//! Logs and metrics: how they are set up, which fields and names there are.
//!
//! Both are closed lists. A log line carries only fields named in [`log`]'s allow-list, so that a token or a document
//! that ends up in some field by mistake goes nowhere. A metric has only labels made from enums here, so that no
//! request can grow a time series.

pub mod log;
mod metrics;

pub use crate::log::{Chain, LogFormat};
pub use crate::metrics::{
    AuthRefusal, GraphSource, JobEnding, LaneLabel, MetricsHandle, RetryReason, VerdictSource,
    auth_refused, graph_loaded, http_panicked, http_request_finished, http_request_started,
    install_metrics, job_ended, job_queue, job_started, snapshot_refused, store_connections,
    store_retry, verdict_resolved, watched_state_looked_at, watcher_came, watcher_left,
};
