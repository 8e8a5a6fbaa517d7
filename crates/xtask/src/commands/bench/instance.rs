//! Writing one changed instance of a state: the transaction that writes must not grow with the state.
//!
//! Measured by the service itself (`commit` of the Server-Timing header), because receiving and reading a document of
//! 200 MB does grow with it. The two states take turns.

use anyhow::Result;

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target, median};

pub(super) const NAMES: &[&str] = &["one_instance_commit_100k_to_1k"];

const ROUNDS: usize = 15;
/// Small writes before anything counts: every connection of the pool must have prepared its statements.
const WARMING: usize = 40;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let mut small = bench.documents.of_instances(1_000).await?;
    let mut large = bench.documents.of_instances(100_000).await?;
    client
        .write("small", &Posted::from(small.clone()), None)
        .await?;
    client
        .write("large", &Posted::from(large.clone()), None)
        .await?;
    for round in 0..WARMING {
        small = changed(&small, Change::one(round * 7))?;
        client
            .write("small", &Posted::from(small.clone()), None)
            .await?;
    }
    let (mut at_small, mut at_large) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        small = changed(&small, Change::one(round * 7))?;
        large = changed(&large, Change::one(round * 701))?;
        let small = client
            .write("small", &Posted::from(small.clone()), None)
            .await?;
        let large = client
            .write("large", &Posted::from(large.clone()), None)
            .await?;
        at_small.push(small.commit_ms);
        at_large.push(large.commit_ms);
    }
    let (small, large) = (median(&at_small), median(&at_large));
    report.ratio(
        NAMES[0],
        large / small,
        Target::AtMost(1.5),
        &format!("{large:.2} ms ÷ {small:.2} ms, p50 of {ROUNDS}"),
    );
    Ok(())
}
