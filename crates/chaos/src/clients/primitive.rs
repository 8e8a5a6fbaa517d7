//! Clients of the state engine's primitives: begin, reserve, commit, release, one by one.

use serde_json::{Value, json, value::RawValue};

use super::wanted::claim;
use super::{Actor, Outcome, nothing};
use crate::document::{Document, resource};
use crate::history::{Call, Write};
use crate::wire::{Request, Who};

/// How often such a client asks for what is busy before it lets its run go.
const TRIES: u32 = 8;

impl Actor {
    pub(super) async fn primitive_turn(&mut self) {
        let state = self.pick_state();
        let at = rand::RngExt::random_range(&mut self.rng, 0..8usize);
        let own = vec![
            state.addresses[at].clone(),
            state.addresses[(at + 2) % 8].clone(),
        ];
        let Some(run) = self.begin_bare(&state.name).await else {
            return;
        };
        if !self.reserve(&state.name, &run, &own).await {
            self.end_bare(&run, "failed", None).await;
            return;
        }
        let mut serial = None;
        if let Some(mut document) = self.read(&state.name).await {
            if self.chance(10) {
                // What it has not reserved.
                let strange = state.addresses[(at + 5) % 8].clone();
                let mut copy = document.clone();
                self.commit(&state.name, &run, &mut copy, &[strange], true)
                    .await;
            }
            for _ in 0..2 {
                if let Some(now) = self
                    .commit(&state.name, &run, &mut document, &own, false)
                    .await
                {
                    serial = Some(now);
                }
                self.pause(20).await;
            }
        }
        if self.chance(30) {
            let path = format!("/v1/state-engine/reservations/{run}/release");
            let request = Request::new("POST", path, Who::Writer).json(&json!({}));
            let call = Call::Release { run: run.clone() };
            self.ask(call, &request, nothing).await;
        }
        let status = if serial.is_some() {
            "committed"
        } else {
            "failed"
        };
        self.end_bare(&run, status, serial).await;
        self.pause(20).await;
    }

    async fn begin_bare(&mut self, state: &str) -> Option<String> {
        let body =
            json!({ "state": self.full_name(state), "actor": format!("{}@chaos", self.plan.name) });
        let request =
            Request::new("POST", "/v1/state-engine/apply-runs/begin", Who::Writer).json(&body);
        let call = Call::BeginBare {
            state: state.to_owned(),
        };
        let begun = self.ask(call, &request, |reply, answer| {
            answer.run = reply.json()["id"].as_str().map(str::to_owned);
        });
        begun.await.done()?.1.run
    }

    async fn reserve(&mut self, state: &str, run: &str, own: &[String]) -> bool {
        let want: Vec<Value> = own
            .iter()
            .map(|address| json!({ "address_glob": address, "mode": "write" }))
            .collect();
        let body = json!({
            "state": self.full_name(state), "apply_id": run, "lease_seconds": 60, "want": want,
        });
        let request =
            Request::new("POST", "/v1/state-engine/reservations/acquire", Who::Writer).json(&body);
        for _ in 0..TRIES {
            let call = Call::Reserve {
                state: state.to_owned(),
                run: run.to_owned(),
                claims: own.iter().map(|address| claim(address, true)).collect(),
            };
            match self.ask(call, &request, nothing).await {
                Outcome::Done(..) => return true,
                Outcome::Unknown => return false,
                Outcome::Refused(_) => self.pause(60).await,
            }
        }
        false
    }

    /// Commits new values at the addresses; answers the serial.
    async fn commit(
        &mut self,
        state: &str,
        run: &str,
        document: &mut Document,
        addresses: &[String],
        uncovered: bool,
    ) -> Option<u64> {
        let writes: Vec<Write> = addresses
            .iter()
            .map(|address| self.write_to(document, address))
            .collect();
        let resources: Vec<Box<RawValue>> = addresses
            .iter()
            .filter_map(|address| {
                document
                    .cells
                    .get(address)
                    .map(|cell| resource(address, cell))
            })
            .filter_map(|text| RawValue::from_string(text.trim().to_owned()).ok())
            .collect();
        let body = json!({
            "state": self.full_name(state), "apply_id": run, "mode": "delta",
            "delta": { "resources": resources, "write_set": addresses },
        });
        let request =
            Request::new("POST", "/v1/state-engine/state/commit", Who::Writer).json(&body);
        let call = Call::Commit {
            state: state.to_owned(),
            run: run.to_owned(),
            writes,
            uncovered,
        };
        let committed = self.ask(call, &request, |reply, answer| {
            answer.serial = reply.json()["committed_serial"].as_u64();
        });
        committed.await.done()?.1.serial
    }

    async fn end_bare(&mut self, run: &str, status: &str, serial: Option<u64>) {
        let mut body = json!({ "status": status });
        if let Some(serial) = serial {
            body["committed_serial"] = serial.into();
        }
        let path = format!("/v1/state-engine/apply-runs/{run}/finish");
        let request = Request::new("POST", path, Who::Writer).json(&body);
        let call = Call::Finish {
            run: run.to_owned(),
            outcome: status.to_owned(),
        };
        self.ask(call, &request, nothing).await;
    }
}
