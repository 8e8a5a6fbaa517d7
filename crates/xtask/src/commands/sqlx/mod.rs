//! `cargo xtask sqlx`: the offline data of sqlx's `query!` macros, without sqlx-cli.
//!
//! The macros ask a database about each query while the store crate is compiled, and write one file per query into
//! `SQLX_OFFLINE_DIR`. So: start a database, apply the migrations, compile, and compare the files with `.sqlx`.
//! The migrations are applied as plain SQL files, because `kld migrate` cannot be built before this has run.

mod compile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::host::install::{self, Tool};
use crate::host::ports::Ports;
use crate::host::workspace::Workspace;
use crate::stack::postgres::{Durability, Postgres};
use crate::stack::scratch::Scratch;

/// Regenerate the offline query data in .sqlx.
///
/// Needed after a change to a query or a migration. It compiles the workspace against a throw-away Postgres with all
/// migrations applied. Only the store crate has to compile; what builds on it may be broken.
#[derive(Args, Debug)]
pub(crate) struct SqlxArgs {
    /// Change nothing; fail when .sqlx is not what would be generated.
    #[arg(long)]
    check: bool,
}

const DATABASE: &str = "queries";

/// sqlx's own record of applied migrations, as its migrator creates it before the first one: queries read it.
const SQLX_MIGRATIONS: &str = "
    create table _sqlx_migrations (
        version bigint primary key,
        description text not null,
        installed_on timestamptz not null default now(),
        success boolean not null,
        checksum bytea not null,
        execution_time bigint not null
    )";

pub(crate) async fn run(args: &SqlxArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    prepare(&workspace, Mode::from_check_flag(args.check)).await?;
    Ok(0)
}

/// Whether generated files are written or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Check,
}

impl Mode {
    pub(crate) fn from_check_flag(check: bool) -> Self {
        if check { Self::Check } else { Self::Write }
    }
}

pub(crate) async fn prepare(workspace: &Workspace, mode: Mode) -> Result<()> {
    install::ensure(&[Tool::Postgres]).await?;
    let scratch = Scratch::create()?;
    let postgres = Postgres::start(&scratch, &mut Ports::default(), Durability::FsyncOff).await?;
    migrate(workspace, &postgres).await?;

    let generated = scratch.data_dir("sqlx")?;
    compile::with_live_queries(workspace, &postgres.superuser_url(DATABASE), &generated).await?;

    let committed = workspace.root().join(".sqlx");
    let (old, new) = (read_files(&committed)?, read_files(&generated)?);
    let changes = changes(&old, &new);
    if changes.is_empty() {
        eprintln!("xtask: .sqlx is up to date ({} queries)", new.len());
        return Ok(());
    }
    for (change, name) in &changes {
        eprintln!("xtask: .sqlx/{name}: {change:?}");
    }
    if mode == Mode::Check {
        bail!(".sqlx is out of date; run `cargo xtask sqlx` and commit it");
    }
    std::fs::create_dir_all(&committed)?;
    for (change, name) in changes {
        let path = committed.join(name);
        match change {
            Change::Stale => std::fs::remove_file(&path),
            Change::New | Change::Different => std::fs::write(&path, &new[name]),
        }
        .with_context(|| format!("cannot update {}", path.display()))?;
    }
    Ok(())
}

async fn migrate(workspace: &Workspace, postgres: &Postgres) -> Result<()> {
    postgres
        .sql("postgres", &format!("create database {DATABASE}"))
        .await?;
    postgres.sql(DATABASE, SQLX_MIGRATIONS).await?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(workspace.root().join("migrations"))
        .context("cannot read migrations/")?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    // Their names begin with the time they were written.
    files.sort();
    for file in files {
        postgres.apply_migration(DATABASE, &file).await?;
    }
    Ok(())
}

/// How a committed file differs from the generated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    New,
    Different,
    Stale,
}

type Files = BTreeMap<String, Vec<u8>>;

fn read_files(dir: &Path) -> Result<Files> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(Files::new());
    };
    entries
        .map(|entry| {
            let entry = entry?;
            let content = std::fs::read(entry.path())?;
            Ok((entry.file_name().to_string_lossy().into_owned(), content))
        })
        .collect()
}

fn changes<'a>(old: &'a Files, new: &'a Files) -> Vec<(Change, &'a String)> {
    let stale = old
        .keys()
        .filter(|name| !new.contains_key(*name))
        .map(|name| (Change::Stale, name));
    let written = new
        .iter()
        .filter_map(|(name, content)| match old.get(name) {
            None => Some((Change::New, name)),
            Some(before) if before != content => Some((Change::Different, name)),
            Some(_) => None,
        });
    stale.chain(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Files {
        pairs
            .iter()
            .map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn stale_new_and_different_files_are_told_apart() {
        let old = files(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let new = files(&[("b", "1"), ("c", "2"), ("d", "1")]);
        let found: Vec<_> = changes(&old, &new)
            .into_iter()
            .map(|(change, name)| (change, name.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (Change::Stale, "a"),
                (Change::Different, "c"),
                (Change::New, "d")
            ]
        );
        assert!(changes(&old, &old).is_empty());
    }
}
