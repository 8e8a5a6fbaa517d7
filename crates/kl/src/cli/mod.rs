//! The command line: what can be typed, and nothing about what it does.
//!
//! Every command's help ends with one example that works and names the shape of its `--json`.
//! Words and habits are Terraform's: single-dash long flags (`-json`) are accepted too, see
//! [`argv`]. To add a command: a variant here, a module in `commands`, a line in `run`.

mod archive;
pub(crate) mod argv;
mod state;
mod tenancy;
mod transfer;
mod work;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use protocol::{EnvironmentId, StateName, WorkspaceId};

pub(crate) use self::archive::{ArchiveCommand, DiffArgs, ExtractArgs, FileArgs, VerifyArgs};
pub(crate) use self::state::{
    HistoryArgs, ImportCommand, InitArgs, ListArgs, PullArgs, RollbackArgs, ShowArgs, SnapshotArgs,
    StateArgs, StateCommand, StateMvArgs, StateRmArgs, StatusArgs, UndeleteArgs, UnlockArgs,
    VersionDiffArgs,
};
pub(crate) use self::tenancy::{
    AuditArgs, EnvironmentCommand, EnvironmentCreateArgs, EnvironmentSetArgs, MemberCommand,
    MemberCreateArgs, MemberSetArgs, TokenCommand, TokenCreateArgs, TokenRevokeArgs,
};
pub(crate) use self::transfer::{
    ExportArgs, ExportCommand, ImportArchiveArgs, JobsArgs, TagCommand, TagSetArgs, TagUnsetArgs,
};
pub(crate) use self::work::{
    AbortArgs, ApplyArgs, ApplyCommand, GraphArgs, GraphFormat, PlanArgs, RecoverArgs,
    RunBeginArgs, RunCommand, RunEndArgs, RunStatusArgs, ScopeArgs, TerraformArgs, WhyArgs,
};
use crate::config::address::{environment_id, state_name, workspace_id};
use crate::config::values::Protocol;
use crate::config::{Asked, Server, StateAddress, StateRef};
use crate::secret::Secret;

/// Terraform states, kept by Kilolock: locked, versioned, and shared without queues.
#[derive(Debug, Parser)]
#[command(
    name = "kl",
    version,
    max_term_width = 80,
    disable_help_subcommand = false,
    propagate_version = false,
    after_help = "\
Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 somebody else
holds the state; 4 the scope cannot be proven; 5 not authorised; 6 unreachable.",
    after_long_help = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  somebody else holds the state
  4  the scope of a run cannot be proven and no fallback is allowed
  5  not authorised
  6  the server is unreachable or cannot serve now"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command, accepted in any position.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// The whole address of a state, as in a backend block.
    #[arg(long, global = true, value_name = "URL", help_heading = "Where",
          conflicts_with_all = ["server", "workspace", "environment", "state"])]
    state_url: Option<StateAddress>,

    /// The server, such as https://api.example.com.
    #[arg(long, global = true, value_name = "URL", help_heading = "Where")]
    server: Option<Server>,

    /// The workspace's id.
    #[arg(long, global = true, value_name = "WS", help_heading = "Where", value_parser = workspace_id)]
    workspace: Option<WorkspaceId>,

    /// The environment's id.
    #[arg(long, visible_alias = "env", global = true, value_name = "ENV", help_heading = "Where",
          value_parser = environment_id)]
    environment: Option<EnvironmentId>,

    /// The state's name.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Where", value_parser = state_name)]
    state: Option<StateName>,

    /// Which protocol to work through: auto, http or kl.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Where")]
    protocol: Option<Protocol>,

    /// Read the token from this file; KL_TOKEN is the other way.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Where")]
    token_file: Option<PathBuf>,

    /// Refused with an explanation: a flag shows in process lists and shell histories.
    #[arg(long, global = true, hide = true, value_name = "TOKEN", num_args = 0..=1,
          value_parser = secret)]
    token: Option<Option<Secret>>,

    /// Act as if started in this directory.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Output and behaviour"
    )]
    pub(crate) chdir: Option<PathBuf>,

    /// Print the result as JSON.
    #[arg(long, global = true, help_heading = "Output and behaviour")]
    pub(crate) json: bool,

    /// Print the result and errors only.
    #[arg(long, short, global = true, help_heading = "Output and behaviour")]
    pub(crate) quiet: bool,
}

/// Takes any text for a secret; the parser never fails, so clap never repeats it.
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl GlobalArgs {
    /// Whether somebody tried to pass the token itself.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// What was said about where to go, together with a command's positional state.
    pub(crate) fn asked(self, argument: Option<StateRef>) -> Asked {
        Asked {
            state_url: self.state_url,
            server: self.server,
            workspace: self.workspace,
            environment: self.environment,
            state: self.state,
            argument,
            protocol: self.protocol,
            token_file: self.token_file,
            ignore_file: false,
        }
    }
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Plan what is selected with the real Terraform, on its slice of the state.
    Plan(PlanArgs),
    /// Apply what is selected, or a plan; others work on the rest meanwhile.
    Apply(ApplyArgs),
    /// Show and take over what was uploaded too late or beyond its scope.
    Recover(RecoverArgs),
    /// A run for another tool that runs Terraform: begin, status, end.
    #[command(subcommand)]
    Run(RunCommand),
    /// Show who stands in the way of an address, and for how long.
    Why(WhyArgs),
    /// Show what a resource depends on, and what depends on it.
    Graph(GraphArgs),
    /// Write .kl.toml, print the backend block, test the connection.
    Init(InitArgs),
    /// Show every setting and where it comes from.
    ///
    /// Sources, strongest first: flags, environment variables, the nearest .kl.toml from here
    /// upward, and what Terraform is configured to use here (the initialised backend, then the
    /// backend "http" block, then TF_HTTP_ADDRESS and TF_HTTP_PASSWORD). Secrets are masked.
    #[command(after_help = "\
Example: kl config

Keys of .kl.toml: state_url, or server, workspace, environment, state; protocol;
[auth] token_env, token_file or token_command; [scope] wait, confirm, fallback,
iac_binary.

JSON: an object of settings, each {\"value\", \"origin\"}; value is null when unset.")]
    Config,
    /// Show who the token belongs to and what it may do.
    #[command(after_help = "Example: kl whoami\n\nJSON: `WhoAmI` of the API.")]
    Whoami,
    /// List the states of the environment, or what is in one state.
    #[command(
        visible_alias = "ls",
        override_usage = "kl list [OPTIONS]\n       kl list [OPTIONS] STATE [ADDRESS]...",
        after_help = "\
Example: kl list

With a state it is `kl state list`: the addresses inside.

JSON: {\"states\": [`StateSummary` of the API, …]}; with a state as `kl state list`."
    )]
    List(ListArgs),
    /// Show a state's newest version, who holds it, and what is under way.
    #[command(after_help = "\
Example: kl status prod

JSON: `StateStatus` of the API, with \"runs\": [`Run` of the API, …] that are under
way, the newest first. With --watch a line for each event: {\"event\": NAME,
\"data\"}, with `StandingEvent`, `Version` or `RunEvent` of the API.")]
    Status(StatusArgs),
    /// List a state's versions, newest first.
    History(HistoryArgs),
    /// List the addresses that differ between two versions.
    Diff(VersionDiffArgs),
    /// Write out a state's document, byte for byte.
    Pull(PullArgs),
    /// Show one resource of a state.
    Show(ShowArgs),
    /// Look into a state: list, show, pull.
    #[command(subcommand)]
    State(StateCommand),
    /// Bring a state in.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Take a state out, with its history.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Exports and imports: list, follow, cancel, download.
    Jobs(JobsArgs),
    /// Names for versions.
    #[command(subcommand)]
    Tag(TagCommand),
    /// Archive files: verify, show, extract, compare. Needs no server.
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Make an old version current again; a preview unless --apply is given.
    Rollback(RollbackArgs),
    /// Break a lock that somebody left behind.
    #[command(visible_alias = "force-unlock")]
    Unlock(UnlockArgs),
    /// Bring a deleted state back.
    Undelete(UndeleteArgs),
    /// Environments of the workspace.
    #[command(subcommand, name = "env", visible_alias = "environment")]
    Environment(EnvironmentCommand),
    /// Tokens of the workspace.
    #[command(subcommand)]
    Token(TokenCommand),
    /// People and services of the workspace, and what they may do.
    #[command(subcommand)]
    Member(MemberCommand),
    /// Show what was changed or revealed in the workspace, newest first.
    Audit(AuditArgs),
    /// Print the completion script of a shell.
    #[command(after_help = "Example: kl completions bash > /etc/bash_completion.d/kl")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the version.
    #[command(after_help = "Example: kl version\n\nJSON: {\"version\"}.")]
    Version,
    /// Print the reference of every command as Markdown.
    #[command(hide = true)]
    Reference,
}

impl Command {
    /// The state that was named without a flag.
    pub(crate) fn state_argument(&self) -> Option<StateRef> {
        match self {
            Self::Init(args) => args.argument.clone(),
            Self::Status(args) => args.state.argument.clone(),
            Self::History(args) => args.state.argument.clone(),
            Self::Pull(args) | Self::State(StateCommand::Pull(args)) => args.state.argument.clone(),
            Self::Show(args) | Self::State(StateCommand::Show(args)) => args.state(),
            Self::List(args) | Self::State(StateCommand::List(args)) => args.state(),
            Self::State(StateCommand::Rm(args)) => args.state(),
            Self::State(StateCommand::Mv(args)) => args.state(),
            Self::Import(ImportCommand::Snapshot(args)) => args.state.argument.clone(),
            Self::Export(ExportCommand::State(args)) => args.state.argument.clone(),
            Self::Tag(TagCommand::Set(args)) => args.state.argument.clone(),
            Self::Tag(TagCommand::List(args)) => args.argument.clone(),
            Self::Tag(TagCommand::Unset(args)) => args.state.argument.clone(),
            Self::Rollback(args) => args.state.argument.clone(),
            Self::Unlock(args) => args.state.argument.clone(),
            Self::Undelete(args) => args.state.argument.clone(),
            Self::Diff(args) => args.state.argument.clone(),
            Self::Recover(args) => args.state.argument.clone(),
            _ => None,
        }
    }
}
