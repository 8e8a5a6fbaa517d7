//! The configuration of an archive worker: the same keys as a replica's, as far as it needs them, and a few of its own.

use std::net::SocketAddr;
use std::time::Duration;

use secrecy::{SecretBox, SecretString};
use telemetry::LogFormat;

use super::{
    ArchiveConfig, ConfigError, DATABASE_FIX, Source, deployment_key, log_format, mistake,
};

/// The configuration of `archive-worker`.
#[derive(Debug)]
pub struct WorkerConfig {
    /// `KL_DATABASE_URL`: where the database is, with the worker's own role in it, a member of `kilolock_worker`.
    pub database_url: SecretString,
    /// `KL_DATABASE_POOL`: the largest number of database connections. 8.
    pub database_pool: u32,
    /// `KL_DEPLOYMENT_KEY`: the same as the replicas'.
    pub deployment_key: SecretBox<[u8; 32]>,
    /// `KL_BLOBS` and what belongs to it: the same as the replicas'.
    pub archives: ArchiveConfig,
    /// `KL_METRICS_LISTEN`: address and port of `/metrics` and `/healthz`. `127.0.0.1:9091`.
    pub metrics_listen: SocketAddr,
    /// `KL_WORKER_JOBS`: how many jobs are worked on at once. Each takes up to a quarter of a gigabyte, an import of large
    /// documents up to half of one. 1.
    pub jobs: usize,
    /// `KL_JOB_LEASE_SECONDS`: how long a job stays a worker's without a sign of life. 60.
    pub lease: Duration,
    /// `KL_JOB_ABANDONMENTS`: how many workers a job may outlive before it is given up. 20.
    pub abandonments: i32,
    /// `KL_LOG`: what is logged. `info`.
    pub log: String,
    /// `KL_LOG_FORMAT`: `json` or `text`. `json`.
    pub log_format: LogFormat,
    /// `KL_DRAIN_SECONDS`: how long jobs may take to finish after SIGTERM before they are given back. 30.
    pub drain: Duration,
}

impl WorkerConfig {
    /// Reads the configuration.
    ///
    /// # Errors
    ///
    /// The first key that is missing or wrong, with what to do about it.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let number = "write a whole number above 0";
        let deployment_key = deployment_key(source)?;
        let archives = ArchiveConfig::load(source, &deployment_key)?;
        if archives.blobs.is_none() {
            let fix = "write file:/an/absolute/path or s3://bucket, as for the replicas";
            return Err(mistake("blobs", "is not set", fix));
        }
        let lease = source.parse("job_lease_seconds", 60, number)?;
        let jobs = source.parse("worker_jobs", 1, number)?;
        if lease == 0 || jobs == 0 {
            return Err(mistake("job_lease_seconds", "or worker_jobs is 0", number));
        }
        Ok(Self {
            database_url: source.get_secret("database_url", DATABASE_FIX)?,
            database_pool: source.parse("database_pool", 8, number)?,
            deployment_key,
            archives,
            metrics_listen: source.parse(
                "metrics_listen",
                ([127, 0, 0, 1], 9091).into(),
                "write an address and a port, such as 0.0.0.0:9091",
            )?,
            jobs,
            lease: Duration::from_secs(lease),
            abandonments: source.parse("job_abandonments", 20, number)?,
            log: source.parse("log", "info".to_owned(), "write a level, such as info")?,
            log_format: log_format(source)?,
            drain: Duration::from_secs(source.parse("drain_seconds", 30, number)?),
        })
    }
}
