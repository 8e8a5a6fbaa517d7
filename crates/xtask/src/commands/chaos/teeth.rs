//! Whether the harness bites: each rule of the protocol is switched off in real replicas, and must be missed in time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chaos::check::{self, CALM, Invariant, Violation};
use chaos::clients::Clients;
use chaos::history::{self, Log};
use chaos::ledger::Ledger;
use chaos::plan::{FaultCounts, Plan, Profile};
use clap::Args;

use super::SEED;
use super::deeds::Deeds;
use super::run::{Place, phase, world, write_down};
use super::stage::Stage;
use crate::host::workspace::Workspace;

/// How often a rule may stay unnoticed; each round takes some twenty seconds.
const ROUNDS: u32 = 4;
const CALM_FOR: Duration = Duration::from_secs(4);
const SETTLE: Duration = Duration::from_millis(2_600);
/// Who does not come to an end within this waits for something that never comes.
const REST_WITHIN: Duration = Duration::from_secs(15);
const STORM_MS: u64 = 7_000;

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

/// A planted bug.
struct Tooth {
    name: &'static str,
    /// The rules that do not hold, separated by commas.
    off: &'static str,
    /// Where it must show, in any of them.
    shows: &'static [Invariant],
    /// What must be said of it, where another rule that is off shows in the same place.
    says: &'static str,
    faults: FaultCounts,
    /// The one step at which replicas are to die.
    step: Option<&'static str>,
}

use Invariant::{I1, I2, I3, I4, I5, I7, I8, I11, I12, I13, I14};

/// Nothing breaks.
const NONE: FaultCounts = FaultCounts {
    replica_kills: 0,
    replica_freezes: 0,
    service_freezes: 0,
    postgres_restarts: 0,
    redis_kills: 0,
    redis_flushes: 0,
    redis_evictions: 0,
    redis_promotions: 0,
    links: 0,
    crash_points: 0,
};
/// The index goes, again and again.
const NO_INDEX: FaultCounts = FaultCounts {
    redis_flushes: 20,
    redis_kills: 4,
    ..NONE
};
/// Processes die at steps, and answers get lost.
const CRASHES: FaultCounts = FaultCounts {
    crash_points: 14,
    links: 6,
    replica_kills: 4,
    ..NONE
};
const OUTAGES: FaultCounts = FaultCounts {
    service_freezes: 3,
    ..NONE
};

const fn tooth(
    name: &'static str,
    off: &'static str,
    shows: &'static [Invariant],
    faults: FaultCounts,
) -> Tooth {
    Tooth {
        name,
        off,
        shows,
        says: "",
        faults,
        step: None,
    }
}

/// One that shows only where another is off, too, and then in a lost update.
const fn behind_liveness(name: &'static str, off: &'static str) -> Tooth {
    Tooth {
        says: "but its writer saw",
        ..tooth(name, off, &[I4], NONE)
    }
}

/// One that shows only where a replica dies at a certain step.
const fn at_step(tooth: Tooth, step: &'static str) -> Tooth {
    Tooth {
        step: Some(step),
        ..tooth
    }
}

const TEETH: [Tooth; 18] = [
    tooth("ledger_check", "ledger_check", &[I1], NO_INDEX),
    tooth("liveness", "liveness", &[I4, I8], NONE),
    behind_liveness("version_check", "liveness,version_check"),
    tooth("receipts", "receipts", &[I4, I7], NONE),
    tooth("kept_results", "kept_results", &[I8], NONE),
    tooth("unsettled_marks", "unsettled_marks", &[I8], NONE),
    tooth("idem_key", "idem_key", &[I2, I7], NONE),
    tooth("token_rise", "token_rise", &[I3], NONE),
    tooth("lock_delay", "lock_delay", &[I13], NONE),
    tooth("grace", "grace", &[I13], OUTAGES),
    tooth("write_cover", "write_cover", &[I4], NONE),
    tooth("queue_order", "queue_order", &[I11], NONE),
    tooth("wake", "wake", &[I11, I12], NONE),
    behind_liveness("http_version_check", "liveness,http_version_check"),
    tooth("end_index", "end_index", &[I12, I14], NONE),
    at_step(
        tooth("atomic_end", "atomic_end", &[I2, I8, I12], CRASHES),
        "release.before",
    ),
    tooth("mixed_lanes", "mixed_lanes", &[I1], NONE),
    tooth("late_duplicates", "late_duplicates", &[I4, I5], NONE),
];

pub(super) async fn run(workspace: &Workspace, args: &TeethArgs) -> Result<u8> {
    let chosen: Vec<&Tooth> = TEETH
        .iter()
        .filter(|tooth| args.rules.is_empty() || args.rules.iter().any(|rule| rule == tooth.name))
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = TEETH.iter().map(|tooth| tooth.name).collect();
        bail!("none of these is a rule; there are {}", known.join(", "));
    }
    bite(workspace, &chosen, args.seed).await
}

/// Those that show only by luck within a round, on a machine that is busy: they are sought by command.
const BY_LUCK: [&str; 4] = ["wake", "version_check", "http_version_check", "atomic_end"];

/// Two of them, others each day, so that all but those by luck have their turn within seven days.
pub(super) async fn two_in_turn(workspace: &Workspace) -> Result<u8> {
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs()
        / 86_400;
    let in_turn: Vec<&Tooth> = TEETH
        .iter()
        .filter(|tooth| !BY_LUCK.contains(&tooth.name))
        .collect();
    let first = usize::try_from(day)? * 2 % in_turn.len();
    let chosen = [in_turn[first], in_turn[(first + 1) % in_turn.len()]];
    bite(workspace, &chosen, SEED).await
}

async fn bite(workspace: &Workspace, teeth: &[&Tooth], seed: u64) -> Result<u8> {
    let began = Instant::now();
    let base = workspace.target().join("chaos/teeth");
    let stage = Stage::start(workspace).await?;
    let mut missed = 0;
    for (number, tooth) in teeth.iter().enumerate() {
        let since = Instant::now();
        stage.restart_without(tooth.off).await?;
        let found = seek(&stage, tooth, number, seed, &base).await?;
        let took = since.elapsed().as_secs_f64();
        match found {
            Some((round, violation)) => println!(
                "without {}: found after {took:.0} s, in round {round}: {violation}",
                tooth.off
            ),
            None => {
                missed += 1;
                println!("without {}: NOT FOUND in {took:.0} s", tooth.off);
            }
        }
    }
    println!(
        "planted bugs found: {} of {}, in {:.0} s",
        teeth.len() - missed,
        teeth.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(u8::from(missed > 0))
}

/// Runs rounds until the planted bug shows where it must.
async fn seek(
    stage: &Stage,
    tooth: &Tooth,
    number: usize,
    seed: u64,
    base: &Path,
) -> Result<Option<(u32, Violation)>> {
    for round in 1..=ROUNDS {
        let profile = Profile {
            name: tooth.name.to_owned(),
            storm_ms: STORM_MS,
            operations: 0,
            counts: tooth.faults,
            liar_ms: 0,
            lies: 0,
            native: 10,
            primitive: 3,
            terraform: 4,
            late: 2,
            readers: 1,
            drills: false,
        };
        let prefix = format!("tooth{number}-{round}-");
        let plan = Plan::draw(seed + u64::from(round), profile, &prefix);
        let place = Place::create(base.join(tooth.name).join(round.to_string()))?;
        let violations = one_round(stage, &plan, &place, tooth.step).await?;
        let found = violations
            .into_iter()
            .find(|it| tooth.shows.contains(&it.invariant) && it.what.contains(tooth.says));
        if let Some(violation) = found {
            return Ok(Some((round, violation)));
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
