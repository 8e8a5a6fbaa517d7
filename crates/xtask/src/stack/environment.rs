//! What a command finds in its environment when it runs in a stack. These names are a contract: scripts, tests and
//! benchmarks rely on them.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::Stack;
use super::kld::{DATABASE, Replica};
use crate::host::workspace::forget_cargo_run;

impl Stack {
    /// Prepares `command` to run in this stack. `bin_dir` goes first on its path, so that `kl` and `kld` are the ones
    /// just built.
    pub(crate) fn prepare(&self, command: &mut Command, bin_dir: &Path) -> Result<()> {
        command
            .envs(self.variables())
            .env("PATH", path_with(bin_dir)?);
        forget_cargo_run(command);
        calm_terraform(command);
        Ok(())
    }

    /// All `KL_STACK_…` variables.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let tenancy = &self.tenancy;
        let mut variables = vec![
            // What `kl` itself reads, so that it works in a shell of the stack.
            ("KL_SERVER", self.url().to_owned()),
            ("KL_WORKSPACE", tenancy.workspace.clone()),
            ("KL_ENVIRONMENT", tenancy.environment.clone()),
            ("KL_TOKEN", tenancy.writer_token.clone()),
            ("KL_STACK_URL", self.url().to_owned()),
            (
                "KL_STACK_REPLICA_URLS",
                joined(&self.replicas, |replica| replica.url().to_owned()),
            ),
            (
                "KL_STACK_METRICS_URLS",
                joined(&self.replicas, Replica::metrics_url),
            ),
            (
                "KL_STACK_WORKER_METRICS_URL",
                self.worker.metrics_url().to_owned(),
            ),
            (
                "KL_STACK_DATABASE_URL",
                self.databases.postgres.superuser_url(DATABASE),
            ),
            ("KL_STACK_REDIS_URL", self.databases.redis.url()),
            ("KL_STACK_WORKSPACE", tenancy.workspace.clone()),
            ("KL_STACK_ENV", tenancy.environment.clone()),
            ("KL_STACK_ENV2", tenancy.second_environment.clone()),
            ("KL_STACK_ADMIN_TOKEN", tenancy.admin_token.clone()),
            ("KL_STACK_TOKEN", tenancy.writer_token.clone()),
            ("KL_STACK_READER_TOKEN", tenancy.reader_token.clone()),
            ("KL_STACK_OTHER_WORKSPACE", tenancy.other_workspace.clone()),
            ("KL_STACK_OTHER_ENV", tenancy.other_environment.clone()),
            ("KL_STACK_OTHER_TOKEN", tenancy.other_writer_token.clone()),
            ("KL_STACK_OPERATOR_TOKEN", self.operator_token.clone()),
            (
                "KL_STACK_DIR",
                self.databases.scratch.path().display().to_string(),
            ),
            (
                "KL_STACK_PIDS",
                self.databases.scratch.pids_file().display().to_string(),
            ),
        ];
        variables.extend(self.s3.iter().flat_map(|s3| s3.environment()));
        variables
    }
}

fn joined(replicas: &[Replica], url: impl Fn(&Replica) -> String) -> String {
    replicas.iter().map(url).collect::<Vec<_>>().join(" ")
}

fn path_with(bin_dir: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(bin_dir.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(dirs).context("the build directory cannot be put on PATH")
}

/// Terraform should neither call home nor warn about a configuration file that somebody's environment names but that
/// does not exist.
pub(crate) fn calm_terraform(command: &mut Command) {
    command.env("CHECKPOINT_DISABLE", "1");
    if std::env::var_os("TF_CLI_CONFIG_FILE").is_some_and(|file| !Path::new(&file).exists()) {
        command.env_remove("TF_CLI_CONFIG_FILE");
    }
}
