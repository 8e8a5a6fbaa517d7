//! A history and a ledger, looked up from all sides.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::segments;
use crate::history::{Answer, Call, Entry, Event};
use crate::ledger::{Ledger, Reservation, Row, State, bare};
use crate::plan::Times;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Ok,
    Fail,
    Unknown,
    /// The history ends first.
    Open,
}

/// An operation from its beginning to its end.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    pub client: &'a str,
    pub call: &'a Call,
    pub began_us: u64,
    pub began_wall_us: i64,
    pub ended_us: u64,
    pub ended_wall_us: i64,
    pub end: End,
    pub answer: &'a Answer,
}

/// A time in which something was broken.
#[derive(Debug, Clone)]
pub struct Disturbance<'a> {
    pub kind: &'a str,
    pub from_us: u64,
    pub to_us: u64,
    pub from_wall_us: i64,
    pub to_wall_us: i64,
}

/// A claim of the ledger: where, and whether to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub path: Vec<String>,
    pub write: bool,
}

/// Everything a check looks at.
pub struct View<'a> {
    pub ledger: &'a Ledger,
    pub operations: Vec<Operation<'a>>,
    pub disturbances: Vec<Disturbance<'a>>,
    /// When each part of the run began.
    pub phases: Vec<(u64, &'a str)>,
    pub times: Times,
    reservations: BTreeMap<&'a str, &'a Reservation>,
    by_run: BTreeMap<&'a str, Vec<&'a Reservation>>,
    by_key: BTreeMap<&'a str, Vec<&'a Reservation>>,
    claims: BTreeMap<&'a str, Vec<Held>>,
    states: BTreeMap<&'a str, &'a State>,
    names: BTreeMap<&'a str, &'a State>,
    rows: BTreeMap<&'a str, BTreeMap<&'a str, Vec<Row>>>,
    /// Addresses that runs claimed after they began.
    added: BTreeMap<String, BTreeSet<Vec<String>>>,
}

static NO_ANSWER: Answer = Answer {
    status: 0,
    code: String::new(),
    tries: 0,
    troubles: 0,
    run: None,
    reservation: None,
    token: None,
    expires_us: None,
    degraded: false,
    values: BTreeMap::new(),
    serial: None,
    sha256: None,
    kept: false,
    conflicts: Vec::new(),
    queued_us: None,
    longest_gap_us: 0,
    detail: String::new(),
};

impl<'a> View<'a> {
    #[must_use]
    pub fn new(history: &'a [Entry], ledger: &'a Ledger) -> Self {
        let mut view = Self {
            ledger,
            operations: Vec::new(),
            disturbances: Vec::new(),
            phases: Vec::new(),
            times: ledger.times.unwrap_or(Times { scale: 1.0 }),
            reservations: ledger.reservations.iter().map(|it| (&*it.id, it)).collect(),
            by_run: BTreeMap::new(),
            by_key: BTreeMap::new(),
            claims: BTreeMap::new(),
            states: ledger.states.iter().map(|it| (&*it.id, it)).collect(),
            names: ledger.states.iter().map(|it| (&*it.name, it)).collect(),
            rows: BTreeMap::new(),
            added: BTreeMap::new(),
        };
        view.read_history(history);
        view.read_ledger(ledger);
        view
    }

    fn read_history(&mut self, history: &'a [Entry]) {
        let end_us = history.last().map_or(0, |entry| entry.at_us);
        let end_wall_us = history.last().map_or(0, |entry| entry.wall_us);
        let mut open = BTreeMap::new();
        let mut faults = BTreeMap::new();
        for entry in history {
            match &entry.event {
                Event::Invoke { op, client, call } => {
                    open.insert(*op, self.operations.len());
                    self.operations.push(Operation {
                        client,
                        call,
                        began_us: entry.at_us,
                        began_wall_us: entry.wall_us,
                        ended_us: end_us,
                        ended_wall_us: end_wall_us,
                        end: End::Open,
                        answer: &NO_ANSWER,
                    });
                    if let Call::Extend { run, claims } = call {
                        let added = claims.iter().map(|claim| segments(&claim.address));
                        self.added.entry(bare(run)).or_default().extend(added);
                    }
                }
                Event::Ok { op, answer } => self.close(&open, *op, entry, End::Ok, answer),
                Event::Fail { op, answer } => self.close(&open, *op, entry, End::Fail, answer),
                Event::Unknown { op, answer } => {
                    self.close(&open, *op, entry, End::Unknown, answer);
                }
                Event::Fault { number, kind, .. } => {
                    faults.insert(*number, self.disturbances.len());
                    self.disturbances.push(Disturbance {
                        kind,
                        from_us: entry.at_us,
                        to_us: end_us,
                        from_wall_us: entry.wall_us,
                        to_wall_us: end_wall_us,
                    });
                }
                Event::Healed { number } => {
                    if let Some(at) = faults.get(number) {
                        self.disturbances[*at].to_us = entry.at_us;
                        self.disturbances[*at].to_wall_us = entry.wall_us;
                    }
                }
                Event::Phase { name } => self.phases.push((entry.at_us, name)),
            }
        }
    }

    fn close(
        &mut self,
        open: &BTreeMap<u64, usize>,
        op: u64,
        entry: &Entry,
        end: End,
        answer: &'a Answer,
    ) {
        if let Some(at) = open.get(&op) {
            let operation = &mut self.operations[*at];
            operation.end = end;
            operation.answer = answer;
            operation.ended_us = entry.at_us;
            operation.ended_wall_us = entry.wall_us;
        }
    }

    fn read_ledger(&mut self, ledger: &'a Ledger) {
        for reservation in &ledger.reservations {
            if let Some(run) = &reservation.run_id {
                self.by_run.entry(run).or_default().push(reservation);
            }
            let key = &*reservation.idem_key;
            self.by_key.entry(key).or_default().push(reservation);
        }
        for claim in &ledger.claims {
            self.claims
                .entry(&claim.reservation_id)
                .or_default()
                .push(Held {
                    path: claim.path.clone(),
                    write: claim.mode == "write",
                });
        }
        for row in &ledger.rows {
            let state = self.rows.entry(&row.state_id).or_default();
            state.entry(&row.address).or_default().push(row.clone());
        }
        for rows in self.rows.values_mut().flat_map(BTreeMap::values_mut) {
            rows.sort_by_key(|row| row.born_seq);
            // Terraform writes other white space than clients of the state engine do: another row, and nothing was changed.
            let is_same =
                |row: &Row, before: &Row| row.value == before.value && row.before == before.before;
            let mut joined: Vec<Row> = Vec::with_capacity(rows.len());
            for row in rows.drain(..) {
                match joined.last_mut() {
                    Some(last) if is_same(&row, last) => last.dies_seq = row.dies_seq,
                    _ => joined.push(row),
                }
            }
            *rows = joined;
        }
    }

    /// The name of a state, for people.
    #[must_use]
    pub fn name(&self, state: &'a str) -> &'a str {
        self.states.get(state).map_or(state, |state| &state.name)
    }

    #[must_use]
    pub fn state_named(&self, name: &str) -> Option<&'a State> {
        self.names.get(name).copied()
    }

    #[must_use]
    pub fn reservation(&self, id: &str) -> Option<&'a Reservation> {
        self.reservations.get(&*bare(id)).copied()
    }

    /// Every reservation that a run ever had.
    #[must_use]
    pub fn of_run(&self, run: &str) -> &[&'a Reservation] {
        self.by_run.get(&*bare(run)).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn of_key(&self, key: &str) -> &[&'a Reservation] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// What a reservation claims. Every lock of another lane is the whole state.
    #[must_use]
    pub fn claims(&self, reservation: &Reservation) -> Vec<Held> {
        match self.claims.get(&*reservation.id) {
            Some(claims) if reservation.lane == "native" => claims.clone(),
            _ => vec![Held {
                path: Vec::new(),
                write: true,
            }],
        }
    }

    /// Whether a claim of a run may have been added after it began.
    #[must_use]
    pub fn may_be_added(&self, reservation: &Reservation, path: &[String]) -> bool {
        let run = reservation.run_id.as_deref().unwrap_or_default();
        self.added
            .get(run)
            .is_some_and(|added| added.contains(path))
    }

    /// What ever stood at the addresses of each state, in order.
    pub fn histories(&self) -> impl Iterator<Item = (&'a str, &'a str, &[Row])> {
        self.rows.iter().flat_map(|(state, addresses)| {
            addresses
                .iter()
                .map(|(address, rows)| (*state, *address, rows.as_slice()))
        })
    }

    #[must_use]
    pub fn history(&self, state: &str, address: &str) -> &[Row] {
        let rows = self.rows.get(state).and_then(|state| state.get(address));
        rows.map_or(&[], Vec::as_slice)
    }

    /// Whether anything was broken in a time or shortly before. A replica that is drained breaks nothing: whoever waits
    /// there is told to come again, and keeps the place.
    #[must_use]
    pub fn is_disturbed(&self, from_us: u64, to_us: u64, echo_us: u64) -> bool {
        let meets = |it: &Disturbance<'_>| {
            it.kind != "replica drained" && it.from_us <= to_us && it.to_us + echo_us >= from_us
        };
        self.disturbances.iter().any(meets)
    }

    /// The part of the run at a moment.
    #[must_use]
    pub fn phase_at(&self, at_us: u64) -> &'a str {
        let before = self.phases.iter().rev().find(|(from, _)| *from <= at_us);
        before.map_or("", |(_, name)| *name)
    }
}

/// Whether two claims exclude each other: one covers the other, and one of them writes.
#[must_use]
pub(super) fn conflict(one: &Held, other: &Held) -> bool {
    (one.write || other.write)
        && (one.path.starts_with(&other.path) || other.path.starts_with(&one.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_conflict_by_segments() {
        let held = |path: &str, write| Held {
            path: segments(path),
            write,
        };
        let b0 = "module.m.terraform_data.b0";
        assert!(conflict(&held("module.m", true), &held(b0, false)));
        assert!(conflict(&held("*", false), &held(b0, true)));
        assert!(!conflict(&held("module.m", false), &held(b0, false)));
        assert!(!conflict(
            &held("terraform_data.a1", true),
            &held("terraform_data.a10", true)
        ));
    }
}
