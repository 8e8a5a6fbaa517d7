//! Native clients: most do their work and end, and some are paused, abandon it, or reach beyond what they hold.

use super::run::Run;
use super::wanted::Wanted;
use super::{Actor, Outcome};
use crate::document::Document;
use crate::plan::StatePlan;
use crate::wire::Who;

/// How a client behaves once it holds something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Orderly,
    /// Claims more on the way.
    Grows,
    /// Sleeps beyond its lease, then writes.
    Oversleeps,
    /// Is gone without a word.
    Vanishes,
    /// Ends its own run, and its Terraform writes once more.
    Aborts,
    /// Writes an address that it has not claimed.
    Strays,
}

impl Actor {
    pub(super) async fn native_turn(&mut self) {
        let state = self.pick_state();
        let wanted = self.want(&state);
        let manner = match self.draw(100) {
            0..72 => Manner::Orderly,
            72..80 => Manner::Grows,
            80..86 => Manner::Oversleeps,
            86..90 => Manner::Vanishes,
            90..96 => Manner::Aborts,
            _ => Manner::Strays,
        };
        let polls = match self.draw(10) {
            // Tries once, and never holds a place.
            0 => Some(0),
            1 => Some(3),
            _ => None,
        };
        let mut begun = self.begin(&state.name, &wanted, polls).await;
        if self.draw(12) == 0
            && let Some(run) = begun.take()
        {
            begun = self.begin_again(&state.name, run, &wanted).await;
        }
        if let Some(mut run) = begun {
            self.use_run(&state, &mut run, manner).await;
        }
        self.pause(30).await;
    }

    fn draw(&mut self, below: u32) -> u32 {
        rand::RngExt::random_range(&mut self.rng, 0..below)
    }

    fn want(&mut self, state: &StatePlan) -> Wanted {
        match self.draw(20) {
            0 => Wanted::everything(&state.addresses),
            1 | 2 => Wanted::module("module.m", &state.addresses),
            _ => {
                let count = 1 + self.draw(3) as usize;
                let first = self.draw(8) as usize;
                let chosen: Vec<String> = (0..count)
                    .map(|step| state.addresses[(first + step * 3) % 8].clone())
                    .collect();
                let wanted = Wanted::write(&chosen);
                let read = &state.addresses[(first + 1) % 8];
                if self.draw(3) == 0 && !chosen.contains(read) {
                    wanted.reading(read)
                } else {
                    wanted
                }
            }
        }
    }

    async fn use_run(&mut self, state: &StatePlan, run: &mut Run, manner: Manner) {
        if !self.open(run).await {
            self.finish(run, "failed").await;
            return;
        }
        let Some(mut slice) = self.slice(run).await else {
            self.finish(run, "failed").await;
            return;
        };
        let own = self.own(state, &slice);
        for _ in 0..1 + self.draw(2) {
            if !self.keep(run).await {
                break;
            }
            let (outcome, digest) = self.upload(run, &mut slice, &own, false).await;
            if !matches!(outcome, Outcome::Done(..)) {
                self.recover_if_kept(state, &outcome, &run.id, &digest)
                    .await;
                self.give_up(run).await;
                return;
            }
            self.pause(25).await;
        }
        self.send_again(run).await;
        match manner {
            Manner::Orderly => self.end_orderly(run).await,
            Manner::Grows => {
                let more = &state.addresses[self.draw(8) as usize];
                self.extend(run, more).await;
                self.renew(run).await;
                self.end_orderly(run).await;
            }
            Manner::Oversleeps => {
                self.oversleep().await;
                self.write_late(state, run, &mut slice, &own).await;
            }
            Manner::Vanishes => {}
            Manner::Aborts => {
                self.abort(&run.id, Who::Writer).await;
                self.write_late(state, run, &mut slice, &own).await;
            }
            Manner::Strays => {
                let strange = self.stray(state, &slice);
                let (outcome, digest) = self.upload(run, &mut slice, &strange, true).await;
                self.recover_if_kept(state, &outcome, &run.id, &digest)
                    .await;
                self.close(run).await;
                self.finish(run, "failed").await;
            }
        }
    }

    /// A duplicate on the network: of the newest body, which changes nothing, or of one before, which must not count.
    async fn send_again(&mut self, run: &mut Run) {
        let (dice, count) = (self.draw(100), run.sent.len());
        if dice < 12
            && let Some(newest) = run.sent.last().cloned()
        {
            self.send_body(run, &newest, false).await;
        } else if dice < 24 && count > 1 {
            let older = run.sent[count - 2].clone();
            self.send_body(run, &older, true).await;
        }
    }

    /// What a client may write: of what its slice shows, one or two addresses that it asked to write. Those that are only
    /// read stand in the slice too; the first of a slice in the order of the request never is.
    fn own(&mut self, state: &StatePlan, slice: &Document) -> Vec<String> {
        let writable = state.addresses.iter().filter(|address| {
            slice.cells.contains_key(*address) && self.claimed.contains(*address)
        });
        let writable: Vec<String> = writable.cloned().collect();
        let at = self.draw(u32::try_from(writable.len().max(1)).unwrap_or(1)) as usize;
        writable.into_iter().skip(at).take(2).collect()
    }

    /// An address that the slice does not show.
    fn stray(&mut self, state: &StatePlan, slice: &Document) -> Vec<String> {
        let outside = state
            .addresses
            .iter()
            .find(|address| !slice.cells.contains_key(*address));
        outside.into_iter().cloned().collect()
    }

    async fn end_orderly(&mut self, run: &Run) {
        self.close(run).await;
        self.finish(run, "succeeded").await;
    }

    /// After a refusal: Terraform gives up its lock, and kl ends the run. Neither may be possible any more.
    async fn give_up(&mut self, run: &Run) {
        self.close(run).await;
        self.finish(run, "failed").await;
    }

    async fn write_late(
        &mut self,
        state: &StatePlan,
        run: &mut Run,
        slice: &mut Document,
        own: &[String],
    ) {
        let (outcome, digest) = self.upload(run, slice, own, true).await;
        self.recover_if_kept(state, &outcome, &run.id, &digest)
            .await;
        match outcome {
            Outcome::Done(..) => self.end_orderly(run).await,
            _ => self.give_up(run).await,
        }
    }
}
