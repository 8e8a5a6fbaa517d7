//! `kl apply PLANFILE`: a plan of `kl plan -o`, applied in the run that made it.

use std::path::Path;

use protocol::runs::{ReopenRun, RunKind};

use super::apply::{Agreement, end, not_applied};
use super::plan::digest_of;
use super::prepare::{Prepared, ToPrepare, on_one_line};
use super::report::Report;
use super::terraform::Workshop;
use super::trusted;
use crate::cli::ApplyArgs;
use crate::commands::Context;
use crate::failure::{Failure, Result};
use crate::run::{Lease, announce, reopen};

/// Applies it. As with Terraform, making the plan and naming it is the agreement, but not to what it destroys.
pub(super) async fn run(plan: &Path, args: &ApplyArgs, context: &Context) -> Result<()> {
    if !args.scope.asked().is_whole() || args.scope.asked().destroy {
        return Err(Failure::usage(
            "a plan has its scope inside: give a plan file or select something, not both",
        ));
    }
    let sha256 = digest_of(plan)?;
    let plan = plan.canonicalize()?;
    let to = ToPrepare {
        scope: &args.scope,
        terraform: &args.terraform,
        command: "kl apply",
        kind: RunKind::Apply,
        runs_terraform: true,
    };
    let prepared = Prepared::new(to, context).await?;
    let request = ReopenRun {
        state: prepared.state.path(),
        plan_sha256: sha256,
        key: uuid::Uuid::new_v4().to_string(),
        command: on_one_line(format!(
            "kl apply {}",
            plan.file_name().unwrap_or_default().to_string_lossy()
        )),
        who: context.surroundings.who(),
        lease_seconds: None,
        wait_seconds: 0,
        ticket: None,
    };
    let run = reopen(
        &prepared.client,
        request,
        prepared.wait.0,
        &prepared.interrupts,
        context.printer,
    )
    .await
    .map_err(|failure| failure.context(format!("{} was not applied", plan.display())))?;
    let lease = Lease::keep(
        &prepared.client,
        &run,
        prepared.interrupts.sender(),
        context.printer,
    );
    announce(&run, context.printer);
    let mut report = Report::of_run(&run);
    let worked = async {
        let workshop = Workshop::open(&prepared, &trusted::to_run(&run)?)?;
        let made = workshop.read(&plan).await?;
        trusted::hold(&prepared, &run, &made, None).await?;
        report.planned(&made);
        if !context.printer.wants_json() {
            let text = workshop.described(&plan).await?;
            context.printer.bytes(text.as_bytes())?;
        }
        let agreed = Agreement {
            args,
            confirm: context.settings.confirm.value,
            is_scoped: true,
        };
        agreed.get_for_saved(&report.summary, &prepared).await?;
        report.applied = true;
        let ended = workshop.apply(&plan, &[]).await?;
        match ended.succeeded() {
            true => Ok(()),
            false => Err(not_applied(&prepared, ended.how(), ended.stopped)),
        }
    };
    let worked = worked.await;
    end(&prepared, &run, report, worked, lease).await
}
