//! Reading small states, which is most of what a service does all day, next to the least that Postgres can be asked.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, PgPool};
use tokio::task::JoinSet;

use super::Bench;
use super::client::Client;
use super::documents::Posted;
use super::report::{Report, Target, median};
use crate::stack::kld::DATABASE;

pub(super) const NAMES: &[&str] = &["small_reads_to_select_1"];

/// Clients at once, and connections of the pool: the replica's own pool has as many.
const CONCURRENCY: u32 = 16;
const STATES: usize = 8;
const INSTANCES: usize = 10;
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(1_500);

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let document = Posted::from(bench.documents.of_instances(INSTANCES).await?);
    for number in 0..STATES {
        client
            .write(&format!("small-{number}"), &document, None)
            .await?;
    }
    let options: PgConnectOptions = stack.databases.postgres.superuser_url(DATABASE).parse()?;
    let pool = PgPoolOptions::new()
        .max_connections(CONCURRENCY)
        .min_connections(CONCURRENCY)
        // Asking each connection whether it lives would halve what is compared with.
        .test_before_acquire(false)
        .connect_with(options.disable_statement_logging())
        .await?;

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let pool = pool.clone();
        let select = move |_| {
            let pool = pool.clone();
            async move { select_1(&pool).await }
        };
        theirs.push(rate(select).await?);
        let client = client.clone();
        let read = move |worker| {
            let client = client.clone();
            async move { read(&client, worker).await }
        };
        ours.push(rate(read).await?);
    }
    let (reads, selects) = (median(&ours), median(&theirs));
    report.ratio(
        NAMES[0],
        reads / selects,
        Target::AtLeast(0.2),
        &format!(
            "{reads:.0} GET/s of {} bytes ÷ {selects:.0} select/s, {CONCURRENCY} at once, medians of {ROUNDS}",
            document.bytes.len()
        ),
    );
    Ok(())
}

async fn read(client: &Client, worker: usize) -> Result<()> {
    let size = client.drain(&format!("small-{}", worker % STATES)).await?;
    if size == 0 {
        bail!("an empty document");
    }
    Ok(())
}

async fn select_1(pool: &PgPool) -> Result<()> {
    sqlx::query("select 1").execute(pool).await?;
    Ok(())
}

/// How often a second `ask` is answered when as many workers as [`CONCURRENCY`] ask on and on.
async fn rate<A>(ask: impl Fn(usize) -> A + Clone + Send + 'static) -> Result<f64>
where
    A: Future<Output = Result<()>> + Send,
{
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..CONCURRENCY as usize {
        let ask = ask.clone();
        workers.spawn(async move {
            let mut answers = 0_u32;
            while began.elapsed() < TURN {
                ask(worker).await?;
                answers += 1;
            }
            Ok::<_, anyhow::Error>(answers)
        });
    }
    let mut answers = 0;
    while let Some(worker) = workers.join_next().await {
        answers += worker??;
    }
    Ok(f64::from(answers) / began.elapsed().as_secs_f64())
}
