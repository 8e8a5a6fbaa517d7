//! A private Postgres cluster on a loopback port.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::scratch::Scratch;
use crate::host::foreground;
use crate::host::install;
use crate::host::ports::Ports;
use crate::host::process::{Process, StopWith, supervised};

/// The superuser of the cluster. It has no password: only loopback is listened on, and the data lives for minutes.
const SUPERUSER: &str = "kl";

/// Postgres refuses to run as root. This system user is created for it when we are.
const UNPRIVILEGED_USER: &str = "kldev";

/// A cold start took 0.13 s; a machine that is busy building may need a hundred times that.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Whether a commit must survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing is flushed: three to ten times faster for many small databases. For tests.
    FsyncOff,
    /// A commit survives the death of every process, and not that of the machine.
    Process,
    /// Postgres's defaults. For figures that mean something.
    Durable,
}

impl Durability {
    pub(crate) fn from_durable_flag(durable: bool) -> Self {
        if durable {
            Self::Durable
        } else {
            Self::FsyncOff
        }
    }
}

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Postgres {
    process: Process,
    bin: PathBuf,
    port: u16,
    data: PathBuf,
    logs: PathBuf,
    user: Option<&'static str>,
    durability: Durability,
}

impl Postgres {
    pub(crate) async fn start(
        scratch: &Scratch,
        ports: &mut Ports,
        durability: Durability,
    ) -> Result<Self> {
        let bin = install::postgres_bin_dir().context("no `initdb` on this machine")?;
        let port = ports.take()?;
        let data = scratch.data_dir("postgres")?;
        let user = run_as(&data).await?;

        let mut initdb = supervised(&bin.join("initdb"), user, StopWith::Terminate);
        initdb
            .arg("-D")
            .arg(&data)
            .args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8"])
            .args(["--locale=C.UTF-8", "--no-sync"])
            .env("LC_ALL", "C.UTF-8")
            .current_dir("/");
        foreground::output(initdb.into()).await?;

        let mut postgres = Self {
            process: serve(&bin, user, port, durability, &data, scratch.path())?,
            bin,
            port,
            data,
            logs: scratch.path().to_owned(),
            user,
            durability,
        };
        postgres.wait_until_ready().await?;
        Ok(postgres)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let is_ready = self.bin.join("pg_isready");
        let port = self.port.to_string();
        self.process
            .wait_until(READY_WITHIN, || async {
                let mut probe = Command::new(&is_ready);
                probe.args(["-q", "-h", "127.0.0.1", "-p", &port]);
                foreground::output(probe).await.is_ok()
            })
            .await
    }

    /// A copy of the running cluster as it is now; answers the directory that holds it.
    pub(crate) async fn back_up(&self, scratch: &Scratch, name: &str) -> Result<PathBuf> {
        let copy = scratch.data_dir(name)?;
        run_as(&copy).await?;
        // Postgres insists that nobody else can read its directory.
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700))?;
        let program = self.bin.join("pg_basebackup");
        let mut backup = supervised(&program, self.user, StopWith::Terminate);
        backup
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-U", SUPERUSER, "-c", "fast", "-X", "stream", "-D"])
            .arg(&copy)
            .current_dir("/");
        foreground::output(backup.into()).await?;
        Ok(copy)
    }

    /// Ends the server at once and goes on, on the same port, from the copy in `data`.
    pub(crate) async fn restore(&mut self, scratch: &Scratch, data: &Path) -> Result<()> {
        self.process.stop();
        self.process = serve(
            &self.bin,
            self.user,
            self.port,
            self.durability,
            data,
            scratch.path(),
        )?;
        self.wait_until_ready().await
    }

    /// Ends it by an immediate shutdown, waits, and starts it again over the same data.
    pub(crate) async fn restart(&mut self, down: Duration) -> Result<()> {
        self.process.end_now().await;
        tokio::time::sleep(down).await;
        self.process = serve(
            &self.bin,
            self.user,
            self.port,
            self.durability,
            &self.data,
            &self.logs,
        )?;
        self.wait_until_ready().await
    }

    /// Starts the server again with `pg_stat_statements`, in this database.
    pub(crate) async fn count_statements(&mut self, database: &str) -> Result<()> {
        let preload = "alter system set shared_preload_libraries = 'pg_stat_statements'";
        self.sql("postgres", preload).await?;
        self.restart(Duration::ZERO).await?;
        self.sql(database, "create extension pg_stat_statements")
            .await
            .map(drop)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Connects as the superuser.
    pub(crate) fn superuser_url(&self, database: &str) -> String {
        self.url(SUPERUSER, database)
    }

    pub(crate) fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL as the superuser; answers what it selects, unaligned and without headers.
    pub(crate) async fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.psql(database);
        psql.args(["-c", sql]);
        let text = String::from_utf8(foreground::output(psql).await?)?;
        Ok(text.trim_end().to_owned())
    }

    /// Applies one migration as sqlx would: all of it or nothing, unless its first line opts out.
    pub(crate) async fn apply_migration(&self, database: &str, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let mut psql = self.psql(database);
        if !text.starts_with("-- no-transaction") {
            psql.arg("--single-transaction");
        }
        psql.arg("-f").arg(file);
        foreground::output(psql).await.map(drop)
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.superuser_url(database))
            // Notices ("role exists already, skipping") are noise here.
            .env("PGOPTIONS", "-c client_min_messages=warning");
        psql
    }
}

/// Starts a server on `data`.
fn serve(
    bin: &Path,
    user: Option<&str>,
    port: u16,
    durability: Durability,
    data: &Path,
    logs: &Path,
) -> Result<Process> {
    let mut server = supervised(&bin.join("postgres"), user, StopWith::Quit);
    server.arg("-D").arg(data).current_dir("/");
    for setting in settings(port, durability) {
        server.args(["-c", &setting]);
    }
    Process::spawn("postgres", server, StopWith::Quit, logs)
}

/// The user that Postgres runs as; when it is not ours, `data` is handed to it.
async fn run_as(data: &Path) -> Result<Option<&'static str>> {
    if !install::is_root() {
        return Ok(None);
    }
    let mut lookup = Command::new("id");
    lookup.args(["-u", UNPRIVILEGED_USER]);
    if foreground::output(lookup).await.is_err() {
        let mut create = Command::new("useradd");
        create.args(["--system", "--no-create-home", UNPRIVILEGED_USER]);
        foreground::output(create).await?;
    }
    let mut chown = Command::new("chown");
    chown.arg(format!("{UNPRIVILEGED_USER}:")).arg(data);
    foreground::output(chown).await?;
    Ok(Some(UNPRIVILEGED_USER))
}

fn settings(port: u16, durability: Durability) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        // No socket file: its path would have to stay under about 100 bytes, and TMPDIR may be long.
        "unix_socket_directories=".to_owned(),
        "shared_buffers=256MB".to_owned(),
        // As many tests run at once as there are cores, and the replicas of one may open some sixty.
        "max_connections=1000".to_owned(),
    ];
    let off: &[&str] = match durability {
        Durability::FsyncOff => &["fsync", "synchronous_commit", "full_page_writes"],
        // A commit still waits until the operating system has it.
        Durability::Process => &["fsync", "full_page_writes"],
        Durability::Durable => &[],
    };
    settings.extend(off.iter().map(|name| format!("{name}=off")));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_throw_away_cluster_skips_flushing() {
        let fast = settings(5432, Durability::FsyncOff);
        assert!(fast.contains(&"fsync=off".to_owned()));
        let process = settings(5432, Durability::Process);
        assert!(
            process
                .iter()
                .all(|setting| !setting.starts_with("synchronous_commit"))
        );
        let durable = settings(5432, Durability::Durable);
        assert!(durable.iter().all(|setting| !setting.ends_with("=off")));
        assert!(durable.contains(&"port=5432".to_owned()));
    }
}
