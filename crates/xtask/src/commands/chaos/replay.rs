//! Running a plan once more, and what that is good for: the same clients and the same faults, and whether the same comes of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use chaos::alike::Alike;
use chaos::check::{Invariant, Violation};
use chaos::history;
use chaos::plan::{Plan, Profile};
use clap::Args;

use super::run::{self, Place};
use super::{How, SEED, place_of, profile, run_plan};
use crate::host::workspace::Workspace;

#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
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

/// Runs the plan of an earlier run once more, beside it. With a directory both are held against each other.
pub(super) async fn run(workspace: &Workspace, args: &ReplayArgs) -> Result<u8> {
    match &args.dir {
        Some(dir) => again(workspace, &Place::at(dir.clone())).await,
        None => {
            let seed = args.seed.unwrap_or(SEED);
            let plan = Plan::draw(seed, profile(&args.profile)?, "");
            run_plan(workspace, &plan, &beside(workspace, &plan)?, How::default()).await
        }
    }
}

/// A short run, the same once more from what it wrote down, and a look at whether they were alike.
pub(super) async fn smoke(workspace: &Workspace) -> Result<u8> {
    let plan = Plan::draw(SEED, profile("smoke")?, "");
    let earlier = place_of(workspace, &plan)?;
    match run_plan(workspace, &plan, &earlier, How::default()).await? {
        0 => again(workspace, &earlier).await,
        code => Ok(code),
    }
}

async fn again(workspace: &Workspace, earlier: &Place) -> Result<u8> {
    let plan = earlier.read_plan()?;
    ensure!(
        Profile::named(&plan.profile.name).is_some() && !plan.is_part(),
        "{} is a part of a run: replay the whole, or a planted bug by `cargo xtask chaos teeth {}`",
        earlier.path().display(),
        plan.profile.name,
    );
    let later = beside(workspace, &plan)?;
    ensure!(
        later.path() != earlier.path(),
        "{} is a replay itself",
        earlier.path().display()
    );
    let code = run_plan(workspace, &plan, &later, How::default()).await?;
    let alike = Alike::of(
        &history::read(&earlier.history())?,
        &history::read(&later.history())?,
    );
    println!(
        "replay: {} clients and {} faults, {} differences from {}",
        alike.clients,
        alike.faults,
        alike.differences.len(),
        earlier.path().display()
    );
    alike
        .differences
        .iter()
        .for_each(|what| println!("  {what}"));
    let (before, now) = (run::judge(earlier)?, run::judge(&later)?);
    let (before, now) = (broken(&before.violations), broken(&now.violations));
    println!("replay: broken before {before:?}, and now {now:?}");
    Ok(code.max(u8::from(!alike.differences.is_empty())))
}

fn broken(violations: &[Violation]) -> BTreeSet<Invariant> {
    violations.iter().map(|it| it.invariant).collect()
}

/// Where a replay is written down: the run that it repeats stays as it is.
fn beside(workspace: &Workspace, plan: &Plan) -> Result<Place> {
    let name = format!("{}-{}-replay", plan.profile.name, plan.seed);
    Place::create(workspace.target().join("chaos").join(name))
}
