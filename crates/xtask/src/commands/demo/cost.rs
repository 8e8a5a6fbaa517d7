//! What one changed resource costs in a large state, next to Terraform's own `pg` backend on the same Postgres.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::narrator::Narrator;
use crate::host::foreground;
use crate::host::workspace::Workspace;
use crate::stack::Stack;
use crate::stack::kld::DATABASE;
use crate::stack::postgres::Postgres;
use crate::terraform::{BACKEND, Directory, Terraform};

/// As many instances of the generated state as make 50 MB.
const INSTANCES: &str = "23000";

/// The database of the `pg` backend, in the same cluster.
const PG_DATABASE: &str = "terraform_pg";

const PG_BACKEND: &str = "terraform {\n  backend \"pg\" {}\n}\n";

/// What one write cost.
struct Cost {
    time: Duration,
    wal_bytes: u64,
}

pub(crate) async fn compare(
    narrator: &mut Narrator,
    terraform: &Terraform,
    stack: &Stack,
    workspace: &Workspace,
) -> Result<()> {
    narrator.chapter("One changed resource in a 50 MB state costs one row");
    let generator = workspace.shared_dir().join("corpus/gen_state.py");
    if !generator.exists() {
        narrator.say(&format!(
            "Left out: {} does not exist (set KL_SHARED_DIR).",
            generator.display()
        ));
        return Ok(());
    }
    let postgres = &stack.databases.postgres;
    let ours = terraform.directory(Some(stack.tenancy.writes(stack.url(), "large")))?;
    ours.write("backend.tf", BACKEND)?;
    let (our_first, our_second) = two_writes(&ours, postgres, &generator).await?;

    postgres
        .sql("postgres", &format!("create database {PG_DATABASE}"))
        .await?;
    let theirs = terraform.directory(None)?;
    theirs.write("backend.tf", PG_BACKEND)?;
    let theirs = theirs.with_variable(
        "PG_CONN_STR",
        format!("{}?sslmode=disable", postgres.superuser_url(PG_DATABASE)),
    );
    let (their_first, their_second) = two_writes(&theirs, postgres, &generator).await?;

    let rows = rows_changed(postgres).await?;
    narrator.say("`terraform state push` of the same two documents; WAL is what Postgres must write and ship:");
    println!();
    println!("                              first write              one resource changed");
    row(
        "Terraform's pg backend",
        &their_first,
        &their_second,
        "the whole document",
    );
    row(
        "Kilolock",
        &our_first,
        &our_second,
        &format!("{rows} of {INSTANCES} rows"),
    );
    println!();
    narrator.say("The times include terraform's own work on 50 MB, which is the same for both.");
    ensure!(rows == 1, "one changed resource cost {rows} rows");
    Ok(())
}

fn row(name: &str, first: &Cost, second: &Cost, written: &str) {
    println!(
        "   {name:<24} {:>6.1} s  {:>9}      {:>6.1} s  {:>9}   {written}",
        first.time.as_secs_f64(),
        megabytes(first.wal_bytes),
        second.time.as_secs_f64(),
        megabytes(second.wal_bytes),
    );
}

fn megabytes(bytes: u64) -> String {
    let hundredths = bytes / 10_000;
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}

/// Pushes the document, then the same with one resource changed.
async fn two_writes(
    directory: &Directory,
    postgres: &Postgres,
    generator: &Path,
) -> Result<(Cost, Cost)> {
    directory.run_ok(&["init"]).await?;
    let first = generate(directory, generator, "first.tfstate", &[]).await?;
    let first = push(directory, postgres, &first).await?;

    // Terraform gave the state a lineage of its own when it pushed into nothing.
    let head: Value = serde_json::from_str(&directory.run_ok(&["state", "pull"]).await?.stdout)?;
    let lineage = head["lineage"]
        .as_str()
        .context("a state without a lineage")?;
    let change = ["--mutate", "1", "--serial", "2", "--lineage", lineage];
    let second = generate(directory, generator, "second.tfstate", &change).await?;
    let second = push(directory, postgres, &second).await?;
    Ok((first, second))
}

async fn generate(
    directory: &Directory,
    generator: &Path,
    name: &str,
    more: &[&str],
) -> Result<PathBuf> {
    let path = directory.path().join(name);
    let mut python = Command::new("python3");
    python
        .arg(generator)
        .args(["--instances", INSTANCES, "--out"])
        .arg(&path)
        .args(more);
    foreground::output(python)
        .await
        .context("the large state is made by python3")?;
    Ok(path)
}

async fn push(directory: &Directory, postgres: &Postgres, document: &Path) -> Result<Cost> {
    let document = document.to_string_lossy();
    let before = wal_position(postgres).await?;
    let started = Instant::now();
    directory.run_ok(&["state", "push", &document]).await?;
    let time = started.elapsed();
    Ok(Cost {
        time,
        wal_bytes: wal_position(postgres).await? - before,
    })
}

/// How many bytes of WAL the cluster has written since it was created.
async fn wal_position(postgres: &Postgres) -> Result<u64> {
    let position = postgres
        .sql(
            "postgres",
            "select (pg_current_wal_insert_lsn() - '0/0')::bigint",
        )
        .await?;
    Ok(position.parse()?)
}

/// How many rows the newest version of the large state wrote.
async fn rows_changed(postgres: &Postgres) -> Result<u64> {
    let rows = postgres
        .sql(
            DATABASE,
            "select version.rows_changed from state_versions version
             join states state on state.id = version.state_id
             where state.name = 'large' order by version.seq desc limit 1",
        )
        .await?;
    Ok(rows.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_decimal_megabytes() {
        assert_eq!(megabytes(52_345_678), "52.34 MB");
        assert_eq!(megabytes(9_999), "0.00 MB");
        assert_eq!(megabytes(51_000), "0.05 MB");
    }
}
