//! The first scope that a replica works out after another one has committed, next to one that finds everything warm.
//!
//! Each round commits one address through a run on the first replica. Then the second replica, which holds the graph of an
//! older version, is asked for a scope; and a third one, started for the round, which holds nothing and must fetch the
//! snapshot that was published. Both have answered about another state before, and the second one has brought its graph up
//! to date, so that neither their connections nor their statements are new, and their caller is known. The warm side are
//! scopes on the first replica after it has seen the version.
//!
//! At last many clients ask both of two new replicas for the graph of a state that nobody has asked about.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Bench;
use super::client::{Client, RunClient};
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target, median, ms};
use crate::stack::Stack;
use crate::stack::kld::Replica;

pub(super) const NAMES: &[&str] = &[
    "first_scope_on_another_replica_100k",
    "first_scope_on_a_new_replica_100k",
    "graph_builds_per_replica_of_50_cold_scopes",
];

const STATE: &str = "graphs";
const COLD: &str = "graphs-cold";
const SMALL: &str = "graphs-small";
const INSTANCES: usize = 100_000;
const ROUNDS: usize = 12;
/// Scopes on the small state before one that counts: each connection of the pool must have prepared its statements.
const WARMING: usize = 48;
const WARM: usize = 15;
/// Commits to the small state that the second replica follows before one that counts, for the same reason.
const FOLLOWED: usize = 64;
const AT_ONCE: usize = 50;
const PUBLISHED_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack_of(2).await?;
    let urls: Vec<String> = stack.replica_urls().map(str::to_owned).collect();
    let (first, second) = (Client::at(&stack, &urls[0]), Client::at(&stack, &urls[1]));
    let document = bench.documents.of_instances(INSTANCES).await?;
    let block = a_block(&document)?;
    let small = bench.documents.of_instances(200).await?;
    let small_block = a_block(&small)?;
    first.write(STATE, &Posted::from(document), None).await?;
    first.write(SMALL, &Posted::from(small), None).await?;
    let small = Question {
        state: SMALL,
        block: &small_block,
    };
    let large = Question {
        state: STATE,
        block: &block,
    };
    for client in [&first, &second] {
        small.warm_up(client).await?;
    }
    large.ask(&first).await?;
    wait_for_snapshot(&stack).await?;
    large.ask(&second).await?;

    let mut follow = Writer::begin(&first, small).await?;
    for _ in 0..FOLLOWED {
        follow.commit().await?;
        small.ask(&second).await?;
    }
    let mut writer = Writer::begin(&first, large).await?;
    let (mut warm, mut other, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let third = stack.another_replica().await?;
        let newcomer = Client::at(&stack, third.url());
        small.warm_up(&newcomer).await?;
        writer.commit().await?;
        small.ask(&second).await?;
        other.push(ms(large.ask(&second).await?));
        new.push(ms(large.ask(&newcomer).await?));
        large.ask(&first).await?;
        for _ in 0..WARM {
            warm.push(ms(large.ask(&first).await?));
        }
    }
    let usual = median(&warm);
    for (name, samples, what) in [
        (NAMES[0], &other, "holds the version before"),
        (NAMES[1], &new, "holds nothing"),
    ] {
        report.ratio(
            name,
            median(samples) / usual,
            Target::AtMost(3.0),
            &format!(
                "{:.2} ms on a replica that {what} ÷ {usual:.2} ms warm, after a commit of one of {INSTANCES} instances, medians of {ROUNDS} and {}",
                median(samples),
                warm.len()
            ),
        );
    }
    cold(bench, &stack, &first, report).await
}

/// Many at once, on two replicas that hold nothing, about a state of which nothing is published.
async fn cold(bench: &Bench, stack: &Stack, writer: &Client, report: &Report) -> Result<()> {
    let document = bench.documents.of_instances(INSTANCES).await?;
    let block = a_block(&document)?;
    writer.write(COLD, &Posted::from(document), None).await?;
    let replicas: Vec<Replica> = vec![
        stack.another_replica().await?,
        stack.another_replica().await?,
    ];
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for number in 0..AT_ONCE {
        let client = Client::at(stack, replicas[number % replicas.len()].url());
        let block = block.clone();
        asking.spawn(async move {
            let question = Question {
                state: COLD,
                block: &block,
            };
            question.ask(&client).await
        });
    }
    let mut slowest = Duration::ZERO;
    while let Some(asked) = asking.join_next().await {
        slowest = slowest.max(asked??);
    }
    let mut builds = Vec::new();
    for replica in &replicas {
        builds.push(counted(replica, r#"kl_graphs_total{source="built"}"#).await?);
    }
    let most = builds.iter().copied().fold(0.0, f64::max);
    report.ratio(
        NAMES[2],
        most,
        Target::AtMost(1.0),
        &format!(
            "built from Postgres {builds:?} times by the two replicas, for {AT_ONCE} scopes at once in {:.0} ms",
            ms(began.elapsed())
        ),
    );
    Ok(())
}

/// What a replica has counted.
async fn counted(replica: &Replica, series: &str) -> Result<f64> {
    let text = reqwest::get(replica.metrics_url()).await?.text().await?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(series))
        .unwrap_or("0");
    Ok(value.trim().parse()?)
}

/// A scope of one block.
#[derive(Clone, Copy)]
struct Question<'a> {
    state: &'a str,
    block: &'a str,
}

impl Question<'_> {
    async fn ask(self, client: &Client) -> Result<Duration> {
        let began = Instant::now();
        let answer = client
            .state_engine("scope/expand", self.state, scope(self.block))
            .await?;
        let took = began.elapsed();
        let addresses = answer["fetch_addresses"].as_array();
        ensure!(
            addresses.is_some_and(|some| !some.is_empty()),
            "nothing is in the scope"
        );
        Ok(took)
    }

    /// Asks from several connections at once, over and over.
    async fn warm_up(self, client: &Client) -> Result<()> {
        for _ in 0..WARMING / 8 {
            let asked = (0..8).map(|_| self.ask(client));
            for asked in futures::future::join_all(asked).await {
                asked?;
            }
        }
        Ok(())
    }
}

fn scope(block: &str) -> Value {
    json!({
        "write": [block],
        "configuration": { "nodes": [{ "address": block, "repetition": "single" }], "calls": [] },
    })
}

/// A managed resource without a key, in no module with one, that depends on nothing.
fn a_block(document: &[u8]) -> Result<String> {
    let tfstate::Document::State(state) = tfstate::parse(document)? else {
        anyhow::bail!("the generator made no state");
    };
    let mut addresses = state.instances.iter().filter_map(|instance| {
        let address = state.address(instance).to_string();
        let is_plain = !address.contains('[') && !address.contains("data.");
        let depends = instance
            .body
            .windows(14)
            .any(|text| text == b"\"dependencies\"");
        (is_plain && !depends).then_some(address)
    });
    addresses.next().context("no resource stands by itself")
}

/// A run on one address, which changes it over and over.
struct Writer {
    run: RunClient,
    slice: Vec<u8>,
}

impl Writer {
    async fn begin(client: &Client, on: Question<'_>) -> Result<Self> {
        let run = client.begin_run(on.state, scope(on.block)).await?;
        run.lock("bench").await?;
        let slice = run.read().await?.to_vec();
        Ok(Self { run, slice })
    }

    async fn commit(&mut self) -> Result<()> {
        self.slice = changed(&self.slice, Change::one(0))?;
        self.run.upload("bench", self.slice.clone()).await
    }
}

async fn wait_for_snapshot(stack: &Stack) -> Result<()> {
    let redis = &stack.databases.redis;
    let began = Instant::now();
    // The first line of the answer says how many there are: the small state has one, too.
    while redis.command("KEYS klg:*:newest").await? != "*2" {
        ensure!(
            began.elapsed() < PUBLISHED_WITHIN,
            "no snapshot was published"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
