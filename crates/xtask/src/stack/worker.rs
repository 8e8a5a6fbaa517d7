//! The archive worker of a stack.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::kld::{Settings, answers_ok};
use super::postgres::Postgres;
use super::scratch::Scratch;
use crate::host::ports::Ports;
use crate::host::process::{Process, StopWith};

/// The login role of workers: a member of the group role that may remove what a failed import has written.
pub(crate) const LOGIN_ROLE: &str = "archive_worker";

/// As with a replica: nobody needs what a throw-away one still has to do.
const STOP_WITH: StopWith = StopWith::Kill;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Process,
    metrics_url: String,
}

impl Worker {
    pub(crate) async fn start(
        settings: &Settings,
        postgres: &Postgres,
        scratch: &Scratch,
        ports: &mut Ports,
    ) -> Result<Self> {
        let address = format!("127.0.0.1:{}", ports.take()?);
        let mut work = settings.command_of("archive-worker");
        work.env("KL_METRICS_LISTEN", &address).env(
            "KL_DATABASE_URL",
            postgres.url(LOGIN_ROLE, super::kld::DATABASE),
        );
        let process = Process::spawn("archive-worker", work, STOP_WITH, scratch.path())?;
        let mut worker = Self {
            process,
            metrics_url: format!("http://{address}/metrics"),
        };
        let ready = format!("http://{address}/healthz");
        let client = reqwest::Client::new();
        worker
            .process
            .wait_until(READY_WITHIN, || answers_ok(&client, &ready))
            .await
            .context("archive-worker does not answer /healthz with 200")?;
        Ok(worker)
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn metrics_url(&self) -> &str {
        &self.metrics_url
    }
}
