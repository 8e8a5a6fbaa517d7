//! The real terraform, run in directories of its own against a state of the stack.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::host::foreground::exit_code;
use crate::host::install::find_on_path;
use crate::stack::environment::calm_terraform;

/// The program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Terraform {
    program: PathBuf,
}

/// One state behind the http backend, and who reads and writes it.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    /// `…/v1/states/{workspace}/{environment}/{name}`.
    pub(crate) address: String,
    pub(crate) token: String,
}

/// The backend block of every directory here: the rest comes from `TF_HTTP_…`, see [`Directory::command`].
pub(crate) const BACKEND: &str = "terraform {\n  backend \"http\" {}\n}\n";

/// How one run of terraform ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Terraform {
    pub(crate) fn find() -> Result<Self> {
        let program = find_on_path("terraform").context(
            "this drives the real terraform, which is not on the path; get it from \
             https://developer.hashicorp.com/terraform/install",
        )?;
        Ok(Self { program })
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A new, empty directory in which terraform keeps its state in `backend`, or locally when there is none.
    pub(crate) fn directory(&self, backend: Option<Backend>) -> Result<Directory> {
        Ok(Directory {
            terraform: self.clone(),
            backend,
            variables: Vec::new(),
            dir: tempfile::Builder::new().prefix("klterraform.").tempdir()?,
        })
    }
}

/// A root module on disk.
#[derive(Debug)]
pub(crate) struct Directory {
    terraform: Terraform,
    backend: Option<Backend>,
    variables: Vec<(&'static str, String)>,
    dir: TempDir,
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        std::fs::write(self.path().join(file), text).with_context(|| format!("cannot write {file}"))
    }

    pub(crate) fn remove(&self, file: &str) -> Result<()> {
        std::fs::remove_file(self.path().join(file))
            .with_context(|| format!("cannot remove {file}"))
    }

    /// From now on the http backend, where the configuration names it, means this state.
    pub(crate) fn use_backend(&mut self, backend: Backend) {
        self.backend = Some(backend);
    }

    /// One more environment variable for every run in this directory.
    pub(crate) fn with_variable(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        self.run_with_input(arguments, "").await
    }

    /// Like [`Self::run`]; an unwanted ending is an error with terraform's own words.
    pub(crate) async fn run_ok(&self, arguments: &[&str]) -> Result<Outcome> {
        let outcome = self.run(arguments).await?;
        ensure!(
            outcome.code == 0,
            "`terraform {}` ended with {}:\n{}",
            arguments.join(" "),
            outcome.code,
            outcome.stderr
        );
        Ok(outcome)
    }

    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<Outcome> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start terraform")?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that reads nothing may be gone already.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        Ok(Outcome {
            code: exit_code(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// terraform in this directory, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.terraform.program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_CLI_ARGS", "-no-color")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true);
        calm_terraform(&mut command);
        if let Some(backend) = &self.backend {
            // The lock lives at the state's own address, by the methods LOCK and UNLOCK.
            for variable in [
                "TF_HTTP_ADDRESS",
                "TF_HTTP_LOCK_ADDRESS",
                "TF_HTTP_UNLOCK_ADDRESS",
            ] {
                command.env(variable, &backend.address);
            }
            command
                .env("TF_HTTP_USERNAME", "token")
                .env("TF_HTTP_PASSWORD", &backend.token);
        }
        command
    }
}
