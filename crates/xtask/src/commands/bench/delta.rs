//! Committing one changed address of a state through a run: neither time nor WAL may grow with the state.
//!
//! Each state has a run on one resource; what is measured is a whole upload of its slice over HTTP. The two states take
//! turns. The resources are alike and depend on nothing, so that both slices have the same size.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::Bench;
use super::client::{Client, RunClient};
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target, median, ms};
use crate::stack::postgres::Postgres;

pub(super) const NAMES: &[&str] = &[
    "one_address_delta_100k_to_1k",
    "one_address_delta_wal_100k_to_1k",
];

const ROUNDS: usize = 25;
/// Uploads before anything counts: every connection of the pool must have prepared its statements.
const WARMING: usize = 40;
/// What real instances weigh, roughly, in bytes.
const PADDING: usize = 2_000;

/// A run on one resource of a state, and what its Terraform knows.
struct OneAddress {
    run: RunClient,
    slice: Vec<u8>,
    took: Vec<f64>,
    wal: Vec<f64>,
}

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let mut small = OneAddress::begin(&client, "small", 1_000).await?;
    let mut large = OneAddress::begin(&client, "large", 100_000).await?;
    for _ in 0..WARMING {
        small.upload().await?;
    }
    let postgres = &stack.databases.postgres;
    // Full-page images after a checkpoint would count for whoever comes first.
    postgres.sql("postgres", "checkpoint").await?;
    small.upload().await?;
    large.upload().await?;
    for _ in 0..ROUNDS {
        small.measured(postgres).await?;
        large.measured(postgres).await?;
    }
    for (name, bound, unit, large, small) in [
        (NAMES[0], 1.5, "ms", &large.took, &small.took),
        (NAMES[1], 1.2, "bytes", &large.wal, &small.wal),
    ] {
        let (large, small) = (median(large), median(small));
        report.ratio(
            name,
            large / small,
            Target::AtMost(bound),
            &format!("{large:.2} {unit} ÷ {small:.2} {unit}, p50 of {ROUNDS}"),
        );
    }
    Ok(())
}

impl OneAddress {
    async fn begin(client: &Client, state: &str, instances: usize) -> Result<Self> {
        client
            .write(state, &Posted::from(document(instances)), None)
            .await?;
        let block = "terraform_data.r000500";
        let scope = json!({
            "write": [block],
            "configuration": { "nodes": [{ "address": block, "repetition": "single" }], "calls": [] },
        });
        let run = client.begin_run(state, scope).await?;
        run.lock("bench").await?;
        let slice = run.read().await?.to_vec();
        ensure!(slice.len() < 10_000, "the slice is more than one resource");
        Ok(Self {
            run,
            slice,
            took: Vec::new(),
            wal: Vec::new(),
        })
    }

    async fn upload(&mut self) -> Result<()> {
        self.slice = changed(&self.slice, Change::one(0))?;
        self.run.upload("bench", self.slice.clone()).await
    }

    async fn measured(&mut self, postgres: &Postgres) -> Result<()> {
        let before = wal(postgres).await?;
        let began = Instant::now();
        self.upload().await?;
        self.took.push(ms(began.elapsed()));
        self.wal.push(wal(postgres).await? - before);
        Ok(())
    }
}

/// A state of so many resources that depend on nothing.
fn document(instances: usize) -> Vec<u8> {
    let mut text = String::from(
        "{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": 1,\n  \
         \"lineage\": \"3f0c5a1e-0000-4000-8000-00000000be9c\",\n  \"outputs\": {},\n  \"resources\": [",
    );
    let padding = "x".repeat(PADDING);
    for number in 0..instances {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        _ = write!(
            text,
            "{comma}\n    {{\n      \"mode\": \"managed\",\n      \"type\": \"terraform_data\",\n      \
             \"name\": \"r{number:06}\",\n      \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \
             \"instances\": [\n        {{\n          \"schema_version\": 0,\n          \"attributes\": {{\n            \
             \"input\": \"0{padding}\",\n            \"id\": \"id-{number}\"\n          }},\n          \
             \"sensitive_attributes\": []\n        }}\n      ]\n    }}"
        );
    }
    text.push_str("\n  ],\n  \"check_results\": null\n}\n");
    text.into_bytes()
}

/// How many bytes of WAL the cluster has written.
async fn wal(postgres: &Postgres) -> Result<f64> {
    let position = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(postgres.sql("postgres", position).await?.parse()?)
}
