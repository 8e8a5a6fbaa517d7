//! Beginning a run, and waiting for a scope that somebody else is at work on.

use std::time::{Duration, Instant};

use protocol::Code;
use protocol::runs::{BeginRun, ReopenRun, ReservationConflict, Run, Waiting};
use protocol::scope::ScopeContract;

use super::signals::Interrupts;
use crate::client::{ApiError, Client};
use crate::failure::{Failure, Kind, Result};
use crate::output::Printer;
use crate::output::progress::Progress;
use crate::output::time::{span, stamp};

/// The longest wait within one request; the server accepts no longer one.
const LONGEST_POLL: Duration = Duration::from_secs(25);

/// How a run begins.
pub(crate) enum Begun {
    Run(Box<Run>),
    /// The native lane does not take this scope.
    Refused(Box<Refused>),
}

/// Why not, and what was worked out on the way.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    pub(crate) contract: Option<ScopeContract>,
}

/// Begins a run, after waiting for its scope for at most `patience`.
pub(crate) async fn begin(
    client: &Client,
    mut request: BeginRun,
    patience: Duration,
    interrupts: &Interrupts,
    printer: Printer,
) -> Result<Begun> {
    let mut queue = Queue::new(patience, printer);
    loop {
        request.wait_seconds = queue.poll_seconds();
        let error = match interrupts.unless(client.begin_run(&request)).await? {
            Ok(run) => return Ok(Begun::Run(Box::new(run))),
            Err(error) => error,
        };
        match error.code() {
            Some(Code::ScopeUnsafe | Code::NativeUnsupported) => {
                return Ok(Begun::Refused(Box::new(Refused {
                    contract: error.contract(),
                    reason: error.to_string(),
                })));
            }
            _ => request.ticket = queue.wait(error, interrupts).await?,
        }
    }
}

/// Wakes the run of a saved plan, after waiting for its scope.
pub(crate) async fn reopen(
    client: &Client,
    mut request: ReopenRun,
    patience: Duration,
    interrupts: &Interrupts,
    printer: Printer,
) -> Result<Run> {
    let mut queue = Queue::new(patience, printer);
    loop {
        request.wait_seconds = queue.poll_seconds();
        match interrupts.unless(client.reopen_run(&request)).await? {
            Ok(run) => return Ok(run),
            Err(error) => request.ticket = queue.wait(error, interrupts).await?,
        }
    }
}

/// A place in the queue for a busy scope.
struct Queue {
    until: Instant,
    printer: Printer,
    told: String,
    shown: Option<Progress>,
}

impl Queue {
    fn new(patience: Duration, printer: Printer) -> Self {
        Self {
            until: Instant::now() + patience,
            printer,
            told: String::new(),
            shown: None,
        }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// How long the next request waits. The first does not: its answer says who is in front.
    fn poll_seconds(&self) -> u32 {
        if self.told.is_empty() {
            return 0;
        }
        u32::try_from(self.left().min(LONGEST_POLL).as_secs()).unwrap_or(0)
    }

    /// Says who is in front; returns the ticket for the next try.
    ///
    /// # Errors
    /// Any other refusal, and the conflict itself once patience is at its end.
    async fn wait(&mut self, error: ApiError, interrupts: &Interrupts) -> Result<Option<String>> {
        let Some(waiting) = error.waiting() else {
            return Err(error.into());
        };
        let text = in_front(&waiting);
        if self.left() < Duration::from_secs(1) {
            let failure = Failure::from(error);
            return Err(match text.is_empty() {
                true => failure,
                false => Failure::message(Kind::Held, format!("the scope is busy: {text}"))
                    .hint("`--wait 10m` waits for it; `kl status` shows who holds what"),
            });
        }
        if text != self.told {
            let shown = format!("{text}{}", expectation(&waiting));
            self.shown = Some(Progress::waiting(self.printer, &shown));
            if !self.printer.is_live() {
                self.printer.note(&format!("waiting for {shown}"));
            }
            self.told = text;
        }
        // A server that answers at once instead of after the wait is not asked without a pause.
        interrupts
            .unless(tokio::time::sleep(Duration::from_millis(500)))
            .await?;
        Ok(waiting.ticket)
    }
}

/// How long it may take yet, where enough is known to say so.
fn expectation(waiting: &Waiting) -> String {
    match waiting.expected_seconds {
        Some(0) => ", longer than usual already".to_owned(),
        Some(seconds) => format!(", about {}", span(seconds.into())),
        None => String::new(),
    }
}

/// Who holds what was asked for, and how many wait in front.
fn in_front(waiting: &Waiting) -> String {
    let mut text = waiting
        .conflicts
        .iter()
        .take(3)
        .map(holder)
        .collect::<Vec<_>>()
        .join("; ");
    if waiting.conflicts.len() > 3 {
        text.push_str(&format!("; and {} more", waiting.conflicts.len() - 3));
    }
    if let Some(ahead) = waiting.ahead.filter(|ahead| *ahead > 0) {
        text.push_str(&format!(" ({ahead} wait in front)"));
    }
    text
}

fn holder(conflict: &ReservationConflict) -> String {
    let mut text = format!(
        "{} holds {} since {} with `{}`",
        conflict.who,
        conflict.address,
        stamp(conflict.since),
        conflict.command
    );
    if let Some(run) = &conflict.run {
        text.push_str(&format!(" ({run})"));
    }
    text
}

impl ApiError {
    /// The contract that goes with a scope that could not be proven.
    pub(crate) fn contract(&self) -> Option<ScopeContract> {
        let Self::Refused { problem, .. } = self else {
            return None;
        };
        serde_json::from_value(problem.extra.get("contract")?.clone()).ok()
    }
}
