//! `kl plan`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::runs::{Run, RunKind, RunOutcome};
use sha2::{Digest as _, Sha256};

use super::lane::{Choice, Lane, choose};
use super::prepare::{Prepared, ToPrepare};
use super::report::{self, Report};
use super::terraform::{Made, Workshop};
use super::trusted;
use crate::cli::PlanArgs;
use crate::commands::Context;
use crate::failure::{Failure, Kind, Result};
use crate::scope::{hex, plan_targets};

pub(in crate::commands) async fn run(args: PlanArgs, context: &Context) -> Result<()> {
    if let Some(output) = &args.output {
        refuse_output(output)?;
    }
    let to = ToPrepare {
        scope: &args.scope,
        terraform: &args.terraform,
        command: "kl plan",
        kind: RunKind::Plan,
        runs_terraform: true,
    };
    let prepared = Prepared::new(to, context).await?;
    let choice = choose(&prepared, None).await?;
    report::tell(&choice, context);
    let (made, mut report) = match &choice.lane {
        Lane::Native(run) => native(&prepared, &choice, run, args.output.as_deref()).await?,
        Lane::Ordinary { .. } => ordinary(&prepared, &choice, args.output.as_deref()).await?,
    };
    report.plan_file.clone_from(&args.output);
    report::show(&made, context)?;
    context.printer.result(&report, String::new)?;
    if let Some(file) = &args.output
        && !context.printer.wants_json()
    {
        context.printer.note(&format!(
            "to apply exactly this: kl apply {}",
            file.display()
        ));
    }
    match args.detailed_exitcode && report.has_changes() {
        true => Err(Failure::message(Kind::Changes, "there are changes")),
        false => Ok(()),
    }
}

async fn native(
    prepared: &Prepared<'_>,
    choice: &Choice,
    run: &Run,
    output: Option<&Path>,
) -> Result<(Made, Report)> {
    let targets = plan_targets(&run.contract);
    let planned = async {
        let mut workshop = Workshop::open(prepared, &trusted::to_run(run)?)?;
        let made = trusted::plan(prepared, &mut workshop, run, choice, &targets).await?;
        let digest = match output {
            Some(output) => Some(keep(&made.file, output)?),
            None => None,
        };
        Ok::<_, Failure>((made, digest))
    };
    match planned.await {
        Ok((made, digest)) => {
            let outcome = match digest {
                Some(_) => RunOutcome::Planned,
                None => RunOutcome::Succeeded,
            };
            let is_kept = digest.is_some();
            let ended = trusted::finish(prepared, run, outcome, digest, None).await;
            if is_kept && ended.is_none() {
                return Err(Failure::failed(
                    "the plan is written, but the server does not know it, so it cannot be applied",
                )
                .hint("run `kl plan` again"));
            }
            let mut report = Report::of(choice, &targets);
            report.planned(&made.plan);
            Ok((made, report))
        }
        Err(failure) => {
            let reason = trusted::reason(&failure);
            trusted::finish(prepared, run, RunOutcome::Failed, None, Some(reason)).await;
            Err(failure)
        }
    }
}

async fn ordinary(
    prepared: &Prepared<'_>,
    choice: &Choice,
    output: Option<&Path>,
) -> Result<(Made, Report)> {
    let mut workshop = Workshop::open(prepared, &trusted::to_state(prepared, &prepared.state)?)?;
    let made = workshop
        .plan(&choice.targets, &lock_timeout(prepared))
        .await?;
    if let Some(output) = output {
        keep(&made.file, output)?;
    }
    let mut report = Report::of(choice, &choice.targets);
    report.planned(&made.plan);
    Ok((made, report))
}

/// Plain Terraform waits for the lock itself.
pub(super) fn lock_timeout(prepared: &Prepared<'_>) -> Vec<String> {
    vec![format!("-lock-timeout={}s", prepared.wait.0.as_secs())]
}

/// Names that Terraform reads in a directory: a plan of such a name would be taken for configuration.
const CONFIGURATION: [&str; 9] = [
    ".tf",
    ".tf.json",
    ".tofu",
    ".tofu.json",
    ".tfvars",
    ".tfvars.json",
    ".tftest.hcl",
    ".hcl",
    ".tfstate",
];
/// A plan is a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";
/// An encrypted one of OpenTofu is JSON with this member.
const ENCRYPTED: &[u8] = b"\"encrypted_data\"";

/// Refuses to write a plan over what is none.
fn refuse_output(output: &Path) -> Result<()> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    if CONFIGURATION.iter().any(|end| name.ends_with(end)) {
        return Err(Failure::usage(format!(
            "{} has the name of a file that Terraform reads, and a plan is none",
            output.display()
        ))
        .hint("give the plan another name, as in `-o x.plan`"));
    }
    let Ok(found) = output.metadata() else {
        return Ok(());
    };
    let mut start = Vec::new();
    if found.is_file()
        && let Ok(file) = std::fs::File::open(output)
    {
        file.take(4096).read_to_end(&mut start)?;
    }
    // An empty one was made to be written to.
    let is_plan = found.is_file() && found.len() == 0
        || start.starts_with(ZIP)
        || start.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
    match is_plan {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} exists and is not a plan, so it is not overwritten",
            output.display()
        ))
        .hint("give the plan another name, or remove the file first")),
    }
}

/// Puts a plan where the user wants it, for nobody else to read; returns its SHA-256.
fn keep(made: &Path, output: &Path) -> Result<String> {
    let unwritable =
        |error| Failure::from(error).context(format!("could not write {}", output.display()));
    let bytes = std::fs::read(made)?;
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial: PathBuf = output.with_file_name(name);
    let mut file = crate::output::target::private_file(&partial).map_err(unwritable)?;
    std::io::Write::write_all(&mut file, &bytes)
        .and_then(|()| std::fs::rename(&partial, output))
        .map_err(|error| {
            // What cannot be removed is named `.partial` and tells its own story.
            _ = std::fs::remove_file(&partial);
            unwritable(error)
        })?;
    Ok(hex(&Sha256::digest(&bytes)))
}

/// The SHA-256 of a plan file, by which its run is found.
pub(super) fn digest_of(plan: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(plan)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| {
            Failure::new(Kind::Usage, error)
                .context(format!("could not read the plan {}", plan.display()))
        })?;
    Ok(hex(&Sha256::digest(&bytes)))
}
