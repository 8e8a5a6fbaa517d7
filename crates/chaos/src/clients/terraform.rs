//! Plain Terraform on the wire: LOCK with the same ID until it is its turn, GET, POST with the ID, UNLOCK with the same bytes.

use std::time::Duration;

use super::{Actor, Outcome, nothing, sha256};
use crate::document::Document;
use crate::history::{Call, Write};
use crate::wire::{Request, Who};

/// When a waiting Terraform comes back, in seconds; the last one repeats.
const BACKOFF: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// After how many tries its `-lock-timeout` is over.
const TRIES: usize = 9;

/// A document as it is sent, with what it writes.
pub(super) struct Body {
    bytes: Vec<u8>,
    writes: Vec<Write>,
}

impl Actor {
    pub(super) async fn terraform_turn(&mut self) {
        let state = self.pick_state();
        let id = self.name_anew("tf");
        if self.lock(&state.name, &id).await {
            if self.chance(12) {
                // As if the answer had been lost.
                self.lock(&state.name, &id).await;
            }
            let broken = self.chance(6) && self.break_lock(&state.name).await;
            if let Some(mut document) = self.read(&state.name).await {
                let mut sent = Vec::new();
                if broken {
                    // Meanwhile others lock and write.
                    self.pause(900).await;
                }
                for _ in 0..1 + u32::from(self.chance(40)) {
                    let at = rand::RngExt::random_range(&mut self.rng, 0..state.addresses.len());
                    let own = [
                        state.addresses[at].clone(),
                        state.addresses[(at + 5) % state.addresses.len()].clone(),
                    ];
                    let body = self.change(&mut document, &own);
                    let (outcome, digest) = self.push(&state.name, &id, &body, broken).await;
                    sent.push(body);
                    if !matches!(outcome, Outcome::Done(..)) {
                        self.recover_if_kept(&state, &outcome, &id, &digest).await;
                        break;
                    }
                    self.pause(20).await;
                }
                if sent.len() > 1 && self.chance(40) {
                    // It was delayed on its way, and must not undo what came after it.
                    self.push(&state.name, &id, &sent[0], true).await;
                }
            }
            self.unlock(&state.name, &id).await;
            if self.chance(8) && self.lock(&state.name, &id).await {
                self.unlock(&state.name, &id).await;
            }
        }
        self.pause(60).await;
    }

    /// Takes the lock, waiting as Terraform does.
    pub(super) async fn lock(&mut self, state: &str, id: &str) -> bool {
        let info = self.lock_info(id);
        let request = Request::new("LOCK", self.state_path(state, ""), Who::Writer).json(&info);
        let call = Call::Lock {
            state: state.to_owned(),
            id: id.to_owned(),
        };
        let mut waiting = self.begin_waiting(call);
        let mut tried = 0;
        loop {
            let reply = self.ask_again(&mut waiting, &request, Duration::ZERO);
            let Some(reply) = reply.await else {
                return false;
            };
            if reply.is_ok() {
                self.is_granted(waiting, &reply, |_| {});
                return true;
            }
            tried += 1;
            if reply.status != 423 || tried == TRIES {
                self.is_refused(waiting, &reply);
                return false;
            }
            // Its second try earns the place.
            if tried == 2 {
                self.has_a_place(&mut waiting);
            }
            let pause = BACKOFF[(tried - 1).min(BACKOFF.len() - 1)];
            tokio::time::sleep(self.world.times.seconds(pause)).await;
        }
    }

    /// The next document, with new values at the addresses.
    pub(super) fn change(&mut self, document: &mut Document, addresses: &[String]) -> Body {
        document.serial += 1;
        let writes = addresses.iter();
        let writes = writes
            .map(|address| self.write_to(document, address))
            .collect();
        Body {
            bytes: document.bytes(),
            writes,
        }
    }

    /// Writes the whole state; answers the body's digest.
    pub(super) async fn push(
        &mut self,
        state: &str,
        id: &str,
        body: &Body,
        late: bool,
    ) -> (Outcome, String) {
        let digest = sha256(&body.bytes);
        let call = Call::Push {
            state: state.to_owned(),
            id: id.to_owned(),
            sha256: digest.clone(),
            writes: body.writes.clone(),
            late,
        };
        let path = self.state_path(state, &format!("?ID={id}"));
        let request = Request::new("POST", path, Who::Writer).bytes(body.bytes.clone());
        (self.ask(call, &request, nothing).await, digest)
    }

    pub(super) async fn unlock(&mut self, state: &str, id: &str) {
        let info = self.lock_info(id);
        let request = Request::new("UNLOCK", self.state_path(state, ""), Who::Writer).json(&info);
        let call = Call::Unlock {
            state: state.to_owned(),
            id: id.to_owned(),
        };
        self.ask(call, &request, nothing).await;
    }

    /// `terraform force-unlock`: an empty body.
    pub(super) async fn break_lock(&mut self, state: &str) -> bool {
        let request =
            Request::new("UNLOCK", self.state_path(state, ""), Who::Admin).bytes(Vec::new());
        let call = Call::Break {
            state: state.to_owned(),
        };
        matches!(self.ask(call, &request, nothing).await, Outcome::Done(..))
    }
}
