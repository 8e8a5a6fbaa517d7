//! Many clients who reserve, commit and release on one state, each its own address, next to the least that a durable
//! database can be asked: inserting one row.
//!
//! What is measured goes over HTTP through the primitives of the state engine. How fast sixteen clients get when nothing
//! holds them back is the saturation; the times of single requests are taken at half of it, where a service should live.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::task::JoinSet;

use super::Bench;
use super::client::Client;
use super::documents::Posted;
use super::report::{Report, Target, median, ms, percentile};
use crate::stack::kld::DATABASE;

pub(super) const NAMES: &[&str] = &[
    "disjoint_commits_to_inserts",
    "reserve_p99_to_insert_p99",
    "commit_p99_to_insert_p99",
];

const STATE: &str = "contended";
const CLIENTS: usize = 16;
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(4);

/// What one turn of all clients came to.
#[derive(Default)]
struct Turn {
    reserve_ms: Vec<f64>,
    commit_ms: Vec<f64>,
}

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let document = serde_json::to_vec(&document())?;
    client.write(STATE, &Posted::from(document), None).await?;
    let options: PgConnectOptions = stack.databases.postgres.superuser_url(DATABASE).parse()?;
    let mut database = options.disable_statement_logging().connect().await?;
    sqlx::query("create table one_row (number bigint generated always as identity, value text)")
        .execute(&mut database)
        .await?;
    let mut runs = Vec::new();
    for number in 0..CLIENTS {
        runs.push(Holder::begin(&client, number).await?);
    }
    // Every connection of the pool must have prepared its statements.
    turn(&runs, None).await?;
    let mut inserts = 0;
    let [mut rates, mut insert_p99, mut reserve_p99, mut commit_p99] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let durations = insert(&mut database).await?;
        let full = turn(&runs, None).await?;
        let rate = full.commit_ms.len() as f64 / TURN.as_secs_f64();
        // So long each of all clients may take for one round of half as many.
        let pace = Duration::from_secs_f64(2.0 * CLIENTS as f64 / rate);
        let half = turn(&runs, Some(pace)).await?;
        rates.push(rate / (durations.len() as f64 / TURN.as_secs_f64()));
        inserts += durations.len();
        insert_p99.push(percentile(&durations, 99));
        reserve_p99.push(percentile(&half.reserve_ms, 99));
        commit_p99.push(percentile(&half.commit_ms, 99));
    }
    report.ratio(
        NAMES[0],
        median(&rates),
        Target::AtLeast(0.3),
        &format!(
            "reserve, commit and release per second by {CLIENTS} clients on one state ÷ {:.0} durable inserts of one client, medians of {ROUNDS}",
            inserts as f64 / TURN.as_secs_f64() / ROUNDS as f64
        ),
    );
    let insert = median(&insert_p99);
    for (name, of_rounds, bound) in [(NAMES[1], &reserve_p99, 5.0), (NAMES[2], &commit_p99, 8.0)] {
        let ours = median(of_rounds);
        report.ratio(
            name,
            ours / insert,
            Target::AtMost(bound),
            &format!(
                "{ours:.2} ms ÷ {insert:.2} ms, p99 at half of the saturation, medians of {ROUNDS}"
            ),
        );
    }
    Ok(())
}

/// Inserts rows one by one; answers how long each took, in milliseconds.
async fn insert(database: &mut PgConnection) -> Result<Vec<f64>> {
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < TURN {
        let started = Instant::now();
        sqlx::query("insert into one_row (value) values ('a row')")
            .execute(&mut *database)
            .await?;
        took.push(ms(started.elapsed()));
    }
    Ok(took)
}

/// All clients for one turn, each as fast as it can or once in `pace`.
async fn turn(runs: &[Holder], pace: Option<Duration>) -> Result<Turn> {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for (number, run) in runs.iter().cloned().enumerate() {
        clients.spawn(async move {
            let mut turn = Turn::default();
            let mut next = Instant::now();
            if let Some(pace) = pace {
                // Not all at the same moment.
                next += pace.mul_f64(number as f64 / CLIENTS as f64);
            }
            while began.elapsed() < TURN {
                tokio::time::sleep_until(next.into()).await;
                run.once(&mut turn).await?;
                next = pace.map_or_else(Instant::now, |pace| next + pace);
            }
            Ok::<_, anyhow::Error>(turn)
        });
    }
    let mut all = Turn::default();
    while let Some(turn) = clients.join_next().await {
        let turn = turn??;
        all.reserve_ms.extend(turn.reserve_ms);
        all.commit_ms.extend(turn.commit_ms);
    }
    Ok(all)
}

/// A run of the state engine, which reserves and releases the same address on and on.
#[derive(Clone)]
struct Holder {
    client: Client,
    run: String,
    number: usize,
}

impl Holder {
    async fn begin(client: &Client, number: usize) -> Result<Self> {
        let body = json!({ "actor": "bench", "source_serial": 1 });
        let run = client.state_engine("apply-runs/begin", STATE, body).await?;
        let id = run["ID"].as_str().or_else(|| run["id"].as_str());
        Ok(Self {
            client: client.clone(),
            run: id.context("a run without an id")?.to_owned(),
            number,
        })
    }

    async fn once(&self, turn: &mut Turn) -> Result<()> {
        let address = format!("terraform_data.r{}", self.number);
        let want = json!({
            "apply_id": self.run, "want": [{ "address_glob": address, "mode": "write" }],
        });
        let began = Instant::now();
        self.client
            .state_engine("reservations/acquire", STATE, want)
            .await?;
        turn.reserve_ms.push(ms(began.elapsed()));
        let value = format!("{:016x}", rand::random::<u64>());
        let commit = json!({
            "apply_id": self.run, "mode": "delta",
            "delta": {
                "terraform_version": "1.11.4", "lineage": LINEAGE,
                "resources": [resource(self.number, &value)], "write_set": [address],
            },
        });
        let began = Instant::now();
        self.client
            .state_engine("state/commit", STATE, commit)
            .await?;
        turn.commit_ms.push(ms(began.elapsed()));
        let release = format!("reservations/{}/release", self.run);
        self.client.state_engine(&release, STATE, json!({})).await?;
        Ok(())
    }
}

const LINEAGE: &str = "3f0c5a1e-0000-4000-8000-0000000c0de0";

fn document() -> Value {
    let resources: Vec<Value> = (0..CLIENTS)
        .map(|number| resource(number, "first"))
        .collect();
    json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": LINEAGE, "outputs": {},
        "resources": resources, "check_results": null,
    })
}

fn resource(number: usize, value: &str) -> Value {
    json!({
        "mode": "managed", "type": "terraform_data", "name": format!("r{number}"),
        "provider": "provider[\"terraform.io/builtin/terraform\"]",
        "instances": [{
            "schema_version": 0, "attributes": { "id": format!("id-{number}"), "input": value },
            "sensitive_attributes": [],
        }],
    })
}
