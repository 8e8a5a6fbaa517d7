//! Whole documents of 50 MB through the service, next to the same documents as one text value each.
//!
//! The two sides take turns within the run. Ours is the whole POST or GET over loopback HTTP, with the Content-MD5 that
//! Terraform sends; theirs is the one statement of the `pg` backend, on a connection that is open already.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target, median, ms};
use super::text_value::TextValues;
use crate::stack::kld::DATABASE;
use crate::stack::postgres::Postgres;

pub(super) const NAMES: &[&str] = &[
    "first_write_50mb",
    "snapshot_write_50mb_1pct",
    "full_read_50mb",
    "one_instance_50mb_wal",
];

const FIRST_WRITES: usize = 3;
const PAIRS: usize = 7;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let (client, mut values) = (Client::new(&stack), TextValues::create(&stack).await?);
    let mut document = bench.documents.of_megabytes(50).await?;

    let first = Posted::from(document.clone());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..FIRST_WRITES {
        let name = format!("large-{round}");
        theirs.push(ms(values.write(&name, &document).await?));
        ours.push(ms(client.write(&name, &first, None).await?.took));
    }
    ratio(report, NAMES[0], 2.5, &ours, &theirs);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..PAIRS {
        document = changed(&document, Change::one_percent(round))?;
        let posted = Posted::from(document.clone());
        theirs.push(ms(values.write("large-0", &document).await?));
        ours.push(ms(client.write("large-0", &posted, None).await?.took));
    }
    ratio(report, NAMES[1], 0.6, &ours, &theirs);

    ensure!(
        client.read("large-0").await? == document,
        "not the bytes that were written"
    );
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let (took, size) = values.read("large-0").await?;
        ensure!(size == document.len(), "the text value is another");
        theirs.push(ms(took));
        let began = Instant::now();
        ensure!(
            client.drain("large-0").await? == size,
            "the document is another"
        );
        ours.push(ms(began.elapsed()));
    }
    ratio(report, NAMES[2], 2.0, &ours, &theirs);

    let postgres = &stack.databases.postgres;
    document = changed(&document, Change::one(500))?;
    let posted = Posted::from(document.clone());
    let before = wal(postgres).await?;
    client.write("large-0", &posted, None).await?;
    let ours = wal(postgres).await? - before;
    let rows = postgres
        .sql(
            DATABASE,
            "select rows_changed from state_versions order by created_at desc limit 1",
        )
        .await?;
    let before = wal(postgres).await?;
    values.write("large-0", &document).await?;
    let theirs = wal(postgres).await? - before;
    report.note(
        NAMES[3],
        &format!("{rows} row changed, {ours} bytes of WAL; the text value: {theirs} bytes of WAL"),
    );
    Ok(())
}

fn ratio(report: &Report, name: &str, bound: f64, ours: &[f64], theirs: &[f64]) {
    let (mine, other) = (median(ours), median(theirs));
    report.ratio(
        name,
        mine / other,
        Target::AtMost(bound),
        &format!("{mine:.0} ms ÷ {other:.0} ms, medians of {}", ours.len()),
    );
}

/// How many bytes of WAL the cluster has written.
async fn wal(postgres: &Postgres) -> Result<u64> {
    let position = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(postgres.sql("postgres", position).await?.parse()?)
}
