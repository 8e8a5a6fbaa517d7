//! A native run in words: begin and wait, open, read, write back, renew, end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clock::microseconds;
use super::waiting::Waiting;
use super::wanted::{Wanted, claim};
use super::{Actor, Outcome, Signal, note_document, nothing, sha256};
use crate::document::Document;
use crate::history::{Call, Write};
use crate::plan::Role;
use crate::wire::{Reply, Request, Who};

/// How long a client asks the service to wait, by the protocol's clock. Every other one comes back soon, with its ticket.
const LONG_WAIT: u32 = 25;
const SHORT_WAIT: u32 = 5;

/// A run that was granted.
pub(super) struct Run {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) token: i64,
    pub(super) lock: String,
    password: String,
    /// The bodies that it sent.
    pub(super) sent: Vec<Sent>,
    /// The request that began it, to be sent once more.
    request: Request,
    /// When the last renewal was sent, or the request that was granted.
    renewed: Instant,
}

/// A body with what it writes.
#[derive(Clone)]
pub(super) struct Sent {
    body: Vec<u8>,
    writes: Vec<Write>,
}

impl Actor {
    /// Begins a run. A patient client comes back until it is granted; another gives up after some tries.
    pub(super) async fn begin(
        &mut self,
        state: &str,
        wanted: &Wanted,
        polls: Option<u32>,
    ) -> Option<Run> {
        self.claimed = wanted.covered();
        let key = self.name_anew("key");
        let wait_seconds = match polls {
            Some(0) => 0,
            _ if self.plan.role == Role::Queuer || self.number.is_multiple_of(2) => LONG_WAIT,
            _ => SHORT_WAIT,
        };
        let mut waiting = self.begin_waiting(Call::Begin {
            state: state.to_owned(),
            key: key.clone(),
            claims: wanted.claims.clone(),
            patient: polls.is_none(),
            wait_seconds,
        });
        let mut body = json!({
            "state": self.full_name(state), "kind": "apply", "key": key, "command": "kl apply",
            "who": format!("{}@chaos", self.plan.name), "scope": wanted.scope(), "lease_seconds": 60,
            "wait_seconds": wait_seconds,
        });
        let longest = self.world.times.seconds(f64::from(LONG_WAIT));
        let asked_to_wait = self.world.times.seconds(f64::from(wait_seconds));
        let mut asked = 0;
        loop {
            let request = Request::new("POST", "/v1/runs", Who::Writer)
                .json(&body)
                .waiting(longest);
            let sent = Instant::now();
            let reply = self.ask_again(&mut waiting, &request, asked_to_wait);
            let reply = reply.await?;
            if reply.is_ok() {
                return self.begun(waiting, state, &reply, sent, request);
            }
            asked += 1;
            let gives_up = polls.is_some_and(|polls| asked > polls);
            if reply.status != 423 || gives_up {
                self.is_refused(waiting, &reply);
                return None;
            }
            if let Some(ticket) = reply.json()["ticket"].as_str() {
                self.has_a_place(&mut waiting);
                body["ticket"] = ticket.into();
            }
        }
    }

    fn begun(
        &self,
        waiting: Waiting,
        state: &str,
        reply: &Reply,
        sent: Instant,
        request: Request,
    ) -> Option<Run> {
        let run = reply.json();
        let id = run["id"].as_str().unwrap_or_default().to_owned();
        let held = &run["reservation"];
        let token = held["token"].as_i64();
        self.is_granted(waiting, reply, |answer| {
            answer.run = Some(id.clone());
            answer.reservation = held["id"].as_str().map(str::to_owned);
            answer.token = token;
            answer.expires_us = microseconds(&held["expires_at"]);
            answer.degraded = held["degraded"].as_bool().unwrap_or_default();
        });
        Some(Run {
            lock: format!("tf-{id}"),
            id,
            state: state.to_owned(),
            // A run that had ended by the time of the answer holds nothing.
            token: token?,
            password: run["backend"]["password"].as_str()?.to_owned(),
            request,
            sent: Vec::new(),
            renewed: sent,
        })
    }

    /// The same request once more, as by a client that never saw the answer: it is the same run.
    pub(super) async fn begin_again(
        &mut self,
        state: &str,
        run: Run,
        wanted: &Wanted,
    ) -> Option<Run> {
        let body: Value = serde_json::from_slice(run.request.body.as_deref()?).ok()?;
        let call = Call::Begin {
            state: state.to_owned(),
            key: body["key"].as_str()?.to_owned(),
            claims: wanted.claims.clone(),
            patient: false,
            wait_seconds: 0,
        };
        let mut waiting = self.begin_waiting(call);
        let reply = self.ask_again(&mut waiting, &run.request, Duration::ZERO);
        match reply.await {
            Some(reply) if reply.is_ok() => {
                let (sent, request) = (run.renewed, run.request.clone());
                return self.begun(waiting, state, &reply, sent, request);
            }
            Some(reply) => self.is_refused(waiting, &reply),
            None => {}
        }
        Some(run)
    }

    fn backend(&self, run: &Run, method: &str, query: &str) -> Request {
        let path = format!("/v1/runs/{}/state{query}", run.id);
        Request::new(method, path, Who::Run(run.password.clone()))
    }

    pub(super) async fn open(&mut self, run: &Run) -> bool {
        let info = self.lock_info(&run.lock);
        let request = self.backend(run, "LOCK", "").json(&info);
        let call = Call::Open {
            run: run.id.clone(),
            lock: run.lock.clone(),
        };
        matches!(self.ask(call, &request, nothing).await, Outcome::Done(..))
    }

    pub(super) async fn close(&mut self, run: &Run) {
        let info = self.lock_info(&run.lock);
        let request = self.backend(run, "UNLOCK", "").json(&info);
        let call = Call::Close {
            run: run.id.clone(),
            lock: run.lock.clone(),
        };
        self.ask(call, &request, nothing).await;
    }

    pub(super) async fn slice(&mut self, run: &Run) -> Option<Document> {
        let request = self.backend(run, "GET", "");
        let call = Call::Slice {
            run: run.id.clone(),
        };
        let (reply, _) = self.ask(call, &request, note_document).await.done()?;
        Document::read(&reply.body).ok()
    }

    /// Writes the slice back with new values at the addresses; answers the body's digest.
    pub(super) async fn upload(
        &mut self,
        run: &mut Run,
        slice: &mut Document,
        addresses: &[String],
        late: bool,
    ) -> (Outcome, String) {
        slice.serial += 1;
        let writes: Vec<Write> = addresses
            .iter()
            .map(|address| self.write_to(slice, address))
            .collect();
        let body = slice.bytes();
        let digest = sha256(&body);
        let sent = Sent { body, writes };
        let outcome = self.send_body(run, &sent, late).await;
        run.sent.push(sent);
        (outcome, digest)
    }

    /// Sends a body, perhaps not for the first time.
    pub(super) async fn send_body(&mut self, run: &mut Run, sent: &Sent, late: bool) -> Outcome {
        let body = sent.body.clone();
        let call = Call::Upload {
            state: run.state.clone(),
            run: run.id.clone(),
            lock: run.lock.clone(),
            sha256: sha256(&body),
            writes: sent.writes.clone(),
            late,
        };
        let query = format!("?ID={}", run.lock);
        let request = self.backend(run, "POST", &query).bytes(body);
        let sent = Instant::now();
        let outcome = self.ask(call, &request, nothing).await;
        if matches!(outcome, Outcome::Done(..)) {
            run.renewed = sent;
        }
        outcome
    }

    /// Renews when a third of the lease has passed, as kl does. False when the lease is lost, or too old to begin anything.
    pub(super) async fn keep(&mut self, run: &mut Run) -> bool {
        let lease = self.world.times.lease();
        if run.renewed.elapsed() > lease / 3 {
            self.renew(run).await;
        }
        run.renewed.elapsed() < lease * 2 / 3
    }

    pub(super) async fn renew(&mut self, run: &mut Run) -> bool {
        let request = Request::new("POST", format!("/v1/runs/{}/renew", run.id), Who::Writer)
            .json(&json!({ "token": run.token }));
        let call = Call::Renew {
            run: run.id.clone(),
        };
        let sent = Instant::now();
        let renewed = self.ask(call, &request, |reply, answer| {
            answer.expires_us = microseconds(&reply.json()["expires_at"]);
        });
        let done = matches!(renewed.await, Outcome::Done(..));
        if done {
            run.renewed = sent;
        }
        done
    }

    pub(super) async fn extend(&mut self, run: &Run, address: &str) -> bool {
        let wanted = vec![claim(address, true)];
        let request = Request::new("POST", format!("/v1/runs/{}/extend", run.id), Who::Writer)
            .json(
                &json!({ "token": run.token, "claims": [{ "address": address, "mode": "write" }] }),
            );
        let call = Call::Extend {
            run: run.id.clone(),
            claims: wanted,
        };
        matches!(self.ask(call, &request, nothing).await, Outcome::Done(..))
    }

    pub(super) async fn finish(&mut self, run: &Run, outcome: &str) {
        let request = Request::new("POST", format!("/v1/runs/{}/finish", run.id), Who::Writer)
            .json(&json!({ "outcome": outcome, "checked": true }));
        let call = Call::Finish {
            run: run.id.clone(),
            outcome: outcome.to_owned(),
        };
        self.ask(call, &request, nothing).await;
    }

    /// Ends a run from outside.
    pub(super) async fn abort(&mut self, run: &str, who: Who) -> bool {
        let request = Request::new("POST", format!("/v1/runs/{run}/abort"), who)
            .json(&json!({ "reason": "chaos" }));
        let call = Call::Abort {
            run: run.to_owned(),
        };
        matches!(self.ask(call, &request, nothing).await, Outcome::Done(..))
    }

    /// Lock information as Terraform sends it, the same bytes each time.
    pub(super) fn lock_info(&self, id: &str) -> Value {
        json!({
            "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": format!("{}@chaos", self.plan.name),
            "Version": "1.11.4", "Created": "2026-11-30T12:00:00.123456789Z", "Path": "",
        })
    }

    /// Waits, as one who does something else, longer than its lease and the lock delay last; not when it is called to rest.
    pub(super) async fn oversleep(&mut self) {
        let times = self.world.times;
        let least = times.lease() + times.lock_delay() / 2;
        let more = times.lock_delay() * 2;
        let pause = least
            + more.mul_f64(f64::from(rand::RngExt::random_range(&mut self.rng, 0..100u32)) / 100.0);
        let called = self.signal.wait_for(|signal| *signal == Signal::Rest);
        let _ = tokio::time::timeout(pause.min(Duration::from_secs(200)), called).await;
    }
}
