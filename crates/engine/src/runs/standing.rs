//! What a run is at the moment, from its own row and that of its reservation. Pure.

use protocol::RunId;
use protocol::events::RunEvent;
use protocol::runs::{RunKind, RunStatus};
use store::{RunRecord, RunStanding};

use crate::EngineError;

pub(super) fn kind(record: &RunRecord) -> RunKind {
    kind_of(&record.kind)
}

fn kind_of(text: &str) -> RunKind {
    match text {
        "plan" => RunKind::Plan,
        "operation" => RunKind::Operation,
        _ => RunKind::Apply,
    }
}

pub(super) fn kind_text(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Plan => "plan",
        RunKind::Apply => "apply",
        RunKind::Operation => "operation",
    }
}

pub(super) fn status(record: &RunRecord) -> RunStatus {
    status_of(&record.status, record.reservation_status.as_deref())
}

fn status_of(own: &str, of_reservation: Option<&str>) -> RunStatus {
    match (own, of_reservation) {
        ("planned", _) => RunStatus::Planned,
        ("succeeded", _) => RunStatus::Succeeded,
        ("failed", _) => RunStatus::Failed,
        ("aborted", _) | ("running", Some("broken" | "restored" | "released")) => {
            RunStatus::Aborted
        }
        ("running", Some("expired")) => RunStatus::Expired,
        _ => RunStatus::Running,
    }
}

/// A run as those see it who watch its state.
pub(crate) fn shown(run: &RunStanding) -> RunEvent {
    // What others did to it stands with its reservation.
    let is_cut_off = run.status == "running";
    RunEvent {
        id: RunId::from_uuid(run.id),
        kind: kind_of(&run.kind),
        status: status_of(&run.status, run.reservation_status.as_deref()),
        command: run.command.clone(),
        who: run.who.clone(),
        started_at: run.started_at,
        finished_at: run
            .finished_at
            .or(run.reservation_ended_at.filter(|_| is_cut_off)),
        error: run
            .error
            .clone()
            .or(run.reservation_end.clone().filter(|_| is_cut_off)),
    }
}

/// What its client may still do with a run.
pub(super) enum Standing {
    /// It is under way, and holds what it held.
    Alive,
    /// What it holds was ended by somebody else, or its lease ran out.
    Lost { reason: String },
}

/// What of a run's record says how it stands.
pub(super) struct Facts<'r> {
    status: RunStatus,
    reservation_status: Option<&'r str>,
    reservation_end: Option<&'r String>,
    error: Option<&'r String>,
}

impl<'r> From<&'r RunRecord> for Facts<'r> {
    fn from(record: &'r RunRecord) -> Self {
        Self {
            status: status(record),
            reservation_status: record.reservation_status.as_deref(),
            reservation_end: record.reservation_end.as_ref(),
            error: record.error.as_ref(),
        }
    }
}

impl<'r> From<&'r RunStanding> for Facts<'r> {
    fn from(run: &'r RunStanding) -> Self {
        Self {
            status: status_of(&run.status, run.reservation_status.as_deref()),
            reservation_status: run.reservation_status.as_deref(),
            reservation_end: run.reservation_end.as_ref(),
            error: run.error.as_ref(),
        }
    }
}

/// Fails for a run that its own client ended or put to sleep.
pub(super) fn standing<'r>(run: impl Into<Facts<'r>>) -> Result<Standing, EngineError> {
    let facts = run.into();
    // One that failed because its Terraform was gone may hear from it yet.
    let was_cut_off = facts.reservation_status == Some("broken");
    match facts.status {
        RunStatus::Running => Ok(Standing::Alive),
        RunStatus::Failed if was_cut_off => Ok(Standing::Lost {
            reason: facts.end_reason(),
        }),
        RunStatus::Aborted | RunStatus::Expired => Ok(Standing::Lost {
            reason: facts.end_reason(),
        }),
        RunStatus::Planned => Err(EngineError::RunEnded(
            "it sleeps over its plan: `kl apply` of the plan file wakes it".to_owned(),
        )),
        RunStatus::Succeeded => Err(EngineError::RunEnded("it is done".to_owned())),
        RunStatus::Failed => Err(EngineError::RunEnded("it has failed".to_owned())),
    }
}

/// As [`standing`], and fails for one whose reservation was lost, too.
pub(super) fn alive<'r>(run: impl Into<Facts<'r>>) -> Result<(), EngineError> {
    match standing(run)? {
        Standing::Alive => Ok(()),
        Standing::Lost { reason } => Err(EngineError::LeaseLost {
            reason,
            kept: false,
        }),
    }
}

impl Facts<'_> {
    fn end_reason(&self) -> String {
        let reason = self.reservation_end.or(self.error);
        reason
            .cloned()
            .unwrap_or_else(|| "it was aborted".to_owned())
    }
}
