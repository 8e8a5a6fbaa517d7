//! A private Redis on a loopback port that keeps nothing on disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
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
    name: String,
    program: PathBuf,
    data: PathBuf,
    logs: PathBuf,
}

impl Redis {
    pub(crate) async fn start(scratch: &Scratch, ports: &mut Ports) -> Result<Self> {
        Self::start_as("redis", scratch, ports).await
    }

    /// Another one of the same scratch directory.
    pub(crate) async fn start_as(name: &str, scratch: &Scratch, ports: &mut Ports) -> Result<Self> {
        let program = find_on_path("redis-server").context("no `redis-server` on the path")?;
        let port = ports.take()?;
        let data = scratch.data_dir(name)?;
        let process = Process::spawn(
            name,
            server(&program, port, &data),
            StopWith::Terminate,
            scratch.path(),
        )?;
        let mut redis = Self {
            process,
            port,
            name: name.to_owned(),
            program,
            data,
            logs: scratch.path().to_owned(),
        };
        redis.wait_until_ready().await?;
        Ok(redis)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let port = self.port;
        self.process
            .wait_until(READY_WITHIN, || async {
                TcpStream::connect(("127.0.0.1", port)).await.is_ok()
            })
            .await
    }

    /// Kills it; it comes back empty after a while.
    pub(crate) async fn crash(&mut self, down: Duration) -> Result<()> {
        self.process.kill();
        tokio::time::sleep(down).await;
        let server = server(&self.program, self.port, &self.data);
        self.process = Process::spawn(&self.name, server, StopWith::Terminate, &self.logs)?;
        self.wait_until_ready().await
    }

    /// Sends one command as a person would type it; answers the first line of what comes back.
    pub(crate) async fn command(&self, command: &str) -> Result<String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let mut stream = BufReader::new(stream);
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        let mut line = String::new();
        tokio::time::timeout(READY_WITHIN, stream.read_line(&mut line)).await??;
        ensure!(!line.starts_with('-'), "`{command}`: {}", line.trim_end());
        Ok(line.trim_end().to_owned())
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
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
