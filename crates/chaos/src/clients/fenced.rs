//! Clients that lose what they hold before they write, and want their result back, byte for byte. Sometimes another has
//! written the same in between.

use serde_json::json;

use super::wanted::Wanted;
use super::{Actor, Outcome, note_document, nothing, sha256};
use crate::history::Call;
use crate::plan::StatePlan;
use crate::wire::{Request, Who};

/// How many of a hundred find that somebody was there before them.
const OVERTAKEN: u32 = 40;

impl Actor {
    pub(super) async fn fenced_turn(&mut self) {
        let state = self.pick_state();
        if self.chance(70) {
            self.fenced_run(&state).await;
        } else {
            self.fenced_lock(&state).await;
        }
    }

    async fn fenced_run(&mut self, state: &StatePlan) {
        let at = rand::RngExt::random_range(&mut self.rng, 0..state.addresses.len());
        let own = vec![state.addresses[at].clone()];
        let Some(mut run) = self.begin(&state.name, &Wanted::write(&own), None).await else {
            return;
        };
        if !self.open(&run).await {
            self.finish(&run, "failed").await;
            return;
        }
        let Some(mut slice) = self.slice(&run).await else {
            self.finish(&run, "failed").await;
            return;
        };
        if !self.abort(&run.id, Who::Admin).await {
            return;
        }
        if self.chance(OVERTAKEN) {
            self.write_as_another_run(state, &own).await;
        }
        let (outcome, digest) = self.upload(&mut run, &mut slice, &own, true).await;
        self.recover_if_kept(state, &outcome, &run.id, &digest)
            .await;
    }

    async fn fenced_lock(&mut self, state: &StatePlan) {
        let id = self.name_anew("tf");
        if !self.lock(&state.name, &id).await {
            return;
        }
        let Some(mut document) = self.read(&state.name).await else {
            self.unlock(&state.name, &id).await;
            return;
        };
        if !self.break_lock(&state.name).await {
            self.unlock(&state.name, &id).await;
            return;
        }
        let at = rand::RngExt::random_range(&mut self.rng, 0..state.addresses.len());
        let own = [state.addresses[at].clone()];
        if self.chance(OVERTAKEN) {
            self.write_under_another_lock(state, &own).await;
        }
        let body = self.change(&mut document, &own);
        let (outcome, digest) = self.push(&state.name, &id, &body, true).await;
        self.recover_if_kept(state, &outcome, &id, &digest).await;
    }

    /// Who comes next takes what was lost, and writes.
    async fn write_as_another_run(&mut self, state: &StatePlan, own: &[String]) {
        let wanted = Wanted::write(own);
        let Some(mut run) = self.begin(&state.name, &wanted, Some(3)).await else {
            return;
        };
        if self.open(&run).await {
            if let Some(mut slice) = self.slice(&run).await {
                self.upload(&mut run, &mut slice, own, false).await;
            }
            self.close(&run).await;
        }
        self.finish(&run, "succeeded").await;
    }

    async fn write_under_another_lock(&mut self, state: &StatePlan, own: &[String]) {
        let id = self.name_anew("tf");
        if !self.lock(&state.name, &id).await {
            return;
        }
        if let Some(mut document) = self.read(&state.name).await {
            let body = self.change(&mut document, own);
            self.push(&state.name, &id, &body, false).await;
        }
        self.unlock(&state.name, &id).await;
    }

    /// Fetches what the service says it kept, and settles it. `holder`: the run, or the lock ID of plain Terraform.
    pub(super) async fn recover_if_kept(
        &mut self,
        state: &StatePlan,
        outcome: &Outcome,
        holder: &str,
        digest: &str,
    ) {
        let Outcome::Refused(reply) = outcome else {
            return;
        };
        let is_kept =
            reply.json()["kept"].as_bool().unwrap_or_default() || reply.code() == "outside_scope";
        if !is_kept {
            return;
        }
        let Some(kept) = self.find_kept(&state.name, holder).await else {
            return;
        };
        let path = self.state_path(&state.name, &format!("/kept/{kept}"));
        let request = Request::new("GET", path, Who::Writer);
        let call = Call::Recover {
            state: state.name.clone(),
            sha256: digest.to_owned(),
        };
        self.ask(call, &request, |reply, answer| {
            answer.sha256 = Some(sha256(&reply.body));
            note_document(reply, answer);
        })
        .await;
        // What strayed was not seen by its writer: nobody takes that over.
        let adopt = reply.code() != "outside_scope" && self.chance(30);
        let (action, body) = if adopt {
            ("adopt", json!({ "key": self.name_anew("adopt") }))
        } else {
            ("discard", json!({}))
        };
        let path = self.state_path(&state.name, &format!("/kept/{kept}/{action}"));
        let request = Request::new("POST", path, Who::Writer).json(&body);
        let call = Call::Settle {
            state: state.name.clone(),
            adopt,
        };
        self.ask(call, &request, nothing).await;
    }

    async fn find_kept(&mut self, state: &str, holder: &str) -> Option<String> {
        let request = Request::new("GET", self.state_path(state, "/status"), Who::Writer);
        let said = self.world.wire.repeat(self.number, &request).await;
        let status = said.reply?.json();
        let kept = status["kept"].as_array()?.iter().find(|kept| {
            let is_settled = kept["settled"].as_bool().unwrap_or_default();
            let is_ours = kept["run"] == holder || kept["lock_id"] == holder;
            is_ours && !is_settled
        })?;
        kept["id"].as_str().map(str::to_owned)
    }
}
