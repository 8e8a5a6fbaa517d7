//! A directory of its own to run `kl` in, and what came out of it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::Done;

/// The address most tests use. Nothing listens on port 1 of this machine.
pub(crate) const URL: &str = "http://127.0.0.1:1/v1/states/ws_0123456789ab/env_0123456789ab/prod";

/// A project directory inside an otherwise empty world.
pub(crate) struct Sealed {
    root: TempDir,
    variables: Vec<(String, String)>,
}

impl Sealed {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("project")).unwrap();
        Self {
            root,
            variables: Vec::new(),
        }
    }

    /// The directory `kl` starts in.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.path().join("project")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub(crate) fn file(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A `.kl.toml` that names the usual state.
    pub(crate) fn configured(self) -> Self {
        self.file(".kl.toml", format!("state_url = \"{URL}\"\n"))
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.root.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables.iter().map(|(key, value)| (key, value)))
            .current_dir(self.directory())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn kl_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(assert_cmd::cargo::cargo_bin!("kl"));
        command.args(arguments);
        command
    }

    pub(crate) fn kl(&self, arguments: &[&str]) -> Done {
        Done(self.kl_command(arguments).output().unwrap())
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let done = self.command("git").args(arguments).output().unwrap();
        assert!(done.status.success(), "git {arguments:?}: {done:?}");
    }

    /// One setting as `kl config --json` shows it: value and origin.
    pub(crate) fn setting(&self, name: &str, arguments: &[&str]) -> (String, String) {
        let mut all = vec!["config", "--json"];
        all.extend(arguments);
        let done = self.kl(&all).expect(0);
        let view: serde_json::Value = serde_json::from_str(&done.stdout()).unwrap();
        let text = |part: &str| view[name][part].as_str().unwrap_or("-").to_owned();
        (text("value"), text("origin"))
    }
}
