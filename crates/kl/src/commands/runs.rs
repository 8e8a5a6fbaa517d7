//! `kl run begin | status | end`: a run for another tool that runs Terraform.
//!
//! The tool gets a data directory that leads Terraform to the run, and the targets. Not the token as
//! a variable: `terraform_remote_state` reads TF_HTTP_PASSWORD, too, and would be refused with it.

use std::collections::BTreeMap;

use protocol::RunId;
use protocol::runs::{FinishRun, Run, RunKind, RunOutcome};
use protocol::scope::ScopeContract;
use serde::Serialize;

use super::abort::still_under_way;
use super::work::{Choice, Lane, Prepared, ToPrepare, Workshop, choose, finish, reason, to_run};
use super::{Context, watch, why};
use crate::cli::{RunBeginArgs, RunCommand, RunEndArgs, RunStatusArgs, TerraformArgs};
use crate::failure::{Failure, Kind, Result};
use crate::scope::plan_targets;
use crate::terraform::remove_left;

/// Names the run in the environment that `begin` prints.
const RUN: &str = "KL_RUN";
/// One variable may be no longer than this on Linux, its name and the final NUL included.
const LONGEST_VARIABLE: usize = 128 * 1024;

#[derive(Serialize)]
struct View {
    run: RunId,
    environment: BTreeMap<String, String>,
    scope: ScopeContract,
}

pub(super) async fn run(command: RunCommand, context: &Context) -> Result<()> {
    match command {
        RunCommand::Begin(args) => begin(args, context).await,
        RunCommand::Status(args) => status(args, context).await,
        RunCommand::End(args) => end(args, context).await,
    }
}

async fn begin(args: RunBeginArgs, context: &Context) -> Result<()> {
    let terraform = TerraformArgs::default();
    let to = ToPrepare {
        scope: &args.scope,
        terraform: &terraform,
        command: "kl run begin",
        kind: match args.plan_only {
            true => RunKind::Plan,
            false => RunKind::Apply,
        },
        runs_terraform: false,
    };
    let prepared = Prepared::new(to, context).await?;
    let lease = u32::try_from(args.lease.0.as_secs()).unwrap_or(u32::MAX);
    let choice = choose(&prepared, Some(lease)).await?;
    let run = match &choice.lane {
        Lane::Native(run) => run,
        Lane::Ordinary { reason } => {
            return Err(Failure::message(
                Kind::Unproven,
                format!("there is no run to begin: {reason}"),
            )
            .hint("plain Terraform works on the whole state without one"));
        }
    };
    let view = match environment(&prepared, run).await {
        Ok(environment) => View {
            run: run.id,
            environment,
            scope: run.contract.clone(),
        },
        Err(failure) => {
            let why = Some(reason(&failure));
            finish(&prepared, run, RunOutcome::Failed, None, why).await;
            return Err(failure);
        }
    };
    tell(&choice, run, context);
    context.printer.result(&view, || {
        let exports = view.environment.iter();
        exports
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
            .collect()
    })
}

fn tell(choice: &Choice, run: &Run, context: &Context) {
    crate::run::announce(run, context.printer);
    for note in &choice.notes {
        context.printer.note(&format!("note: {note}"));
    }
}

async fn environment(prepared: &Prepared<'_>, run: &Run) -> Result<BTreeMap<String, String>> {
    let targets: Vec<String> = plan_targets(&run.contract)
        .iter()
        .map(|target| quoted(&format!("-target={target}")))
        .collect();
    let targets = targets.join(" ");
    let mut environment = BTreeMap::from([(RUN.to_owned(), run.id.to_string())]);
    for command in ["plan", "apply", "destroy", "refresh"] {
        let name = format!("TF_CLI_ARGS_{command}");
        if name.len() + targets.len() + 2 > LONGEST_VARIABLE {
            return Err(Failure::failed(format!(
                "the {} targets of the run do not fit into a variable",
                targets.split(' ').count()
            ))
            .hint("select whole modules with --target, or use `kl plan` and `kl apply`"));
        }
        environment.insert(name, targets.clone());
    }
    let workshop = Workshop::open(prepared, &to_run(run)?)?;
    let directory = workshop.leave(&run.id).await?;
    environment.insert("TF_DATA_DIR".to_owned(), directory.display().to_string());
    Ok(environment)
}

/// A word for a POSIX shell, and for Terraform, which splits these variables by the same rules.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn named(run: Option<RunId>, context: &Context) -> Result<RunId> {
    if let Some(run) = run {
        return Ok(run);
    }
    let text = context.surroundings.variable(RUN).ok_or_else(|| {
        Failure::usage(format!("no run is named, and {RUN} is not set"))
            .hint("`kl status` lists the runs of the state")
    })?;
    text.parse()
        .map_err(|error| Failure::usage(format!("{RUN}: {error}")))
}

async fn status(args: RunStatusArgs, context: &Context) -> Result<()> {
    let run = named(args.run, context)?;
    if args.watch {
        return watch::run(&run, context).await;
    }
    let run = context.client()?.get_run(&run).await?;
    context
        .printer
        .result(&run, || why::described(&run, context))
}

async fn end(args: RunEndArgs, context: &Context) -> Result<()> {
    let id = named(args.run, context)?;
    let end = FinishRun {
        outcome: match args.failed {
            true => RunOutcome::Failed,
            false => RunOutcome::Succeeded,
        },
        plan_sha256: None,
        error: None,
        checked: false,
        refreshed: args.refresh,
    };
    let client = context.client()?;
    // What it left here goes whatever else is to be said: its token has ended, or ends now.
    let over = still_under_way(&client, &id, "end").await;
    let run = match over {
        Ok(()) => client
            .finish_run(&id, &end)
            .await
            .map_err(|error| Failure::from(error).context(format!("could not end run {id}")))?,
        Err(failure) => {
            if failure.kind() == Kind::Failed {
                tidy(&id, context);
            }
            return Err(failure);
        }
    };
    tidy(&id, context);
    crate::run::outcome(&run, context.printer);
    context
        .printer
        .result(&run, || format!("ended run {}\n", run.id))
}

/// Removes the data directories of a run that is over. That one stays behind is untidy and no more.
fn tidy(run: &RunId, context: &Context) {
    for (directory, error) in remove_left(run) {
        context.printer.warning(&format!(
            "could not remove {}: {error}",
            directory.display()
        ));
    }
}
