//! The real terraform, in directories of its own. It must be on the path: what it does is the contract.

use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::stage::Client;

/// A root module whose state is in the service.
pub(crate) struct Module {
    pub(crate) directory: TempDir,
    pub(crate) url: String,
    pub(crate) token: String,
}

/// How a run ended.
pub(crate) struct Run {
    pub(crate) success: bool,
    pub(crate) text: String,
}

impl Module {
    /// Written and initialised.
    pub(crate) async fn new(client: &Client<'_>, name: &str, configuration: &str) -> Self {
        Self::at(client.url(name), client.token.clone(), configuration).await
    }

    /// The same with its state at any address.
    pub(crate) async fn at(url: String, token: String, configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let module = Self {
            directory,
            url,
            token,
        };
        module.configure(configuration);
        module.run(&["init", "-input=false"]).await.ok();
        module
    }

    pub(crate) fn configure(&self, configuration: &str) {
        let text = format!("terraform {{\n  backend \"http\" {{}}\n}}\n{configuration}\n");
        std::fs::write(self.directory.path().join("main.tf"), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("terraform");
        command
            .args(arguments)
            .current_dir(self.path())
            .env_remove("TF_CLI_CONFIG_FILE")
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_CLI_ARGS", "-no-color")
            .env("TF_HTTP_ADDRESS", &self.url)
            .env("TF_HTTP_LOCK_ADDRESS", &self.url)
            .env("TF_HTTP_UNLOCK_ADDRESS", &self.url)
            .env("TF_HTTP_USERNAME", "kl")
            .env("TF_HTTP_PASSWORD", &self.token)
            // Errors that are tried again are tried at once.
            .env("TF_HTTP_RETRY_WAIT_MIN", "0")
            .env("TF_HTTP_RETRY_WAIT_MAX", "1")
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Run {
        let output = self
            .command(arguments)
            .stdin(Stdio::null())
            .output()
            .await
            .expect("terraform is on the path");
        Run {
            success: output.status.success(),
            text: format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("terraform is on the path")
    }

    pub(crate) async fn apply(&self) -> Run {
        self.run(&["apply", "-auto-approve", "-input=false"]).await
    }
}

impl Run {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.success, "{}", self.text);
        self.text
    }

    #[track_caller]
    pub(crate) fn fails(self) -> String {
        assert!(!self.success, "{}", self.text);
        self.text
    }
}
