//! The API replicas: building them, preparing their database, running them.

use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::databases::Databases;
use super::postgres::Postgres;
use super::scratch::Scratch;
use crate::host::foreground;
use crate::host::ports::Ports;
use crate::host::process::{Process, StopWith, supervised};
use crate::host::workspace::{Profile, Workspace};

/// The stack's database.
pub(crate) const DATABASE: &str = "kilolock";

/// The login role of the replicas: a member of the group role that the migrations create and grant to.
const LOGIN_ROLE: &str = "kld";

/// On SIGTERM a replica drains for seconds, so that balancers notice. Nobody needs what a throw-away one still has to say.
const STOP_WITH: StopWith = StopWith::Kill;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// Builds `kld`, `kl` and `archive-worker` with the features of the whole workspace, so that this and `cargo test --workspace` share
/// their dependencies.
pub(crate) async fn build(workspace: &Workspace, profile: Profile) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--workspace", "--bin", "kld", "--bin", "kl"]);
    build.args(["--bin", "archive-worker"]);
    if profile == Profile::Release {
        build.arg("--release");
    }
    foreground::run_checked(build).await
}

/// What all replicas of one stack share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    bin_dir: PathBuf,
    /// The program of the replicas.
    program: &'static str,
    environment: Vec<(&'static str, String)>,
}

impl Settings {
    /// `blobs`: where archives are kept, by the names that the services read.
    pub(crate) fn new(
        bin_dir: PathBuf,
        databases: &Databases,
        public_url: String,
        blobs: Vec<(&'static str, String)>,
    ) -> Self {
        let postgres = &databases.postgres;
        let mut settings = Self {
            bin_dir,
            program: "kld",
            environment: vec![
                ("KL_DATABASE_URL", postgres.url(LOGIN_ROLE, DATABASE)),
                ("KL_MIGRATE_DATABASE_URL", postgres.superuser_url(DATABASE)),
                ("KL_REDIS_URL", databases.redis.url()),
                ("KL_TOKEN_PEPPER", secret()),
                ("KL_DEPLOYMENT_KEY", secret()),
                ("KL_PUBLIC_URL", public_url),
            ],
        };
        settings.environment.extend(blobs);
        settings
    }

    fn command(&self) -> std::process::Command {
        self.command_of(self.program)
    }

    /// The same with another program for the replicas.
    pub(crate) fn running(mut self, program: &'static str) -> Self {
        self.program = program;
        self
    }

    /// The same with programs from another directory.
    pub(crate) fn in_dir(mut self, bin_dir: PathBuf) -> Self {
        self.bin_dir = bin_dir;
        self
    }

    /// The same with one setting more, or another value of it.
    pub(crate) fn with(mut self, key: &'static str, value: String) -> Self {
        self.environment.retain(|(known, _)| *known != key);
        self.environment.push((key, value));
        self
    }

    /// One of our programs, in the environment that all of them share.
    pub(crate) fn command_of(&self, program: &str) -> std::process::Command {
        let mut command = supervised(&self.bin_dir.join(program), None, STOP_WITH);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// A fresh 32-byte secret for this stack alone.
fn secret() -> String {
    BASE64_STANDARD.encode(rand::random::<[u8; 32]>())
}

/// Creates the stack's database, migrates it, and creates the roles that replicas and workers log in as.
pub(crate) async fn migrate(settings: &Settings, postgres: &Postgres) -> Result<()> {
    postgres
        .sql("postgres", &format!("create database {DATABASE}"))
        .await?;
    let mut migrate = settings.command();
    migrate.arg("migrate");
    foreground::output(migrate.into()).await?;
    // After the migrations: the first of them creates the group role.
    for (role, group) in [
        (LOGIN_ROLE, "kilolock_app"),
        (super::worker::LOGIN_ROLE, "kilolock_worker"),
    ] {
        let create_role = format!("create role {role} login in role {group}");
        postgres.sql(DATABASE, &create_role).await?;
    }
    Ok(())
}

/// Creates the first operator token. It is the only line on stdout.
pub(crate) async fn bootstrap(settings: &Settings) -> Result<String> {
    let mut bootstrap = settings.command();
    bootstrap.args(["admin", "bootstrap"]);
    let stdout = String::from_utf8(foreground::output(bootstrap.into()).await?)?;
    let token = stdout.trim();
    ensure!(
        !token.is_empty() && !token.contains(char::is_whitespace),
        "`kld admin bootstrap` should print the token and nothing else on stdout"
    );
    Ok(token.to_owned())
}

/// The two ports of one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    port: u16,
    metrics_port: u16,
}

impl Address {
    pub(crate) fn url(self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn metrics_url(self) -> String {
        format!("http://127.0.0.1:{}", self.metrics_port)
    }
}

pub(crate) fn take_addresses(ports: &mut Ports, replicas: NonZeroU8) -> Result<Vec<Address>> {
    (0..replicas.get())
        .map(|_| {
            Ok(Address {
                port: ports.take()?,
                metrics_port: ports.take()?,
            })
        })
        .collect()
}

/// A running replica.
#[derive(Debug)]
pub(crate) struct Replica {
    process: Process,
    address: Address,
    url: String,
}

impl Replica {
    pub(crate) async fn start(
        number: u8,
        address: Address,
        settings: &Settings,
        scratch: &Scratch,
    ) -> Result<Self> {
        Self::start_in(number, address, settings, scratch.path()).await
    }

    /// The same with its log in a directory.
    pub(crate) async fn start_in(
        number: u8,
        address: Address,
        settings: &Settings,
        logs: &Path,
    ) -> Result<Self> {
        let mut serve = settings.command();
        serve
            .arg("serve")
            .env("KL_LISTEN", format!("127.0.0.1:{}", address.port))
            .env(
                "KL_METRICS_LISTEN",
                format!("127.0.0.1:{}", address.metrics_port),
            );
        let name = format!("kld-{number}");
        let process = Process::spawn(&name, serve, STOP_WITH, logs)?;
        let mut replica = Self {
            process,
            address,
            url: address.url(),
        };
        let ready = format!("{}/readyz", replica.url);
        let client = reqwest::Client::new();
        replica
            .process
            .wait_until(READY_WITHIN, || answers_ok(&client, &ready))
            .await
            .with_context(|| format!("{name} does not answer /readyz with 200"))?;
        Ok(replica)
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn metrics_url(&self) -> String {
        format!("{}/metrics", self.address.metrics_url())
    }
}

pub(crate) async fn answers_ok(client: &reqwest::Client, url: &str) -> bool {
    let answer = client.get(url).timeout(Duration::from_secs(5)).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}
