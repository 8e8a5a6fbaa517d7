//! Whether the harness bites: each rule of the protocol is switched off in real replicas, and must be missed in time.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chaos::check::{self, CALM, Violation};
use chaos::clients::Clients;
use chaos::history::{self, Log};
use chaos::ledger::Ledger;
use chaos::plan::Plan;
use clap::Args;

use super::SEED;
use super::deeds::Deeds;
use super::run::{Place, phase, world, write_down};
use super::stage::Stage;
use super::tooth::{TEETH, Tooth, of_day};
use crate::host::workspace::Workspace;

/// How often a rule may stay unnoticed; each round takes some twenty seconds.
const ROUNDS: u32 = 4;
const CALM_FOR: Duration = Duration::from_secs(4);
const SETTLE: Duration = Duration::from_millis(2_600);
/// Who does not come to an end within this waits for something that never comes.
const REST_WITHIN: Duration = Duration::from_secs(15);

/// Run with one rule after the other switched off, until each was missed.
#[derive(Args, Debug)]
pub(super) struct TeethArgs {
    /// Only these.
    #[arg(value_name = "RULE")]
    rules: Vec<String>,
    /// What the plans are drawn from.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
}

pub(super) async fn run(workspace: &Workspace, args: &TeethArgs) -> Result<u8> {
    let is_known = |rule: &&String| TEETH.iter().any(|tooth| tooth.name == **rule);
    if let Some(unknown) = args.rules.iter().find(|rule| !is_known(rule)) {
        let known: Vec<_> = TEETH.iter().map(|tooth| tooth.name).collect();
        bail!(
            "no rule {unknown:?} is sought; there are {}",
            known.join(", ")
        );
    }
    let chosen: Vec<&Tooth> = TEETH
        .iter()
        .filter(|tooth| args.rules.is_empty() || args.rules.iter().any(|rule| rule == tooth.name))
        .collect();
    bite(workspace, &chosen, args.seed).await
}

/// Some of them, others each day.
pub(super) async fn in_turn(workspace: &Workspace, count: usize) -> Result<u8> {
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs()
        / 86_400;
    bite(workspace, &of_day(usize::try_from(day)?, count), SEED).await
}

/// How a planted bug was found.
struct Found {
    round: u32,
    violation: Violation,
}

async fn bite(workspace: &Workspace, teeth: &[&Tooth], seed: u64) -> Result<u8> {
    let began = Instant::now();
    let base = workspace.target().join("chaos/teeth");
    let stage = Stage::start(workspace).await?;
    let mut table = String::from("| rule | found by | in round | after |\n|---|---|---|---|\n");
    let mut missed = 0;
    for tooth in teeth {
        let since = Instant::now();
        let found = seek(&stage, tooth, seed, &base).await?;
        let took = since.elapsed().as_secs_f64();
        let off = tooth.off();
        match found {
            Some(Found { round, violation }) => {
                println!("without {off}: found after {took:.0} s, in round {round}: {violation}");
                let found_by = violation.invariant;
                let _ = writeln!(
                    table,
                    "| `{}` | {found_by:?} | {round} | {took:.0} s |",
                    tooth.name
                );
            }
            None => {
                missed += 1;
                println!("without {off}: NOT FOUND in {took:.0} s");
                let _ = writeln!(table, "| `{}` | nothing | – | {took:.0} s |", tooth.name);
            }
        }
    }
    println!("\n{table}");
    println!(
        "planted bugs found: {} of {}, in {:.0} s",
        teeth.len() - missed,
        teeth.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(u8::from(missed > 0))
}

/// Runs rounds until the planted bug shows where it must, and has not shown in the one before, in which its rule holds.
async fn seek(stage: &Stage, tooth: &Tooth, seed: u64, base: &Path) -> Result<Option<Found>> {
    let base = base.join(tooth.name);
    let round = async |number: u32, name: &str| {
        // No two rounds on one stage share a state.
        let prefix = format!("{}-{name}-", tooth.name.replace('_', "-"));
        let plan = tooth.plan(seed + u64::from(number), &prefix);
        let place = Place::create(base.join(name))?;
        one_round(stage, &plan, &place, tooth.step).await
    };
    if let Some(other) = tooth.control {
        stage.restart_without(other, tooth.scale).await?;
        if let Some(violation) = tooth.shown(round(1, "control").await?) {
            println!("{} shows while it holds: {violation}", tooth.name);
            return Ok(None);
        }
    }
    stage.restart_without(&tooth.off(), tooth.scale).await?;
    for number in 1..=ROUNDS {
        let violations = round(number, &number.to_string()).await?;
        if let Some(violation) = tooth.shown(violations) {
            let round = number;
            return Ok(Some(Found { round, violation }));
        }
    }
    Ok(None)
}

async fn one_round(
    stage: &Stage,
    plan: &Plan,
    place: &Place,
    step: Option<&str>,
) -> Result<Vec<Violation>> {
    place.write_plan(plan)?;
    let log = Log::create(&place.history())?;
    let world = world(stage, plan, &log)?;
    super::dump::seed(&world.wire, plan).await?;
    let mut deeds = Deeds::new(stage, log.clone()).await?;
    if let Some(step) = step {
        deeds.die_only_at(step);
    }
    let clients = Clients::start(&world, plan);
    phase(&log, "storm");
    if plan.fault_count() > 0 {
        let storm = deeds.both_rows(&plan.faults);
        let at_least = tokio::time::sleep(Duration::from_millis(plan.profile.storm_ms));
        let (outcome, ()) = tokio::join!(storm, at_least);
        outcome?;
        deeds.mend().await?;
        tokio::time::sleep(SETTLE).await;
    }
    phase(&log, CALM);
    tokio::time::sleep(CALM_FOR).await;
    let rest = if plan.fault_count() == 0 {
        Duration::from_millis(plan.profile.storm_ms)
    } else {
        Duration::ZERO
    };
    tokio::time::sleep(rest).await;
    phase(&log, "rest");
    clients.rest(REST_WITHIN).await;
    write_down(stage, plan, place, &world, &log).await?;
    let history = history::read(&place.history())?;
    let ledger = Ledger::read(&place.ledger())?;
    Ok(check::check(&history, &ledger))
}
