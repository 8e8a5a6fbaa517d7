//! A private Redis on a loopback port that keeps nothing on disk.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpStream;

use super::scratch::Scratch;
use crate::host::install::find_on_path;
use crate::host::ports::Ports;
use crate::host::process::{Process, StopWith, supervised};

const READY_WITHIN: Duration = Duration::from_secs(15);

/// A running server.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    pub(crate) async fn start(scratch: &Scratch, ports: &mut Ports) -> Result<Self> {
        let program = find_on_path("redis-server").context("no `redis-server` on the path")?;
        let port = ports.take()?;
        let data = scratch.data_dir("redis")?;
        let mut process = Process::spawn(
            "redis",
            server(&program, port, &data),
            StopWith::Terminate,
            scratch.path(),
        )?;
        process
            .wait_until(READY_WITHIN, || async {
                TcpStream::connect(("127.0.0.1", port)).await.is_ok()
            })
            .await?;
        Ok(Self { process, port })
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn server(program: &Path, port: u16, data: &Path) -> std::process::Command {
    let mut server = supervised(program, None, StopWith::Terminate);
    server
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(data);
    server
}
