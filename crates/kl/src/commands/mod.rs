//! What each command does: library calls on the client, then one result for the printer.

mod abort;
mod addresses;
mod archive;
mod audit;
mod completions;
mod config;
mod diff;
mod environments;
mod graph;
mod history;
mod import;
mod init;
mod jobs;
mod list;
mod members;
mod operations;
mod pages;
mod pull;
mod recover;
mod reference;
mod rollback;
mod runs;
mod show;
mod status;
mod tags;
mod tokens;
mod transfer;
mod undelete;
mod unlock;
mod version_ref;
mod watch;
mod whoami;
mod why;
mod work;

use chrono::{DateTime, Utc};
use protocol::WorkspaceId;

use crate::cli::{ApplyCommand, Command, ExportCommand, ImportCommand, StateCommand};
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
        Client::new(server.clone(), credential, self.printer)
    }

    /// A client that shows no token, for what needs none.
    fn anonymous_client(&self) -> Result<Client> {
        let server = self.settings.server()?;
        self.warn_of_clear_text(server);
        Client::new(server.clone(), None, self.printer)
    }

    fn warn_of_clear_text(&self, server: &Server) {
        if server.is_clear_text_over_network() {
            self.printer.warning(&format!(
                "{server} is not https: the token and the state cross the network in clear text"
            ));
        }
    }

    /// The workspace: as configured, else the one the token belongs to.
    async fn workspace(&self, client: &Client) -> Result<WorkspaceId> {
        if let Some(configured) = &self.settings.workspace {
            return Ok(configured.value.clone());
        }
        match client.get_caller().await?.workspace {
            Some(workspace) => Ok(workspace),
            // An operator's token has none, and then the settings are to blame.
            None => self.settings.workspace().cloned(),
        }
    }

    /// The state the command is about.
    async fn state(&self, client: &Client) -> Result<StateAddress> {
        // What only the user can say comes first, so that its absence costs no request.
        let environment = self.settings.environment()?.clone();
        let state = self.settings.state()?.clone();
        Ok(StateAddress {
            server: client.server().clone(),
            workspace: self.workspace(client).await?,
            environment,
            state,
        })
    }
}

/// Runs a command that needs no settings, if it is one.
pub(crate) fn run_offline(command: &Command, printer: Printer) -> Option<Result<()>> {
    match command {
        Command::Completions { shell } => Some(completions::run(*shell, printer)),
        Command::Version => Some(completions::version(printer)),
        Command::Reference => Some(reference::run(printer)),
        Command::Archive(command) => Some(archive::run(command, printer)),
        _ => None,
    }
}

/// Runs a command.
pub(crate) async fn run(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Plan(args) => work::plan(args, context).await,
        Command::Apply(args) => match args.command {
            Some(ApplyCommand::Abort(args)) => abort::run(args, context).await,
            None => work::apply(args, context).await,
        },
        Command::Recover(args) => recover::run(args, context).await,
        Command::Run(command) => runs::run(command, context).await,
        Command::Why(args) => why::run(args, context).await,
        Command::Graph(args) => graph::run(args, context).await,
        Command::Init(args) => init::run(args, context).await,
        Command::Config => config::run(context),
        Command::Whoami => whoami::run(context).await,
        Command::List(args) if args.is_bare() => list::states(context).await,
        Command::Status(args) => status::run(args, context).await,
        Command::History(args) => history::run(args, context).await,
        Command::Diff(args) => diff::run(args, context).await,
        Command::Pull(args) | Command::State(StateCommand::Pull(args)) => {
            pull::run(args, context).await
        }
        Command::Show(args) | Command::State(StateCommand::Show(args)) => {
            show::run(args, context).await
        }
        Command::List(args) | Command::State(StateCommand::List(args)) => {
            list::addresses(args, context).await
        }
        Command::State(StateCommand::Rm(args)) => operations::remove(args, context).await,
        Command::State(StateCommand::Mv(args)) => operations::relocate(args, context).await,
        Command::Import(ImportCommand::Snapshot(args)) => import::run(args, context).await,
        Command::Import(ImportCommand::Archive(args)) => transfer::import(args, context).await,
        Command::Export(ExportCommand::State(args)) => transfer::export(args, context).await,
        Command::Jobs(args) => jobs::run(args, context).await,
        Command::Tag(command) => tags::run(command, context).await,
        Command::Rollback(args) => rollback::run(args, context).await,
        Command::Unlock(args) => unlock::run(args, context).await,
        Command::Environment(command) => environments::run(command, context).await,
        Command::Token(command) => tokens::run(command, context).await,
        Command::Member(command) => members::run(command, context).await,
        Command::Audit(args) => audit::run(args, context).await,
        Command::Undelete(args) => undelete::run(args, context).await,
        Command::Completions { .. }
        | Command::Version
        | Command::Reference
        | Command::Archive(_) => Err(Failure::usage("this command takes no settings")),
    }
}
