//! `cargo xtask lint`: every check that reads the code without running it.

use anyhow::{Result, bail};
use clap::Args;
use tokio::process::Command;

use crate::host::foreground;
use crate::host::install::find_on_path;
use crate::host::workspace::Workspace;

/// Check formatting, clippy, dependencies (when cargo-deny is installed) and stray paths of a developer's machine.
///
/// All checks run, also after one failed.
#[derive(Args, Debug)]
pub(crate) struct LintArgs {}

pub(crate) async fn run(_: &LintArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let mut failed = Vec::new();
    for check in [
        Check::Paths,
        Check::Format,
        Check::Dependencies,
        Check::Clippy,
    ] {
        if let Err(error) = check.run(&workspace).await {
            eprintln!("xtask: {check:?}: {error:#}");
            failed.push(check);
        }
    }
    if failed.is_empty() {
        Ok(0)
    } else {
        bail!("lint failed: {failed:?}");
    }
}

/// The checks, cheapest first.
#[derive(Clone, Copy, Debug)]
enum Check {
    Paths,
    Format,
    Dependencies,
    Clippy,
}

impl Check {
    async fn run(self, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Paths => no_machine_paths(workspace).await,
            Self::Format => cargo_runs(workspace, &["fmt", "--all", "--check"]).await,
            Self::Dependencies => {
                if find_on_path("cargo-deny").is_none() {
                    eprintln!("xtask: cargo-deny is not installed; deny.toml is not checked");
                    return Ok(());
                }
                // Advisories need a database from the network; CI machines may have none.
                let checks = ["bans", "licenses", "sources"];
                cargo_runs(
                    workspace,
                    &[&["deny", "--locked", "check"], &checks[..]].concat(),
                )
                .await
            }
            Self::Clippy => {
                let line = "clippy --workspace --all-targets --locked -- -D warnings";
                cargo_runs(workspace, &line.split(' ').collect::<Vec<_>>()).await
            }
        }
    }
}

async fn cargo_runs(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let mut command = workspace.cargo();
    command
        .args(arguments)
        .env_remove("DATABASE_URL")
        .env("SQLX_OFFLINE", "true");
    foreground::run_checked(command).await
}

/// Directories that exist on some machine only, written so that this file does not match itself.
const MACHINE_PATHS: &str = "/[w]ork/|/[f]arm/|[.]library/|/[r]oot/[.]|/[h]ome/[a-z]|/[t]mp/wt/";

async fn no_machine_paths(workspace: &Workspace) -> Result<()> {
    let mut grep = Command::new("git");
    grep.args(["grep", "--untracked", "-nIE", MACHINE_PATHS, "--", "."])
        .arg(":!Cargo.lock")
        .current_dir(workspace.root());
    let shown = foreground::display(grep.as_std());
    match grep.status().await?.code() {
        Some(0) => bail!("the lines above name a path of somebody's machine"),
        Some(1) => Ok(()),
        _ => bail!("`{shown}` failed"),
    }
}
