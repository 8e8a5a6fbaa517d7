//! Small histories, written by hand: one state `s`, and a clock that ticks once for each event.

mod told;

use crate::history::{Answer, Call, Entry, Event};
use crate::ledger::{Index, Kept, Ledger, Mark, ReadBack, Reservation, Row, Run, State, Version};
use crate::plan::Times;

use super::View;

/// A millisecond between two events.
const TICK: u64 = 1_000;

pub(super) struct Sample {
    ledger: Ledger,
    history: Vec<Entry>,
    ops: u64,
}

impl Default for Sample {
    fn default() -> Self {
        let state = State {
            id: "st".to_owned(),
            name: "s".to_owned(),
            r#gen: 1,
            ..State::default()
        };
        Self {
            ledger: Ledger {
                times: Some(Times { scale: 1.0 }),
                states: vec![state],
                ..Ledger::default()
            },
            history: Vec::new(),
            ops: 0,
        }
    }
}

impl Sample {
    pub(super) fn view(&self) -> View<'_> {
        View::new(&self.history, &self.ledger)
    }

    pub(super) fn now(&self) -> u64 {
        self.history.len() as u64 * TICK
    }

    fn note(&mut self, event: Event) {
        let at_us = self.now() + TICK;
        self.history.push(Entry {
            at_us,
            wall_us: i64::try_from(at_us).unwrap(),
            event,
        });
    }

    fn invoke(&mut self, call: Call) -> u64 {
        self.ops += 1;
        let op = self.ops;
        self.note(Event::Invoke {
            op,
            client: "c".to_owned(),
            call,
        });
        op
    }

    fn ok(&mut self, call: Call, answer: Answer) {
        let op = self.invoke(call);
        self.note(Event::Ok { op, answer });
    }

    fn fail(&mut self, call: Call, status: u16, code: &str) {
        let op = self.invoke(call);
        let answer = Answer {
            status,
            code: code.to_owned(),
            tries: 1,
            ..Answer::default()
        };
        self.note(Event::Fail { op, answer });
    }

    /// A native reservation of the run `run-ID`.
    pub(super) fn hold(
        &mut self,
        id: &str,
        token: i64,
        granted_gen: i64,
        ended_gen: Option<i64>,
        claims: &[(&str, bool)],
    ) {
        self.ledger.reservations.push(Reservation {
            id: id.to_owned(),
            state_id: "st".to_owned(),
            run_id: Some(format!("run{id}")),
            lane: "native".to_owned(),
            idem_key: format!("key of {id}"),
            token,
            status: if ended_gen.is_some() {
                "released"
            } else {
                "active"
            }
            .to_owned(),
            granted_gen,
            ended_gen,
            created_us: 0,
            ended_us: ended_gen.map(|_| 1_000_000),
            ..Reservation::default()
        });
        for (address, write) in claims {
            self.ledger.claims.push(crate::ledger::Claim {
                reservation_id: id.to_owned(),
                path: crate::document::segments(address),
                mode: if *write { "write" } else { "read" }.to_owned(),
            });
        }
    }

    /// A lock of plain Terraform.
    pub(super) fn lock(&mut self, id: &str, token: i64, granted_gen: i64, ended_gen: Option<i64>) {
        self.hold(id, token, granted_gen, ended_gen, &[]);
        let held = self.ledger.reservations.last_mut().unwrap();
        held.lane = "terraform".to_owned();
        held.idem_key = id.to_owned();
        held.run_id = None;
    }

    pub(super) fn end_as(&mut self, id: &str, status: &str, began: bool) {
        let held = self
            .ledger
            .reservations
            .iter_mut()
            .find(|held| held.id == id);
        let held = held.unwrap();
        held.status = status.to_owned();
        held.began = began;
    }

    pub(super) fn expired(&mut self, id: &str, expires_us: i64, ended_us: i64) {
        self.hold(id, 1, 1, Some(2), &[]);
        self.end_as(id, "expired", false);
        let held = self.ledger.reservations.last_mut().unwrap();
        held.expires_us = Some(expires_us);
        held.ended_us = Some(ended_us);
    }

    pub(super) fn version(&mut self, seq: i64, reservation: &str, created_us: i64) {
        self.ledger.versions.push(Version {
            state_id: "st".to_owned(),
            seq,
            reservation_id: Some(reservation.to_owned()),
            run_id: Some(format!("run{reservation}")),
            created_us,
            sha256: Some("same".to_owned()),
            ..Version::default()
        });
    }

    pub(super) fn head(&mut self, seq: i64) {
        self.ledger.states[0].head_seq = seq;
    }

    pub(super) fn row(&mut self, address: &str, born_seq: i64, value: &str, before: &str) {
        let rows = self.ledger.rows.iter_mut();
        for row in rows.filter(|row| row.address == address && row.dies_seq.is_none()) {
            row.dies_seq = Some(born_seq);
        }
        self.ledger.rows.push(Row {
            state_id: "st".to_owned(),
            address: address.to_owned(),
            born_seq,
            dies_seq: None,
            value: value.to_owned(),
            before: before.to_owned(),
        });
    }

    pub(super) fn kept(&mut self, reservation: &str, digest: &str) {
        self.ledger.kept.push(Kept {
            reservation_id: reservation.to_owned(),
            digest: digest.to_owned(),
            ..Kept::default()
        });
    }

    pub(super) fn mark(&mut self, reservation: &str, address: &str) {
        self.ledger.marks.push(Mark {
            reservation_id: reservation.to_owned(),
            path: crate::document::segments(address),
        });
    }

    pub(super) fn run(&mut self, id: &str, key: &str) {
        self.ledger.runs.push(Run {
            id: id.to_owned(),
            state_id: "st".to_owned(),
            idem_key: key.to_owned(),
            status: "running".to_owned(),
        });
    }

    pub(super) fn index(&mut self, wm: i64, held: &[&str]) {
        self.ledger.index.push(Index {
            state_id: "st".to_owned(),
            wm,
            held: held.iter().map(|id| (*id).to_owned()).collect(),
        });
    }

    pub(super) fn document(&mut self, seq: i64, plain: &str, history: &str, rows: &str) {
        self.ledger.documents.push(ReadBack {
            state_id: "st".to_owned(),
            seq,
            plain_sha256: plain.to_owned(),
            history_sha256: history.to_owned(),
            rows_digest: rows.to_owned(),
        });
    }

    pub(super) fn phase(&mut self, name: &str) {
        self.note(Event::Phase {
            name: name.to_owned(),
        });
    }

    /// Something was broken all the time.
    pub(super) fn disturbed(&mut self) {
        let event = Event::Fault {
            number: 1,
            kind: "link cut".to_owned(),
            what: String::new(),
        };
        let entry = Entry {
            at_us: 0,
            wall_us: 0,
            event,
        };
        self.history.insert(0, entry);
    }

    /// Nobody could renew from one moment to another.
    pub(super) fn outage(&mut self, from_us: i64, to_us: i64) {
        let at = |wall_us: i64, event| Entry {
            at_us: u64::try_from(wall_us).unwrap(),
            wall_us,
            event,
        };
        self.history.push(at(
            from_us,
            Event::Fault {
                number: 9,
                kind: "all replicas frozen".to_owned(),
                what: String::new(),
            },
        ));
        self.history.push(at(to_us, Event::Healed { number: 9 }));
    }
}
