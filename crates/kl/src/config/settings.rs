//! The resolved settings, and asking them for what a command cannot do without.

use protocol::{EnvironmentId, StateName, WorkspaceId};

use super::values::{Confirm, Fallback, Protocol, Span};
use super::{CredentialSource, Server, Sourced};
use crate::failure::{Failure, Result};

/// Every setting with its origin. What has no default is `None` until somebody says it.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) server: Option<Sourced<Server>>,
    pub(crate) workspace: Option<Sourced<WorkspaceId>>,
    pub(crate) environment: Option<Sourced<EnvironmentId>>,
    pub(crate) state: Option<Sourced<StateName>>,
    pub(crate) protocol: Sourced<Protocol>,
    pub(crate) credential: Option<Sourced<CredentialSource>>,
    pub(crate) wait: Sourced<Span>,
    pub(crate) confirm: Sourced<Confirm>,
    pub(crate) fallback: Sourced<Fallback>,
    pub(crate) iac_binary: Sourced<String>,
    /// What was found and could not be used, one sentence each.
    pub(crate) notes: Vec<String>,
}

impl Settings {
    pub(crate) fn server(&self) -> Result<&Server> {
        self.need(self.server.as_ref(), "server")
    }

    /// The workspace where it has to be configured: everywhere else the token's own will do.
    pub(crate) fn workspace(&self) -> Result<&WorkspaceId> {
        self.need(self.workspace.as_ref(), "workspace")
    }

    pub(crate) fn environment(&self) -> Result<&EnvironmentId> {
        self.need(self.environment.as_ref(), "environment")
    }

    pub(crate) fn state(&self) -> Result<&StateName> {
        self.need(self.state.as_ref(), "state")
    }

    /// A setting that the command cannot do without. What was found and was of no use is told as
    /// the cause of its absence.
    fn need<'a, T>(&self, setting: Option<&'a Sourced<T>>, what: &str) -> Result<&'a T> {
        setting.map(|found| &found.value).ok_or_else(|| {
            let problem = format!(
                "no {what} is configured: not by flag, environment, .kl.toml or Terraform backend"
            );
            let failure = match self.notes.split_first() {
                None => Failure::usage(problem),
                Some((note, more)) => more
                    .iter()
                    .fold(Failure::usage(note.clone()), |failure, note| {
                        failure.context(note)
                    })
                    .context(problem),
            };
            failure.hint(format!(
                "run `kl init --state-url URL` once, or give `--state-url` or `--{what}`"
            ))
        })
    }
}
