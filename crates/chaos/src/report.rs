//! What a run came to, in figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::check::{Counted, End, Operation, View, Violation};
use crate::history::{Call, Entry};
use crate::ledger::{Ledger, Reservation};

/// How long after a fault what clients see is laid to it.
const ECHO_US: u64 = 1_000_000;

/// The part of a run in which Redis is killed and flushed and nothing else happens, and its fellows.
pub const REDIS_DRILL: &str = "drill: Redis";
pub const POSTGRES_DRILL: &str = "drill: Postgres";
pub const ROLLING_DRILL: &str = "drill: rolling restart";

/// A line of the table: a kind of fault, what clients saw, and what was never lost.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FaultLine {
    pub times: usize,
    /// Operations under way while it lasted or a second later.
    pub operations: usize,
    /// Those that met a 5xx or a broken connection and were repeated.
    pub repeated: usize,
    pub unknown: usize,
    pub slowest_ms: u64,
    /// Grants past the queue.
    pub degraded: usize,
    /// Reservations that clients knew of when it came, and how many of them the ledger does not know.
    pub held: usize,
    pub held_lost: usize,
    /// Writes acknowledged meanwhile, and how many are not in the history.
    pub written: usize,
    pub written_lost: usize,
}

/// What restarts cost when nothing else is broken.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Drills {
    /// 5xx and broken connections while Redis was killed and flushed, and the longest time to the next grant.
    pub redis_errors: u32,
    pub redis_first_grant_ms: u64,
    pub redis_faults: usize,
    /// Reservations held when Postgres was restarted, and how many of them ended otherwise than by their holder.
    pub postgres_held: usize,
    pub postgres_lost: usize,
    pub rolling_renewals: usize,
    pub rolling_failed_renewals: usize,
    pub rolling_commits: usize,
    pub rolling_failed_commits: usize,
    pub rolling_waits: usize,
    pub rolling_lost_places: usize,
}

/// All figures of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    pub operations: usize,
    pub by_call: BTreeMap<&'static str, usize>,
    pub unknown: usize,
    /// Runs and Terraform locks that were granted, and how many of them past the queue.
    pub granted: usize,
    pub degraded: usize,
    pub faults: usize,
    pub recovered: usize,
    pub waits_judged: usize,
    pub overtakes: usize,
    pub internal_errors: usize,
    pub table: BTreeMap<String, FaultLine>,
    pub drills: Drills,
}

impl Figures {
    /// Works them out.
    #[must_use]
    pub fn of(history: &[Entry], ledger: &Ledger, violations: &[Violation]) -> Self {
        let view = View::new(history, ledger);
        let Counted {
            recovered,
            waits_judged,
        } = Counted::of(&view);
        let mut figures = Self {
            operations: view.operations.len(),
            faults: view.disturbances.len(),
            recovered,
            waits_judged,
            overtakes: violations
                .iter()
                .filter(|it| it.invariant == crate::check::Invariant::I11)
                .count(),
            drills: drills(&view, violations),
            ..Self::default()
        };
        for operation in &view.operations {
            *figures.by_call.entry(operation.call.name()).or_default() += 1;
            figures.unknown += usize::from(matches!(operation.end, End::Unknown | End::Open));
            if waits(operation) && operation.end == End::Ok {
                figures.granted += 1;
                figures.degraded += usize::from(operation.answer.degraded);
            }
            figures.internal_errors += usize::from(operation.answer.detail.starts_with("500"));
        }
        figures.table = table(&view);
        figures
    }

    /// Unknown outcomes in per cent.
    #[must_use]
    pub fn unknown_percent(&self) -> f64 {
        if self.operations == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
        let share = self.unknown as f64 / self.operations as f64;
        share * 100.0
    }

    /// The table for people, in Markdown.
    #[must_use]
    pub fn table_text(&self) -> String {
        let mut text = String::from(
            "| fault | times | operations meanwhile | repeated by the client | unknown | slowest | past the queue | \
             reservations held, lost | writes acknowledged, lost |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for (kind, line) in &self.table {
            let _ = writeln!(
                text,
                "| {kind} | {} | {} | {} | {} | {} ms | {} | {}, {} | {}, {} |",
                line.times,
                line.operations,
                line.repeated,
                line.unknown,
                line.slowest_ms,
                line.degraded,
                line.held,
                line.held_lost,
                line.written,
                line.written_lost,
            );
        }
        text
    }
}

fn table(view: &View<'_>) -> BTreeMap<String, FaultLine> {
    let mut table: BTreeMap<String, FaultLine> = BTreeMap::new();
    let told = told(view);
    for fault in &view.disturbances {
        let line = table.entry(fault.kind.to_owned()).or_default();
        line.times += 1;
        let until = fault.to_us + ECHO_US;
        let met = view
            .operations
            .iter()
            .filter(|it| it.began_us < until && it.ended_us > fault.from_us);
        for operation in met {
            line.operations += 1;
            line.repeated += usize::from(operation.answer.troubles > 0);
            line.unknown += usize::from(operation.end == End::Unknown);
            line.degraded += usize::from(operation.answer.degraded);
            if !waits(operation) {
                let took = (operation.ended_us - operation.began_us) / 1000;
                line.slowest_ms = line.slowest_ms.max(took);
            }
            if operation.end == End::Ok {
                let (written, lost) = written(view, operation);
                line.written += written;
                line.written_lost += lost;
            }
        }
        for (operation, held) in &told {
            let is_held = held.is_none_or(|held| {
                held.created_us < fault.from_wall_us
                    && held.ended_us.is_none_or(|ended| ended > fault.from_wall_us)
            });
            if operation.ended_us < fault.from_us && is_held {
                line.held += 1;
                line.held_lost += usize::from(held.is_none());
            }
        }
    }
    table
}

/// Whether its time is that of others.
fn waits(operation: &Operation<'_>) -> bool {
    matches!(operation.call, Call::Begin { .. } | Call::Lock { .. })
}

/// Each grant that a client was told of, with what the ledger knows of it.
fn told<'a>(view: &'a View<'a>) -> Vec<(&'a Operation<'a>, Option<&'a Reservation>)> {
    let granted = view.operations.iter().filter(|it| it.end == End::Ok);
    granted
        .filter_map(|operation| match operation.call {
            Call::Begin { .. } => {
                let id = operation.answer.reservation.as_deref()?;
                Some((operation, view.reservation(id)))
            }
            Call::Lock { id, .. } => Some((operation, view.of_key(id).first().copied())),
            _ => None,
        })
        .collect()
}

/// How many values an acknowledged operation wrote, and how many of them are not there.
fn written(view: &View<'_>, operation: &Operation<'_>) -> (usize, usize) {
    let Some((name, writes)) = operation.call.writes() else {
        return (0, 0);
    };
    let Some(state) = view.state_named(name) else {
        return (0, 0);
    };
    let lost = writes.iter().filter(|write| {
        let rows = view.history(&state.id, &write.address);
        rows.iter().all(|row| row.value != write.value)
    });
    (writes.len(), lost.count())
}

fn drills(view: &View<'_>, violations: &[Violation]) -> Drills {
    let mut drills = Drills::default();
    let ended_in = |phase: &'static str| {
        view.operations
            .iter()
            .filter(move |it| view.phase_at(it.ended_us) == phase && it.end != End::Open)
    };
    drills.redis_errors = ended_in(REDIS_DRILL).map(|it| it.answer.troubles).sum();
    for fault in view
        .disturbances
        .iter()
        .filter(|it| view.phase_at(it.from_us) == REDIS_DRILL)
    {
        drills.redis_faults += 1;
        let grants = view
            .operations
            .iter()
            .filter(|it| waits(it) && it.end == End::Ok);
        let first = grants
            .map(|it| it.ended_us)
            .filter(|at| *at > fault.from_us)
            .min();
        let took = first.map_or(u64::MAX, |at| (at - fault.from_us) / 1000);
        drills.redis_first_grant_ms = drills.redis_first_grant_ms.max(took);
    }
    for fault in view
        .disturbances
        .iter()
        .filter(|it| view.phase_at(it.from_us) == POSTGRES_DRILL)
    {
        let lease = i64::try_from(view.times.lease().as_micros()).unwrap_or(i64::MAX);
        for (operation, held) in told(view) {
            let known = operation.ended_us < fault.from_us;
            let gone = held.is_none_or(|held| {
                held.status == "expired"
                    && held
                        .ended_us
                        .is_some_and(|ended| ended < fault.to_wall_us + lease)
            });
            let over = held.is_none_or(|held| {
                held.ended_us.is_none_or(|ended| ended > fault.from_wall_us)
                    && held
                        .expires_us
                        .is_none_or(|expires| expires > fault.from_wall_us)
            });
            if known && over {
                drills.postgres_held += 1;
                drills.postgres_lost += usize::from(gone);
            }
        }
    }
    for operation in ended_in(ROLLING_DRILL) {
        let failed = usize::from(operation.end != End::Ok);
        match operation.call {
            Call::Renew { .. } => {
                drills.rolling_renewals += 1;
                drills.rolling_failed_renewals += failed;
            }
            Call::Upload { late: false, .. }
            | Call::Push { late: false, .. }
            | Call::Commit {
                uncovered: false, ..
            } => {
                drills.rolling_commits += 1;
                drills.rolling_failed_commits += failed;
            }
            Call::Begin { .. } if operation.answer.queued_us.is_some() => drills.rolling_waits += 1,
            _ => {}
        }
    }
    drills.rolling_lost_places = violations
        .iter()
        .filter(|it| it.invariant == crate::check::Invariant::I11)
        .count();
    drills
}
