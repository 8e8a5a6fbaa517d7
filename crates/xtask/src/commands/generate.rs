//! `cargo xtask gen`: every committed file that is generated from code.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use tokio::process::Command;

use super::sqlx::{self, Mode};
use crate::host::workspace::{Profile, Workspace};
use crate::stack::kld;

/// Regenerate the committed files that come from code: .sqlx, docs/openapi.json, docs/cli.md.
#[derive(Args, Debug)]
pub(crate) struct GenArgs {
    /// Change nothing; fail when a file is not what would be generated.
    #[arg(long)]
    check: bool,
}

/// A document that one of our programs prints.
struct Document {
    file: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const DOCUMENTS: [Document; 2] = [
    Document {
        file: "docs/openapi.json",
        program: "kld",
        arguments: &["openapi"],
    },
    Document {
        file: "docs/cli.md",
        program: "kl",
        arguments: &["reference"],
    },
];

pub(crate) async fn run(args: &GenArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let mode = Mode::from_check_flag(args.check);
    sqlx::prepare(&workspace, mode).await?;

    // After the query data: without it the programs do not compile.
    kld::build(&workspace, Profile::Debug).await?;
    let mut stale = Vec::new();
    for document in &DOCUMENTS {
        if document.refresh(&workspace, mode).await? == Freshness::Stale {
            stale.push(document.file);
        }
    }
    if !stale.is_empty() {
        bail!(
            "out of date: {}; run `cargo xtask gen` and commit",
            stale.join(", ")
        );
    }
    Ok(0)
}

#[derive(PartialEq, Eq)]
enum Freshness {
    Fresh,
    Stale,
}

impl Document {
    /// Prints the document and compares it with the committed file, or replaces that.
    async fn refresh(&self, workspace: &Workspace, mode: Mode) -> Result<Freshness> {
        let path = workspace.root().join(self.file);
        let committed = std::fs::read_to_string(&path).ok();
        let Some(printed) = self.print(workspace).await? else {
            // Losing a generator while its document stays would freeze the document unseen.
            if committed.is_some() {
                bail!(
                    "`{} {}` no longer exists",
                    self.program,
                    self.arguments.join(" ")
                );
            }
            eprintln!("xtask: {}: nothing generates it", self.file);
            return Ok(Freshness::Fresh);
        };
        if committed.as_deref() == Some(printed.as_str()) {
            eprintln!("xtask: {} is up to date", self.file);
            return Ok(Freshness::Fresh);
        }
        if mode == Mode::Check {
            return Ok(Freshness::Stale);
        }
        write(&path, &printed)?;
        eprintln!("xtask: {} written", self.file);
        Ok(Freshness::Fresh)
    }

    /// What the program prints; `None` when it does not know the command (clap's exit code 2).
    async fn print(&self, workspace: &Workspace) -> Result<Option<String>> {
        let program = workspace.bin_dir(Profile::Debug).join(self.program);
        let output = Command::new(&program)
            .args(self.arguments)
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("cannot run {}", program.display()))?;
        match output.status.code() {
            Some(0) if !output.stdout.is_empty() => Ok(Some(String::from_utf8(output.stdout)?)),
            Some(0 | 2) => Ok(None),
            _ => bail!(
                "`{} {}` failed: {}",
                self.program,
                self.arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
