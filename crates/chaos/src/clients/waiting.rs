//! An operation of many requests: a client that asks again until it is its turn, or until it has had enough.

use std::time::{Duration, Instant};

use super::{Actor, describe_refusal};
use crate::history::{Answer, Call, Event};
use crate::wire::{Reply, Request};

/// Such an operation, begun and not ended, with what its requests came to so far.
pub(super) struct Waiting {
    op: u64,
    total: Answer,
}

impl Actor {
    /// Writes down that it begins.
    pub(super) fn begin_waiting(&self, call: Call) -> Waiting {
        Waiting {
            op: self.world.log.invoke(&self.plan.name, call),
            total: Answer::default(),
        }
    }

    /// Asks once more; the service may take as long as it was asked to wait. `None` where nobody knows what came of it, which
    /// is the end of the operation.
    pub(super) async fn ask_again(
        &self,
        waiting: &mut Waiting,
        request: &Request,
        asked_to_wait: Duration,
    ) -> Option<Reply> {
        let sent = Instant::now();
        let said = self.world.wire.repeat(self.number, request).await;
        let overdue = sent.elapsed().saturating_sub(asked_to_wait);
        let overdue_us = u64::try_from(overdue.as_micros()).unwrap_or(u64::MAX);
        let total = &mut waiting.total;
        total.longest_gap_us = total.longest_gap_us.max(overdue_us);
        total.tries += said.tries;
        total.troubles += said.troubles;
        if said.troubles > 0 {
            total.detail = said.trouble;
        }
        if said.reply.is_none() {
            self.world.log.note(Event::Unknown {
                op: waiting.op,
                answer: waiting.total.clone(),
            });
        }
        said.reply
    }

    /// From now on it has a place in the queue.
    pub(super) fn has_a_place(&self, waiting: &mut Waiting) {
        let now = self.world.log.now_us();
        waiting.total.queued_us.get_or_insert(now);
    }

    /// Ends it well; `note` says what was answered.
    pub(super) fn is_granted(
        &self,
        waiting: Waiting,
        reply: &Reply,
        note: impl FnOnce(&mut Answer),
    ) {
        let Waiting { op, mut total } = waiting;
        total.status = reply.status;
        note(&mut total);
        self.world.log.note(Event::Ok { op, answer: total });
    }

    /// Ends it with this refusal.
    pub(super) fn is_refused(&self, waiting: Waiting, reply: &Reply) {
        let Waiting { op, mut total } = waiting;
        describe_refusal(reply, &mut total);
        self.world.log.note(Event::Fail { op, answer: total });
    }
}
