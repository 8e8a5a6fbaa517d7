//! `kl`, run in a directory against one state of the stack.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::host::foreground::exit_code;
use crate::stack::environment::calm_terraform;
use crate::terraform::{Backend, Directory, Outcome};

/// Every command here ends within seconds unless somebody else has to come first; one that does not is a fault.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The program, and the state that it works on.
#[derive(Clone, Debug)]
pub(crate) struct Kl {
    pub(crate) program: PathBuf,
    pub(crate) backend: Backend,
}

impl Kl {
    /// `kl` with the words of a line, not yet started. Its output is piped.
    pub(crate) fn command(&self, directory: &Directory, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(line.split(' '))
            .current_dir(directory.path())
            .env("KL_STATE_URL", &self.backend.address)
            .env("KL_TOKEN", &self.backend.token)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        calm_terraform(&mut command);
        command
    }

    pub(crate) async fn run(&self, directory: &Directory, line: &str) -> Result<Outcome> {
        let output = tokio::time::timeout(PATIENCE, self.command(directory, line).output())
            .await
            .with_context(|| format!("`kl {line}` did not come to an end"))??;
        Ok(Outcome {
            code: exit_code(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
