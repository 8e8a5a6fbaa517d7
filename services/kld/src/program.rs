//! The `kld` program: parses the command line and calls what it names.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use protocol::{PrincipalId, WorkspaceId};

use crate::commands::admin::Admin;
use crate::commands::{audit, serve};
use crate::config::{self, Source};
use crate::{openapi, routes};

/// The Kilolock API service.
#[derive(Parser)]
#[command(name = "kld", version, about)]
struct Cli {
    /// A TOML file with settings; the environment wins over it.
    #[arg(long, global = true, env = "KL_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API until SIGTERM.
    Serve,
    /// Bring the database up to date, as the owner of its tables.
    Migrate,
    /// Finish the restore of the database from a backup: end what was held, leap over what may have been given away.
    RestoreFinish,
    /// Make operators, workspaces and tokens without a running service.
    #[command(subcommand)]
    Admin(AdminCommand),
    /// The audit log.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Print the OpenAPI document.
    Openapi,
    /// Print the version.
    Version,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Follow the chain through the log of every workspace, and find what was changed, taken out or cut off.
    Verify {
        /// Only this workspace.
        #[arg(long)]
        workspace: Option<WorkspaceId>,
    },
}

#[derive(Subcommand)]
enum AdminCommand {
    /// Make the first operator and print its token, this once.
    Bootstrap,
    /// Workspaces.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Tokens.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Subcommand)]
enum WorkspaceCommand {
    /// Make a workspace with its first admin, and print ids and the admin's token as JSON.
    Create {
        /// The workspace's name.
        name: String,
        /// The admin's name for people, such as an e-mail address.
        #[arg(long)]
        admin: String,
    },
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token of a member and print it, this once.
    Create {
        /// The workspace.
        #[arg(long)]
        workspace: WorkspaceId,
        /// The member.
        #[arg(long)]
        principal: PrincipalId,
        /// After how many days it ends.
        #[arg(long, default_value_t = 90)]
        days: u16,
    },
    /// Make another operator and print its token, this once.
    CreateOperator {
        /// The operator's name for people.
        #[arg(long)]
        display: String,
    },
}

/// Runs the command that the command line names.
pub async fn main() -> ExitCode {
    // The first thing of all: without a provider, opening a TLS connection panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let source = || Source::of_process(cli.config.as_deref());
    match cli.command {
        Command::Serve => serve::run(&source()?).await,
        Command::Migrate => {
            let url = config::migrate_database_url(&source()?)?;
            let version = store::schema::migrate(&url).await?;
            print(&format!("the schema is at version {version}"))
        }
        Command::Audit(AuditCommand::Verify { workspace }) => {
            print(&audit::verify(&source()?, workspace).await?)
        }
        Command::RestoreFinish => print(&Admin::connect(&source()?).await?.finish_restore().await?),
        Command::Admin(command) => admin(&Admin::connect(&source()?).await?, command).await,
        Command::Openapi => {
            let document = openapi::to_json(&routes::table())?;
            print(document.trim_end())
        }
        Command::Version => print(&format!(
            "kld {} (schema {})",
            env!("CARGO_PKG_VERSION"),
            store::schema::wanted_version()
        )),
    }
}

async fn admin(admin: &Admin, command: AdminCommand) -> anyhow::Result<()> {
    match command {
        AdminCommand::Bootstrap => print(&admin.bootstrap().await?),
        AdminCommand::Workspace(WorkspaceCommand::Create {
            name,
            admin: display,
        }) => {
            let made = admin.create_workspace(&name, &display).await?;
            let json = serde_json::json!({
                "workspace": made.id,
                "admin": made.admin,
                "token": made.token,
            });
            print(&json.to_string())
        }
        AdminCommand::Token(TokenCommand::Create {
            workspace,
            principal,
            days,
        }) => print(&admin.create_token(&workspace, &principal, days).await?),
        AdminCommand::Token(TokenCommand::CreateOperator { display }) => {
            print(&admin.create_operator(&display).await?)
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("standard output cannot be written to")
}
