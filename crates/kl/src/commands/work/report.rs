//! What planning and applying print.

use std::path::PathBuf;

use protocol::RunId;
use protocol::runs::{Run, RunVersion};
use protocol::scope::ScopeContract;
use serde::Serialize;

use super::lane::Choice;
use super::lane::Lane;
use super::terraform::Made;
use crate::commands::Context;
use crate::failure::Result;
use crate::plan::{Plan, Summary};

/// The result of a plan or an apply, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    lane: &'static str,
    /// Why the lane is not the native one.
    reason: Option<String>,
    run: Option<RunId>,
    scope: Option<ScopeContract>,
    targets: Vec<String>,
    has_changes: bool,
    #[serde(flatten)]
    pub(super) summary: Summary,
    notes: Vec<String>,
    pub(super) plan_file: Option<PathBuf>,
    pub(super) applied: bool,
    versions: Vec<RunVersion>,
    kept_count: u32,
}

impl Report {
    /// What is known before anything was planned.
    pub(super) fn of(choice: &Choice, targets: &[String]) -> Self {
        let mut report = match &choice.lane {
            Lane::Native(run) => Self::of_run(run),
            Lane::Ordinary { reason } => Self {
                lane: "http",
                reason: Some(reason.clone()),
                ..Self::empty()
            },
        };
        report.notes.extend(choice.notes.iter().cloned());
        report.targets = targets.to_vec();
        report
    }

    pub(super) fn of_run(run: &Run) -> Self {
        Self {
            lane: "native",
            run: Some(run.id),
            scope: Some(run.contract.clone()),
            ..Self::empty()
        }
    }

    fn empty() -> Self {
        Self {
            lane: "",
            reason: None,
            run: None,
            scope: None,
            targets: Vec::new(),
            has_changes: false,
            summary: Summary::default(),
            notes: Vec::new(),
            plan_file: None,
            applied: false,
            versions: Vec::new(),
            kept_count: 0,
        }
    }

    pub(super) fn planned(&mut self, plan: &Plan) {
        self.summary = Summary::of(plan);
        self.has_changes = self.summary.has_changes();
    }

    pub(super) fn recorded(&mut self, run: &Run) {
        self.versions.clone_from(&run.versions);
        self.kept_count = run.kept_count;
    }

    pub(super) fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// Whether an apply has anything to do, be it only to record what has drifted.
    pub(super) fn is_worth_applying(&self) -> bool {
        self.has_changes || !self.summary.drifted.is_empty() || !self.summary.changes.is_empty()
    }
}

/// Says what will be done and where, before it is planned.
pub(super) fn tell(choice: &Choice, context: &Context) {
    let printer = context.printer;
    match &choice.lane {
        Lane::Native(run) => crate::run::announce(run, printer),
        Lane::Ordinary { reason } => printer.note(&format!(
            "lane: http, as plain Terraform with a lock on the whole state, because {reason}"
        )),
    }
    for note in &choice.notes {
        printer.note(&format!("note: {note}"));
    }
}

/// Shows a plan in Terraform's own words.
pub(super) fn show(made: &Made, context: &Context) -> Result<()> {
    context.printer.raw_stderr(&made.warnings);
    if context.printer.wants_json() {
        return Ok(());
    }
    context.printer.bytes(made.text.as_bytes())
}
