//! Where am I? Every setting, resolved once, each with its origin.
//!
//! Sources, strongest first: flags and arguments, the environment, the nearest `.kl.toml` upward,
//! and what Terraform itself is configured to use. Each source is a module here that fills a
//! [`Layer`]; [`resolve`](resolve::resolve) lays them over one another into [`Settings`]. Commands
//! read settings and nothing else: no command looks at a flag twice, at the environment or at a
//! configuration file.

pub(crate) mod address;
mod backend_block;
pub(crate) mod credential;
mod environment;
pub(crate) mod file;
mod git;
mod initialised_backend;
mod origin;
mod resolve;
mod settings;
mod state_ref;
mod terraform;
pub(crate) mod values;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use protocol::{EnvironmentId, StateName, WorkspaceId};

pub(crate) use self::address::{Server, StateAddress};
pub(crate) use self::backend_block::{BackendKind, kind as backend_kind};
pub(crate) use self::credential::{Credential, CredentialSource};
pub(crate) use self::origin::{Origin, Sourced};
pub(crate) use self::resolve::{Asked, resolve};
pub(crate) use self::settings::Settings;
pub(crate) use self::state_ref::StateRef;
use self::values::{Confirm, Fallback, Protocol, Span};
use crate::failure::{Failure, Result};

/// What the process was started in: read once in `main`, so that resolving is a plain function.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) directory: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl Surroundings {
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        Ok(Self {
            directory: std::env::current_dir()?,
            variables: std::env::vars_os().collect(),
        })
    }

    /// A variable's text. One that is empty or not UTF-8 counts as not set, as in Terraform.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables
            .iter()
            .find(|(key, _)| key == OsStr::new(name))
            .and_then(|(_, value)| value.to_str())
            .filter(|value| !value.is_empty())
    }

    /// `user@host`, as others see who holds what.
    pub(crate) fn who(&self) -> String {
        let user = self.variable("USER").or(self.variable("USERNAME"));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = host
            .as_deref()
            .map(str::trim)
            .or(self.variable("COMPUTERNAME"));
        format!(
            "{}@{}",
            user.unwrap_or("unknown"),
            host.unwrap_or("unknown")
        )
    }

    /// Terraform's data directory, relative to the working directory unless it is absolute.
    pub(crate) fn terraform_data_dir(&self) -> &Path {
        Path::new(self.variable("TF_DATA_DIR").unwrap_or(".terraform"))
    }

    /// A path as people read it: relative where it lies below the working directory.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.directory)
            .map_or_else(|_| path.to_owned(), Path::to_owned)
    }

    /// A path from a setting: `~/` is the home directory, the rest is relative to `base`.
    fn expand(&self, path: &str, base: &Path) -> PathBuf {
        match (path.strip_prefix("~/"), self.variable("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => base.join(path),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(directory: &Path, variables: &[(&str, &str)]) -> Self {
        Self {
            directory: directory.to_owned(),
            variables: variables
                .iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }
}

/// What one source says. A source that names a whole state fills the first four.
#[derive(Debug, Clone, Default)]
struct Layer {
    server: Option<Sourced<Server>>,
    workspace: Option<Sourced<WorkspaceId>>,
    environment: Option<Sourced<EnvironmentId>>,
    state: Option<Sourced<StateName>>,
    protocol: Option<Sourced<Protocol>>,
    credential: Option<Sourced<CredentialSource>>,
    wait: Option<Sourced<Span>>,
    confirm: Option<Sourced<Confirm>>,
    fallback: Option<Sourced<Fallback>>,
    iac_binary: Option<Sourced<String>>,
}

impl Layer {
    /// A layer that says exactly which state.
    fn of_state(address: StateAddress, origin: &Origin) -> Self {
        Self {
            server: Some(Sourced::new(address.server, origin.clone())),
            workspace: Some(Sourced::new(address.workspace, origin.clone())),
            environment: Some(Sourced::new(address.environment, origin.clone())),
            state: Some(Sourced::new(address.state, origin.clone())),
            ..Self::default()
        }
    }

    /// This layer, with the gaps filled from a weaker one.
    fn over(self, weaker: Self) -> Self {
        Self {
            server: self.server.or(weaker.server),
            workspace: self.workspace.or(weaker.workspace),
            environment: self.environment.or(weaker.environment),
            state: self.state.or(weaker.state),
            protocol: self.protocol.or(weaker.protocol),
            credential: self.credential.or(weaker.credential),
            wait: self.wait.or(weaker.wait),
            confirm: self.confirm.or(weaker.confirm),
            fallback: self.fallback.or(weaker.fallback),
            iac_binary: self.iac_binary.or(weaker.iac_binary),
        }
    }

    /// Puts two things said in one source together. They may overlap, but not contradict each other.
    fn and(self, other: Self) -> Result<Self> {
        fn same<T: PartialEq>(
            first: &Option<Sourced<T>>,
            second: &Option<Sourced<T>>,
            what: &str,
        ) -> Result<()> {
            match (first, second) {
                (Some(first), Some(second)) if first.value != second.value => {
                    Err(Failure::usage(format!(
                        "{} and {} name two different {what}s",
                        first.origin, second.origin
                    )))
                }
                _ => Ok(()),
            }
        }
        same(&self.server, &other.server, "server")?;
        same(&self.workspace, &other.workspace, "workspace")?;
        same(&self.environment, &other.environment, "environment")?;
        same(&self.state, &other.state, "state")?;
        Ok(other.over(self))
    }

    /// Whether where to go and how to prove who is asking are both known.
    fn is_complete(&self) -> bool {
        self.server.is_some()
            && self.workspace.is_some()
            && self.environment.is_some()
            && self.state.is_some()
            && self.credential.is_some()
    }
}
