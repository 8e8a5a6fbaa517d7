//! What history costs on disk.

use anyhow::{Context as _, Result};

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target};
use crate::stack::kld::DATABASE;
use crate::stack::postgres::Postgres;

pub(super) const NAMES: &[&str] = &["disk_100_versions_50mb"];

const VERSIONS: usize = 100;

/// Counts every table of the service with its indexes and TOAST, against what they took before anything was written.
/// The vacuum is the plain one that runs by itself on a server in use, not the one that rewrites the tables.
pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let postgres = &stack.databases.postgres;
    let before = size(postgres).await?;
    let mut document = bench.documents.of_megabytes(50).await?;
    let mut documents = 0;
    for round in 0..VERSIONS {
        if round > 0 {
            document = changed(&document, Change::one_percent(round))?;
        }
        documents += document.len() as u64;
        let posted = Posted::from(document.clone());
        let written = client.write("history", &posted, None).await;
        written.with_context(|| format!("version {}", round + 1))?;
    }
    postgres.sql(DATABASE, "vacuum").await?;
    let taken = size(postgres).await? - before;
    report.ratio(
        NAMES[0],
        taken as f64 / documents as f64,
        Target::AtMost(0.03),
        &format!("{taken} bytes ÷ {documents} bytes, {VERSIONS} versions"),
    );
    Ok(())
}

async fn size(postgres: &Postgres) -> Result<u64> {
    let tables = "select sum(pg_total_relation_size(relid)) from pg_stat_user_tables";
    Ok(postgres.sql(DATABASE, tables).await?.parse()?)
}
