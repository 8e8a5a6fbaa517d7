//! What each command does: library calls on the client, then one result for the printer.

mod addresses;
mod completions;
mod config;
mod environments;
mod history;
mod import;
mod init;
mod list;
mod pages;
mod pull;
mod reference;
mod rollback;
mod show;
mod status;
mod tokens;
mod unlock;
mod version_ref;
mod whoami;

use chrono::{DateTime, Utc};

use crate::cli::{Command, ImportCommand, StateCommand};
use crate::client::Client;
use crate::config::{Server, Settings, StateAddress, Surroundings, credential};
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// What every command works with. The clock was read once, when the program started.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) surroundings: Surroundings,
    pub(crate) printer: Printer,
    pub(crate) now: DateTime<Utc>,
}

impl Context {
    /// A client for the configured server, with the token fetched.
    fn client(&self) -> Result<Client> {
        let server = self.settings.server()?;
        let credential = self
            .settings
            .credential
            .as_ref()
            .map(|source| credential::fetch(source, &self.surroundings))
            .transpose()?;
        if credential.is_some() {
            self.warn_of_clear_text(server);
        }
        Client::new(server.clone(), credential)
    }

    /// A client that shows no token, for what needs none.
    fn anonymous_client(&self) -> Result<Client> {
        let server = self.settings.server()?;
        self.warn_of_clear_text(server);
        Client::new(server.clone(), None)
    }

    fn warn_of_clear_text(&self, server: &Server) {
        if server.is_clear_text_over_network() {
            self.printer.warning(&format!(
                "{server} is not https: the token and the state cross the network in clear text"
            ));
        }
    }

    fn state(&self) -> Result<StateAddress> {
        self.settings.state()
    }
}

/// Runs a command that needs no settings, if it is one.
pub(crate) fn run_offline(command: &Command, printer: Printer) -> Option<Result<()>> {
    match command {
        Command::Completions { shell } => Some(completions::run(*shell, printer)),
        Command::Version => Some(completions::version(printer)),
        Command::Reference => Some(reference::run(printer)),
        _ => None,
    }
}

/// Runs a command.
pub(crate) async fn run(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Init(args) => init::run(args, context).await,
        Command::Config => config::run(context),
        Command::Whoami => whoami::run(context).await,
        Command::List(args) if args.is_bare() => list::states(context).await,
        Command::Status(_) => status::run(context).await,
        Command::History(args) => history::run(args, context).await,
        Command::Pull(args) | Command::State(StateCommand::Pull(args)) => {
            pull::run(args, context).await
        }
        Command::Show(args) | Command::State(StateCommand::Show(args)) => {
            show::run(args, context).await
        }
        Command::List(args) | Command::State(StateCommand::List(args)) => {
            list::addresses(args, context).await
        }
        Command::Import(ImportCommand::Snapshot(args)) => import::run(args, context).await,
        Command::Rollback(args) => rollback::run(args, context).await,
        Command::Unlock(args) => unlock::run(args, context).await,
        Command::Environment(command) => environments::run(command, context).await,
        Command::Token(command) => tokens::run(command, context).await,
        Command::Completions { .. } | Command::Version | Command::Reference => {
            Err(Failure::usage("this command takes no settings"))
        }
    }
}
