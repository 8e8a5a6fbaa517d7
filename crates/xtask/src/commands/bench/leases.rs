//! What those cost the database who hold and wait: renewals of many leases, and polls of a request that cannot be served.
//!
//! Statements are counted by Postgres itself (`pg_stat_statements`). The clients renew as the protocol has it, each once in
//! 20 seconds and none at the same moment as another. A poll that is blocked must lock nothing: whoever waits would
//! otherwise stand in the way of those who finish.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use super::Bench;
use super::client::Client;
use super::documents::Posted;
use super::report::{Report, Target};
use crate::stack::Stack;
use crate::stack::kld::DATABASE;

pub(super) const NAMES: &[&str] = &[
    "renewal_statements_per_second_of_1000_leases",
    "lock_statements_per_blocked_poll",
];

const STATE: &str = "leases";
const LEASES: usize = 1_000;
const RENEW_EVERY: Duration = Duration::from_secs(20);
const MEASURED: Duration = Duration::from_secs(40);
const WAITERS: usize = 20;
/// How long each waiter waits in one request.
const WAIT_SECONDS: u32 = 12;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let mut stack = bench.stack_of(2).await?;
    stack.databases.postgres.count_statements(DATABASE).await?;
    let client = Client::new(&stack);
    client
        .write(STATE, &Posted::from(document()?), None)
        .await?;
    let mut holders = JoinSet::new();
    for number in 0..LEASES {
        let run = hold(&client, number).await?;
        // Evenly spread, so that what is counted is what comes in any while.
        let phase = RENEW_EVERY.mul_f64(number as f64 / LEASES as f64);
        holders.spawn(renew(client.clone(), run, phase));
    }
    // The first of them are renewed by now, and connections are made.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, began) = (renewals(&stack).await?, Instant::now());
    tokio::time::sleep(MEASURED).await;
    let (after, took) = (renewals(&stack).await?, began.elapsed().as_secs_f64());
    let statements = after.calls - before.calls;
    let renewed = after.rows - before.rows;
    ensure!(
        renewed >= 0.9 * LEASES as f64 * took / RENEW_EVERY.as_secs_f64(),
        "only {renewed} leases were renewed in {took:.0} s"
    );
    holders.abort_all();
    report.ratio(
        NAMES[0],
        statements / took,
        Target::AtMost(20.0),
        &format!(
            "{statements} statements renewed {renewed} leases in {took:.0} s, on two replicas"
        ),
    );
    blocked(&stack, &client, report).await
}

/// Requests that wait for what the first lease holds.
async fn blocked(stack: &Stack, client: &Client, report: &Report) -> Result<()> {
    let before = [locks(stack).await?, all(stack).await?];
    let mut waiters = JoinSet::new();
    for number in 0..WAITERS {
        let client = client.clone();
        waiters.spawn(async move {
            client
                .wait_for(STATE, &address(0), number, WAIT_SECONDS)
                .await
        });
    }
    while let Some(waited) = waiters.join_next().await {
        waited??;
    }
    let after = [locks(stack).await?, all(stack).await?];
    let locked = after[0].calls - before[0].calls;
    report.ratio(
        NAMES[1],
        locked / WAITERS as f64,
        Target::AtMost(0.0),
        &format!(
            "{locked} statements locked rows of the ledger while {WAITERS} requests waited {WAIT_SECONDS} s each in vain; {} statements of all kinds",
            after[1].calls - before[1].calls
        ),
    );
    Ok(())
}

/// How often statements were executed, and how many rows they touched.
struct Statements {
    calls: f64,
    rows: f64,
}

async fn renewals(stack: &Stack) -> Result<Statements> {
    statements(
        stack,
        "query ilike '%update reservations%set last_active_at%'",
    )
    .await
}

async fn locks(stack: &Stack) -> Result<Statements> {
    statements(
        stack,
        // Renewals skip what is locked and keep nobody waiting.
        "query ilike '%grant_if_free%' or query ilike '%update lock_heads%'
         or (query ilike '%for update%' and query not ilike '%skip locked%'
             and (query ilike '%lock_heads%' or query ilike '%reservations%'))",
    )
    .await
}

async fn all(stack: &Stack) -> Result<Statements> {
    statements(stack, "query not ilike '%pg_stat_statements%'").await
}

async fn statements(stack: &Stack, which: &str) -> Result<Statements> {
    let sql = format!(
        "select coalesce(sum(calls), 0) || ' ' || coalesce(sum(rows), 0) from pg_stat_statements where {which}"
    );
    let counted = stack.databases.postgres.sql(DATABASE, &sql).await?;
    let (calls, rows) = counted.split_once(' ').context("two numbers")?;
    Ok(Statements {
        calls: calls.parse()?,
        rows: rows.parse()?,
    })
}

/// A run that holds one address.
async fn hold(client: &Client, number: usize) -> Result<String> {
    let body = json!({ "actor": "bench", "key": format!("holder-{number}"), "source_serial": 1 });
    let run = client.state_engine("apply-runs/begin", STATE, body).await?;
    let id = run["ID"].as_str().or_else(|| run["id"].as_str());
    let id = id.context("a run without an id")?.to_owned();
    let want = json!({
        "apply_id": id, "lease_seconds": 60,
        "want": [{ "address_glob": address(number), "mode": "write" }],
    });
    client
        .state_engine("reservations/acquire", STATE, want)
        .await?;
    Ok(id)
}

async fn renew(client: Client, run: String, phase: Duration) -> Result<()> {
    tokio::time::sleep(phase).await;
    let what = format!("reservations/{run}/renew");
    let mut ticks = tokio::time::interval(RENEW_EVERY);
    loop {
        ticks.tick().await;
        let renewed = client.state_engine(&what, STATE, json!({})).await?;
        ensure!(renewed["renewed"] == 1, "a lease was lost: {renewed}");
    }
}

fn address(number: usize) -> String {
    format!("terraform_data.r{number}")
}

fn document() -> Result<Vec<u8>> {
    let resources: Vec<_> = (0..LEASES)
        .map(|number| {
            json!({
                "mode": "managed", "type": "terraform_data", "name": format!("r{number}"),
                "provider": "provider[\"terraform.io/builtin/terraform\"]",
                "instances": [{
                    "schema_version": 0, "attributes": { "id": format!("id-{number}") },
                    "sensitive_attributes": [],
                }],
            })
        })
        .collect();
    Ok(serde_json::to_vec(&json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1,
        "lineage": "3f0c5a1e-0000-4000-8000-00001ea5e500", "outputs": {}, "resources": resources,
        "check_results": null,
    }))?)
}
