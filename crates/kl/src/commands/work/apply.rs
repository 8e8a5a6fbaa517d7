//! `kl apply`: of a scope, or of a plan that was made before.

use protocol::runs::{Run, RunKind, RunOutcome};

use super::lane::{Choice, Lane, choose};
use super::plan::lock_timeout;
use super::prepare::{Prepared, ToPrepare};
use super::report::{self, Report};
use super::saved;
use super::terraform::{Made, Workshop};
use super::trusted;
use crate::cli::ApplyArgs;
use crate::commands::Context;
use crate::config::values::Confirm;
use crate::failure::{Failure, Kind, Result};
use crate::plan::{PlannedChange, Summary};
use crate::run::Lease;
use crate::scope::plan_targets;

pub(in crate::commands) async fn run(args: ApplyArgs, context: &Context) -> Result<()> {
    if let Some(plan) = &args.plan {
        return saved::run(plan, &args, context).await;
    }
    let to = ToPrepare {
        scope: &args.scope,
        terraform: &args.terraform,
        command: "kl apply",
        kind: RunKind::Apply,
        runs_terraform: true,
    };
    let prepared = Prepared::new(to, context).await?;
    let choice = choose(&prepared, None).await?;
    match &choice.lane {
        Lane::Native(run) => native(&args, &prepared, &choice, run).await,
        Lane::Ordinary { .. } => {
            report::tell(&choice, context);
            ordinary(&args, &prepared, &choice).await
        }
    }
}

async fn native(
    args: &ApplyArgs,
    prepared: &Prepared<'_>,
    choice: &Choice,
    run: &Run,
) -> Result<()> {
    let context = prepared.context;
    let lease = Lease::keep(
        &prepared.client,
        run,
        prepared.interrupts.sender(),
        context.printer,
    );
    report::tell(choice, context);
    let targets = plan_targets(&run.contract);
    let mut report = Report::of(choice, &targets);
    let worked = async {
        let mut workshop = Workshop::open(prepared, &trusted::to_run(run)?)?;
        let made = trusted::plan(prepared, &mut workshop, run, choice, &targets).await?;
        report.planned(&made.plan);
        report::show(&made, context)?;
        if !report.is_worth_applying() {
            return Ok(());
        }
        let agreed = Agreement {
            args,
            confirm: context.settings.confirm.value,
            is_scoped: true,
        };
        agreed.get(&report.summary, prepared).await?;
        report.applied = true;
        apply(prepared, &workshop, &made, &[]).await
    };
    let worked = worked.await;
    end(prepared, run, report, worked, lease).await
}

/// Ends a run that was applied, says what is on record, and passes on how the work went.
pub(super) async fn end(
    prepared: &Prepared<'_>,
    run: &Run,
    mut report: Report,
    worked: Result<()>,
    lease: Lease,
) -> Result<()> {
    let (outcome, reason) = match &worked {
        Ok(()) => (RunOutcome::Succeeded, None),
        Err(failure) => (RunOutcome::Failed, Some(trusted::reason(failure))),
    };
    let ended = trusted::finish(prepared, run, outcome, None, reason).await;
    drop(lease);
    let context = prepared.context;
    if let Some(ended) = &ended {
        if report.applied {
            crate::run::outcome(ended, context.printer);
        }
        report.recorded(ended);
    }
    let printed = context.printer.result(&report, String::new);
    worked?;
    printed
}

async fn ordinary(args: &ApplyArgs, prepared: &Prepared<'_>, choice: &Choice) -> Result<()> {
    let context = prepared.context;
    let mut report = Report::of(choice, &choice.targets);
    let mut workshop = Workshop::open(prepared, &trusted::to_state(prepared, &prepared.state)?)?;
    let timeout = lock_timeout(prepared);
    let made = workshop.plan(&choice.targets, &timeout).await?;
    report.planned(&made.plan);
    report::show(&made, context)?;
    if report.is_worth_applying() {
        let agreed = Agreement {
            args,
            confirm: context.settings.confirm.value,
            is_scoped: false,
        };
        agreed.get(&report.summary, prepared).await?;
        report.applied = true;
        apply(prepared, &workshop, &made, &timeout).await?;
    }
    context.printer.result(&report, String::new)
}

async fn apply(
    prepared: &Prepared<'_>,
    workshop: &Workshop<'_>,
    made: &Made,
    more: &[String],
) -> Result<()> {
    let ended = workshop.apply(&made.file, more).await?;
    if ended.succeeded() {
        return Ok(());
    }
    Err(not_applied(prepared, ended.how(), ended.stopped))
}

/// What to say when Terraform did not get to the end.
pub(super) fn not_applied(prepared: &Prepared<'_>, how: String, stopped: bool) -> Failure {
    let program = &prepared.binary.program;
    let words = match stopped {
        true => format!("`{program} apply` was stopped and {how}"),
        false => format!("`{program} apply` {how}"),
    };
    let failure = Failure::message(Kind::Failed, words);
    if prepared.directory().join("errored.tfstate").exists() {
        return failure.hint("it left errored.tfstate here: run `kl recover` to take it over");
    }
    failure
        .hint("what it uploaded is on record; `kl status` names what may differ, `kl plan` shows what is left")
}

/// Whether the user agrees to a plan.
pub(super) struct Agreement<'a> {
    pub(super) args: &'a ApplyArgs,
    pub(super) confirm: Confirm,
    /// Whether the plan is of a scope, so that what it destroys needs a word of its own.
    pub(super) is_scoped: bool,
}

impl Agreement<'_> {
    async fn get(&self, summary: &Summary, prepared: &Prepared<'_>) -> Result<()> {
        prepared.interrupts.check()?;
        if self.args.auto_approve {
            return self.without_asking(summary);
        }
        self.ask(summary, prepared).await
    }

    /// The same for a plan that was looked at before: only what needs a word of its own is asked for.
    pub(super) async fn get_for_saved(
        &self,
        summary: &Summary,
        prepared: &Prepared<'_>,
    ) -> Result<()> {
        prepared.interrupts.check()?;
        match self.without_asking(summary) {
            Err(_) if !self.args.auto_approve && prepared.context.printer.can_ask() => {
                self.ask(summary, prepared).await
            }
            agreed => agreed,
        }
    }

    async fn ask(&self, summary: &Summary, prepared: &Prepared<'_>) -> Result<()> {
        let printer = prepared.context.printer;
        let question = format!("{} in state `{}`?", in_short(summary), prepared.state.state);
        if !printer.can_ask() {
            return Err(Failure::usage(format!("no terminal to ask on: {question}"))
                .hint("add `--auto-approve` to apply without being asked"));
        }
        match prepared.interrupts.unless(printer.ask(&question)).await?? {
            true => Ok(()),
            false => Err(Failure::failed("cancelled; nothing was applied")),
        }
    }

    fn without_asking(&self, summary: &Summary) -> Result<()> {
        let needing: Vec<&PlannedChange> = match self.confirm {
            _ if !self.is_scoped || self.args.confirm_scope => Vec::new(),
            Confirm::Never => Vec::new(),
            Confirm::Destroy => summary.destructive().collect(),
            Confirm::Always => summary.changes.iter().collect(),
        };
        if needing.is_empty() {
            return Ok(());
        }
        let failure = Failure::failed("the plan needs to be confirmed, and was not applied");
        let failure = needing.iter().fold(failure, |failure, change| {
            failure.hint(format!("{} {}", word(change), change.address))
        });
        Err(failure.hint("add `--confirm-scope` to agree to that"))
    }
}

fn word(change: &PlannedChange) -> &'static str {
    use crate::plan::Action;

    match change.action {
        Action::Delete => "destroys",
        Action::Replace => "replaces",
        Action::Forget => "forgets",
        Action::Create => "creates",
        Action::Update => "updates",
        Action::Import => "imports",
        Action::Move => "moves",
        Action::Read | Action::NoOp => "reads",
    }
}

/// What would be done, named where it cannot be undone.
fn in_short(summary: &Summary) -> String {
    use crate::plan::Action;

    let count = |wanted: &[Action]| {
        let is_wanted = |change: &&PlannedChange| wanted.contains(&change.action);
        summary.changes.iter().filter(is_wanted).count()
    };
    let mut text = format!(
        "Add {}, change {}, destroy {}",
        count(&[Action::Create, Action::Import, Action::Replace]),
        count(&[Action::Update, Action::Move]),
        count(&[Action::Delete, Action::Replace])
    );
    let named: Vec<String> = summary
        .destructive()
        .take(8)
        .map(|change| format!("{} {}", word(change), change.address))
        .collect();
    if !named.is_empty() {
        text.push_str(&format!(" ({})", named.join(", ")));
    }
    text
}
