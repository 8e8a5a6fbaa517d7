//! `cargo xtask chaos`: faults on real processes, and a checker of what clients saw (docs/faults.md).

mod deeds;
mod dump;
mod previous;
mod replay;
mod run;
mod stage;
mod teeth;
mod tooth;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use chaos::check::{Violation, invariants};
use chaos::plan::{LIARS, Plan, Profile};
use chaos::report::Figures;
use clap::{Args, Subcommand};

use crate::host::workspace::Workspace;

use run::{Lies, Place, Verdict};
use stage::Stage;

/// The seed of CI: a red run is a property of the commit.
const SEED: u64 = 20_261_130;
/// How many rules CI switches off, others each day.
const TEETH_A_DAY: usize = 2;
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
    /// Only the part before a lying Redis.
    Liar(RunArgs),
    /// Judge a run again that was written down.
    Check {
        /// The directory of the run.
        dir: PathBuf,
    },
    /// Run the plan of an earlier run once more.
    Replay(replay::ReplayArgs),
    /// What CI does: the quick profile with a fixed seed, a short one and its replay, then two rules switched off, others each
    /// day.
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
    /// Run one of the replicas as this revision has it: two releases side by side, as during a deployment.
    #[arg(long, value_name = "REVISION")]
    beside: Option<String>,
}

pub(crate) async fn run(args: &ChaosArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    match &args.command {
        ChaosCommand::Run(args) => {
            let plan = Plan::draw(args.seed, profile(&args.profile)?, "");
            let place = place_of(&workspace, &plan)?;
            let how = How {
                keep: args.keep,
                beside: args.beside.as_deref(),
            };
            run_plan(&workspace, &plan, &place, how).await
        }
        ChaosCommand::Replay(args) => replay::run(&workspace, args).await,
        ChaosCommand::Liar(args) => {
            let plan = Plan::draw(args.seed, profile(&args.profile)?, "");
            let stage = Stage::start(&workspace).await?;
            let lies = before_a_liar(&stage, &plan, &place_of(&workspace, &plan)?).await?;
            show_lies(&lies);
            Ok(u8::from(!lies.violations.is_empty()))
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

/// The quick profile with the seed of CI; a short one and its replay; then some rules switched off, in turn.
async fn in_ci(workspace: &Workspace) -> Result<u8> {
    let plan = Plan::draw(SEED, profile("quick")?, "");
    let mut code = run_plan(
        workspace,
        &plan,
        &place_of(workspace, &plan)?,
        How::default(),
    )
    .await?;
    if code == 0 {
        code = replay::smoke(workspace).await?;
    }
    if code == 0 {
        code = teeth::in_turn(workspace, TEETH_A_DAY).await?;
    }
    Ok(code)
}

/// Where a run is written down.
fn place_of(workspace: &Workspace, plan: &Plan) -> Result<Place> {
    let name = format!("{}-{}", plan.profile.name, plan.seed);
    Place::create(workspace.target().join("chaos").join(name))
}

fn profile(name: &str) -> Result<Profile> {
    Profile::named(name)
        .with_context(|| format!("there is no profile {name:?}: quick, long, smoke"))
}

/// What a run does beside its plan.
#[derive(Debug, Clone, Copy, Default)]
struct How<'a> {
    /// Keep the logs.
    keep: bool,
    /// Run the first replica as this revision has it.
    beside: Option<&'a str>,
}

async fn run_plan(workspace: &Workspace, plan: &Plan, place: &Place, how: How<'_>) -> Result<u8> {
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
    let first = match how.beside {
        Some(revision) => Some(previous::build(workspace, revision).await?),
        None => None,
    };
    let stage = Stage::start_beside(workspace, first).await?;
    println!(
        "chaos: everything runs after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    if how.keep {
        stage.databases.lock().await.scratch.keep_logs();
        println!("chaos: logs in {}", stage.logs.display());
    }
    let stormy = Instant::now();
    let crashes = run::storm(&stage, plan, place).await?;
    let stormy = stormy.elapsed();
    let verdict = run::judge(place)?;
    let lies = match plan.profile.liar_ms {
        0 => None,
        _ => Some(before_a_liar(&stage, plan, place).await?),
    };
    drop(stage);

    show(&verdict);
    println!("replicas that died of a step: {crashes}");
    lies.iter().for_each(show_lies);
    println!(
        "time: {:.0} s, of which {:.0} s storm, calm and drills",
        began.elapsed().as_secs_f64(),
        stormy.as_secs_f64()
    );
    let (told, wrong) = lies.map_or((0, 0), |lies| (lies.told, lies.violations.len()));
    let wrong = verdict.violations.len() + wrong;
    Ok(u8::from(wrong > 0 || short(plan, &verdict.figures, told)))
}

async fn before_a_liar(stage: &Stage, plan: &Plan, place: &Place) -> Result<Lies> {
    let plan = Plan::draw(plan.seed, run::liars_profile(&plan.profile), LIARS);
    let place = Place::create(place.path().join("liar"))?;
    run::before_a_liar(stage, &plan, &place).await
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
        "lying Redis: {} lies in answers within {:.0} s, {} answers true after all, {} wakes for nothing, {} errors and silences; \
         {} operations, {} grants, {} of them without the index",
        lies.told,
        lies.took.as_secs_f64(),
        lies.truths,
        lies.wakes,
        lies.troubles,
        lies.operations,
        lies.granted,
        lies.degraded,
    );
    for (lie, times) in &lies.by_kind {
        println!("  {}: {times}", lie.words());
    }
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
fn short(plan: &Plan, figures: &Figures, lies: u64) -> bool {
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
        ("lies", lies >= plan.profile.lies),
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
