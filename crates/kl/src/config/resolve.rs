//! Laying the sources over one another.

use std::path::PathBuf;
use std::time::Duration;

use protocol::{EnvironmentId, StateName, WorkspaceId};

use super::values::{Confirm, Fallback, Protocol, Span};
use super::{
    CredentialSource, Layer, Origin, Server, Settings, Sourced, StateAddress, StateRef,
    Surroundings, environment, file, terraform,
};
use crate::failure::Result;

/// What the command line says about where to go. Values are parsed already.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) state_url: Option<StateAddress>,
    pub(crate) server: Option<Server>,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) environment: Option<EnvironmentId>,
    pub(crate) state: Option<StateName>,
    /// The state given without a flag.
    pub(crate) argument: Option<StateRef>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) token_file: Option<PathBuf>,
    /// Leave `.kl.toml` out: it is about to be replaced.
    pub(crate) ignore_file: bool,
}

/// Resolves every setting.
///
/// # Errors
/// Usage failures, each naming the flag, variable or line that is wrong. That something is missing
/// is no error here: the command that needs it says so.
pub(crate) fn resolve(asked: Asked, surroundings: &Surroundings) -> Result<Settings> {
    let file = if asked.ignore_file {
        Layer::default()
    } else {
        file::read(surroundings)?
    };
    let said = from_command_line(asked, surroundings)?
        .over(environment::read(surroundings)?)
        .over(file);
    // Terraform's files are looked at only where something is open: they may be broken, and then
    // the user should not hear of it from a command that did not need them.
    let terraform = if said.is_complete() {
        terraform::Found::default()
    } else {
        terraform::read(surroundings)
    };
    Ok(settle(said.over(terraform.layer), terraform.notes))
}

fn from_command_line(asked: Asked, surroundings: &Surroundings) -> Result<Layer> {
    let token_file = asked
        .token_file
        .map(|path| CredentialSource::File(surroundings.directory.join(path)));
    let mut layer = Layer {
        server: flag(asked.server, "--server"),
        workspace: flag(asked.workspace, "--workspace"),
        environment: flag(asked.environment, "--environment"),
        state: flag(asked.state, "--state"),
        protocol: flag(asked.protocol, "--protocol"),
        credential: flag(token_file, "--token-file"),
        ..Layer::default()
    };
    if let Some(address) = asked.state_url {
        layer = layer.and(Layer::of_state(address, &Origin::Flag("--state-url")))?;
    }
    match asked.argument {
        None => Ok(layer),
        Some(StateRef::Url(address)) => layer.and(Layer::of_state(address, &Origin::Argument)),
        Some(StateRef::Path {
            workspace,
            environment,
            state,
        }) => {
            let named = Layer {
                state: Some(Sourced::new(state, Origin::Argument)),
                environment: environment.map(|value| Sourced::new(value, Origin::Argument)),
                workspace: workspace.map(|value| Sourced::new(value, Origin::Argument)),
                ..Layer::default()
            };
            layer.and(named)
        }
    }
}

fn flag<T>(value: Option<T>, name: &'static str) -> Option<Sourced<T>> {
    value.map(|value| Sourced::new(value, Origin::Flag(name)))
}

fn settle(layer: Layer, mut notes: Vec<String>) -> Settings {
    /// Long enough for an ordinary apply of somebody else to end, short enough for a CI job.
    const WAIT: Span = Span(Duration::from_secs(600));

    let server = layer.server.as_ref().map(|found| &found.value);
    let credential = layer.credential.filter(|found| {
        let CredentialSource::BackendPassword {
            server: Some(theirs),
            ..
        } = &found.value
        else {
            return true;
        };
        let ours = server.is_none_or(|server| server == theirs);
        if !ours {
            notes.push(format!(
                "the password from {} belongs to {theirs} and is not sent anywhere else",
                found.origin
            ));
        }
        ours
    });
    Settings {
        server: layer.server,
        workspace: layer.workspace,
        environment: layer.environment,
        state: layer.state,
        protocol: layer.protocol.unwrap_or(Sourced::default(Protocol::Auto)),
        credential,
        wait: layer.wait.unwrap_or(Sourced::default(WAIT)),
        confirm: layer.confirm.unwrap_or(Sourced::default(Confirm::Destroy)),
        fallback: layer.fallback.unwrap_or(Sourced::default(Fallback::Ask)),
        iac_binary: layer
            .iac_binary
            .unwrap_or_else(|| Sourced::default("terraform".to_owned())),
        notes,
    }
}
