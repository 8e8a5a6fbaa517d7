//! `cargo xtask chaos`: faults on real processes, and a checker of what clients saw (docs/faults.md).

mod deeds;
mod dump;
mod run;
mod stage;
mod teeth;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use chaos::check::{Violation, invariants};
use chaos::plan::{Plan, Profile};
use chaos::report::Figures;
use clap::{Args, Subcommand};

use crate::host::workspace::Workspace;

use run::{Lies, Place, Verdict};
use stage::Stage;

/// The seed of CI: a red run is a property of the commit.
const SEED: u64 = 20_261_130;
/// Violations shown of each invariant.
const SHOWN: usize = 5;

/// Break real processes under load, and hold what clients saw against what the ledger says.
///
/// Three replicas behind HAProxy, Postgres, Redis with a replica, a proxy on every link; every time of the protocol divided
/// by 30. One seed is one plan of clients and faults.
#[derive(Args, Debug)]
pub(crate) struct ChaosArgs {
    #[command(subcommand)]
    command: ChaosCommand,
}

#[derive(Debug, Subcommand)]
enum ChaosCommand {
    /// Draw a plan from a seed, run it, and judge it.
    Run(RunArgs),
    /// Judge a run again that was written down.
    Check {
        /// The directory of the run.
        dir: PathBuf,
    },
    /// Run the plan of an earlier run once more.
    Replay(ReplayArgs),
    /// What CI does: the quick profile with a fixed seed, then two rules switched off, others each day.
    Ci,
    /// Switch the protocol's rules off, one after the other: each must be missed.
    Teeth(teeth::TeethArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// `quick` (minutes), `long`, or `smoke` (seconds).
    #[arg(long, default_value = "quick")]
    profile: String,
    /// What the plan is drawn from.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Keep the logs of all processes.
    #[arg(long)]
    keep: bool,
}

#[derive(Args, Debug)]
struct ReplayArgs {
    /// The directory of the run.
    #[arg(conflicts_with_all = ["seed", "profile"], required_unless_present = "seed")]
    dir: Option<PathBuf>,
    /// The seed that it was drawn from.
    #[arg(long)]
    seed: Option<u64>,
    /// The profile that it was drawn with.
    #[arg(long, default_value = "quick")]
    profile: String,
}

pub(crate) async fn run(args: &ChaosArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    match &args.command {
        ChaosCommand::Run(args) => {
            let plan = Plan::draw(args.seed, profile(&args.profile)?, "");
            run_plan(&workspace, &plan, args.keep).await
        }
        ChaosCommand::Replay(args) => {
            let plan = match (&args.dir, args.seed) {
                (Some(dir), _) => Place::at(dir.clone()).read_plan()?,
                (None, seed) => Plan::draw(seed.unwrap_or(SEED), profile(&args.profile)?, ""),
            };
            run_plan(&workspace, &plan, false).await
        }
        ChaosCommand::Check { dir } => {
            let verdict = run::judge(&Place::at(dir.clone()))?;
            show(&verdict);
            Ok(u8::from(!verdict.violations.is_empty()))
        }
        ChaosCommand::Ci => in_ci(&workspace).await,
        ChaosCommand::Teeth(args) => teeth::run(&workspace, args).await,
    }
}

/// The quick profile with the seed of CI, then two rules switched off, in turn.
async fn in_ci(workspace: &Workspace) -> Result<u8> {
    let plan = Plan::draw(SEED, profile("quick")?, "");
    match run_plan(workspace, &plan, false).await? {
        0 => teeth::two_in_turn(workspace).await,
        code => Ok(code),
    }
}

fn profile(name: &str) -> Result<Profile> {
    Profile::named(name)
        .with_context(|| format!("there is no profile {name:?}: quick, long, smoke"))
}

async fn run_plan(workspace: &Workspace, plan: &Plan, keep: bool) -> Result<u8> {
    let base = workspace.target().join("chaos");
    let place = Place::create(base.join(format!("{}-{}", plan.profile.name, plan.seed)))?;
    let liars = Place::create(place.path().join("liar"))?;
    println!(
        "chaos: profile {}, seed {}: {} clients on {} states, {} faults; written to {}",
        plan.profile.name,
        plan.seed,
        plan.clients.len(),
        plan.states.len(),
        plan.fault_count(),
        place.path().display()
    );
    let began = Instant::now();
    let stage = Stage::start(workspace).await?;
    println!(
        "chaos: everything runs after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    if keep {
        stage.databases.lock().await.scratch.keep_logs();
        println!("chaos: logs in {}", stage.logs.display());
    }
    let stormy = Instant::now();
    let crashes = run::storm(&stage, plan, &place).await?;
    let stormy = stormy.elapsed();
    let verdict = run::judge(&place)?;
    let liars_plan = Plan::draw(plan.seed, run::liars_profile(&plan.profile), "liar-");
    let lies = run::before_a_liar(&stage, &liars_plan, &liars).await?;
    drop(stage);

    show(&verdict);
    println!("replicas that died of a step: {crashes}");
    show_lies(&lies);
    println!(
        "time: {:.0} s, of which {:.0} s storm, calm and drills",
        began.elapsed().as_secs_f64(),
        stormy.as_secs_f64()
    );
    let wrong = verdict.violations.len() + lies.violations.len();
    Ok(u8::from(wrong > 0 || short(plan, &verdict.figures, &lies)))
}

fn show(verdict: &Verdict) {
    let figures = &verdict.figures;
    println!("\n{}", figures.table_text());
    println!("operations: {} {:?}", figures.operations, figures.by_call);
    println!("faults: {}", figures.faults);
    println!(
        "unknown outcomes: {} ({:.2} %)",
        figures.unknown,
        figures.unknown_percent()
    );
    println!("answers 500: {}", figures.internal_errors);
    println!(
        "refused uploads recovered byte for byte: {}",
        figures.recovered
    );
    println!(
        "undisturbed waits: {}, overtakes: {}",
        figures.waits_judged, figures.overtakes
    );
    let drills = &figures.drills;
    println!(
        "Redis killed and flushed ({} times): errors seen by clients {}, first grant after at most {} ms",
        drills.redis_faults, drills.redis_errors, drills.redis_first_grant_ms
    );
    println!(
        "Postgres restarted: {} reservations held over it, {} lost",
        drills.postgres_held, drills.postgres_lost
    );
    println!(
        "rolling restart: {} renewals, {} failed; {} commits, {} failed; {} waits, {} lost places",
        drills.rolling_renewals,
        drills.rolling_failed_renewals,
        drills.rolling_commits,
        drills.rolling_failed_commits,
        drills.rolling_waits,
        drills.rolling_lost_places
    );
    show_violations("violations", &verdict.violations);
    for (invariant, words) in invariants() {
        let count = verdict
            .violations
            .iter()
            .filter(|it| it.invariant == invariant)
            .count();
        println!("  {invariant:?} {words}: {count}");
    }
}

fn show_lies(lies: &Lies) {
    println!(
        "lying Redis: {} answers, {} wakes for nothing, {} errors and silences; {} operations",
        lies.told, lies.wakes, lies.troubles, lies.operations
    );
    show_violations("violations before the liar", &lies.violations);
}

fn show_violations(what: &str, violations: &[Violation]) {
    println!("{what}: {}", violations.len());
    for (invariant, _) in invariants() {
        let of_one = violations.iter().filter(|it| it.invariant == invariant);
        for violation in of_one.take(SHOWN) {
            println!("  {violation}");
        }
    }
}

/// Whether something that no machine is too slow for was missed; says of the rest what was.
fn short(plan: &Plan, figures: &Figures, lies: &Lies) -> bool {
    if !plan.profile.drills {
        return false;
    }
    let drills = &figures.drills;
    let counts = [
        (
            "operations",
            figures.operations >= usize::try_from(plan.profile.operations).unwrap_or(usize::MAX),
        ),
        ("faults", figures.faults >= plan.fault_count()),
        ("refused uploads recovered", figures.recovered >= 200),
        ("lies", lies.told >= plan.profile.lies),
    ];
    for (what, _) in counts.iter().filter(|(_, is_enough)| !is_enough) {
        println!("FEW: fewer {what} than this profile is for; the machine is slow");
    }
    let promises = [
        (
            "at most 2 % unknown outcomes",
            figures.unknown_percent() <= 2.0,
        ),
        ("no error while Redis is away", drills.redis_errors == 0),
        (
            "a grant within 1 s without Redis",
            drills.redis_first_grant_ms <= 1_000,
        ),
        (
            "no reservation lost with Postgres",
            drills.postgres_lost == 0,
        ),
        (
            "nothing failed during a rolling restart",
            drills.rolling_failed_renewals + drills.rolling_failed_commits == 0,
        ),
    ];
    let mut is_short = false;
    for (what, _) in promises.iter().filter(|(_, holds)| !holds) {
        println!("MISSED: {what}");
        is_short = true;
    }
    is_short
}
