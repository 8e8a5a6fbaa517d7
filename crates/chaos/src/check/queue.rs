//! I11 and I12: order among those who wait, and that everybody is served in the end.

use std::collections::BTreeMap;

use super::View;
use super::view::{End, Held, Operation, conflict};
use crate::history::Call;
use crate::ledger::Reservation;

/// How long a fault echoes in the queue: who was hung up on may come back late, and an index that was lost settles.
const ECHO_US: u64 = 2_500_000;
/// The part of a run in which nothing is broken.
pub const CALM: &str = "calm";
/// How long somebody may wait in quiet, whose predecessors all end within a lease.
const LONGEST_WAIT_US: u64 = 20_000_000;
/// Within what time after the last one in its way has ended a waiter has its grant, for most of them.
const HANDOVER_US: i64 = 230_000;
/// How long a client must have been there to count as waiting in its request, and how long such a request may take.
const HEAD_START_US: i64 = 100_000;
const LONG: u32 = 25;
/// Fewer handovers say nothing.
const ENOUGH: usize = 12;

/// Somebody who waited, and was granted.
struct Waiter<'a> {
    operation: &'a Operation<'a>,
    queued_us: u64,
    held: &'a Reservation,
}

/// A service that takes longer than this over a request may forget, between two of them, who waits.
fn alive_us(view: &View<'_>) -> u64 {
    // A waiting Terraform pauses for 16 s and is forgotten after 40.
    let latency = view.times.seconds(11.0);
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)
}

fn granted<'a>(view: &View<'a>, operation: &Operation<'_>) -> Option<&'a Reservation> {
    match (operation.call, operation.end) {
        (Call::Begin { .. }, End::Ok) => view.reservation(operation.answer.reservation.as_deref()?),
        (Call::Lock { id, .. }, End::Ok) => view.of_key(id).first().copied(),
        _ => None,
    }
}

/// The claims that a holder waited for: not those that were added to them later.
fn waited_for(view: &View<'_>, held: &Reservation) -> Vec<Held> {
    let mut claims = view.claims(held);
    claims.retain(|claim| !view.may_be_added(held, &claim.path));
    claims
}

/// Those whose wait nothing disturbed.
fn waiters<'a>(view: &'a View<'a>) -> Vec<Waiter<'a>> {
    let all = view.operations.iter().filter_map(|operation| {
        let held = granted(view, operation)?;
        let answer = operation.answer;
        let queued_us = answer.queued_us?;
        let is_clean = answer.troubles == 0
            && !answer.degraded
            && answer.longest_gap_us <= alive_us(view)
            && !view.is_disturbed(operation.began_us, operation.ended_us, ECHO_US);
        is_clean.then_some(Waiter {
            operation,
            queued_us,
            held,
        })
    });
    all.collect()
}

/// How many waits say something about order.
pub(super) fn waits_judged(view: &View<'_>) -> usize {
    waiters(view).len()
}

/// With the index up no conflicting later request overtakes a live waiter.
pub(super) fn nobody_overtakes(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // A grant belongs to the first request for it; a repetition of that is no request of its own.
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in &view.operations {
        if let Some(held) = granted(view, operation) {
            let at = asked.entry(&held.id).or_insert(u64::MAX);
            *at = (*at).min(operation.began_us);
        }
    }
    for waiter in waiters(view) {
        let claims = waited_for(view, waiter.held);
        for later in &view.operations {
            if later.began_us <= waiter.queued_us || later.began_us >= waiter.operation.ended_us {
                continue;
            }
            let Some(held) = granted(view, later) else {
                continue;
            };
            let overtook = asked.get(&*held.id) == Some(&later.began_us)
                && held.state_id == waiter.held.state_id
                && held.granted_gen < waiter.held.granted_gen
                && waited_for(view, held)
                    .iter()
                    .any(|other| claims.iter().any(|claim| conflict(claim, other)));
            if overtook {
                found.push(format!(
                    "{}: {} came {} ms after {} had a place, and was granted before it",
                    view.name(&held.state_id),
                    later.client,
                    (later.began_us - waiter.queued_us) / 1000,
                    waiter.operation.client,
                ));
            }
        }
    }
    found
}

/// When nothing is broken every operation comes to an end, and every waiter is granted soon after the last in its way ended.
pub(super) fn everybody_is_served(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for operation in &view.operations {
        if operation.end == End::Open {
            found.push(format!(
                "{}: {} never came to an end",
                operation.client,
                operation.call.name()
            ));
            continue;
        }
        if view.phase_at(operation.began_us) != CALM {
            continue;
        }
        let took = operation.ended_us - operation.began_us;
        match operation.end {
            End::Unknown => found.push(format!(
                "{}: {} got no answer in quiet: {}",
                operation.client,
                operation.call.name(),
                operation.answer.detail
            )),
            _ if took > LONGEST_WAIT_US => found.push(format!(
                "{}: {} took {} ms in quiet",
                operation.client,
                operation.call.name(),
                took / 1000
            )),
            _ => {}
        }
    }
    let mut handovers = handovers(view);
    handovers.sort_unstable();
    if handovers.len() >= ENOUGH {
        let median = handovers[handovers.len() / 2];
        // On a machine that is busy with something else everything takes its time.
        if median > HANDOVER_US + 2 * usual_us(view) {
            found.push(format!(
                "half of {} waiters had nothing in their way for {} ms and more before they were granted",
                handovers.len(),
                median / 1000
            ));
        }
    }
    found
}

/// How long an operation that waits for nobody usually takes.
fn usual_us(view: &View<'_>) -> i64 {
    let quick = view.operations.iter().filter(|it| {
        matches!(it.call, Call::Renew { .. } | Call::Close { .. })
            && view.phase_at(it.began_us) == CALM
    });
    let mut took: Vec<u64> = quick.map(|it| it.ended_us - it.began_us).collect();
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    i64::try_from(median).unwrap_or(i64::MAX)
}

/// For each undisturbed native client that waited in a long request: how long nothing was in its way before it was granted.
fn handovers(view: &View<'_>) -> Vec<i64> {
    let mut found = Vec::new();
    for operation in &view.operations {
        let waits_long =
            matches!(operation.call, Call::Begin { wait_seconds, .. } if *wait_seconds >= LONG);
        let Some(held) = granted(view, operation).filter(|_| waits_long) else {
            continue;
        };
        let disturbed = view.is_disturbed(operation.began_us, operation.ended_us, ECHO_US);
        if operation.answer.troubles > 0 || operation.answer.degraded || disturbed {
            continue;
        }
        let claims = waited_for(view, held);
        let before = view.ledger.reservations.iter().filter(|other| {
            other.state_id == held.state_id
                && other.granted_gen < held.granted_gen
                && waited_for(view, other)
                    .iter()
                    .any(|other| claims.iter().any(|claim| conflict(claim, other)))
        });
        let last = before.filter_map(|other| other.ended_us).max();
        // It was there before.
        if let Some(last) = last.filter(|last| *last > operation.began_wall_us + HEAD_START_US) {
            found.push((held.created_us - last).max(0));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn an_overtaker_is_found_unless_something_was_broken() {
        let mut sample = Sample::default();
        let a0 = [("terraform_data.a0", true)];
        sample.hold("early", 2, 5, None, &a0);
        sample.hold("late", 1, 3, Some(4), &a0);
        let op = sample.begin("k1", "terraform_data.a0");
        let queued = sample.now();
        let other = sample.begin("k2", "terraform_data.a0");
        sample.granted(other, "late", 1, None);
        sample.granted(op, "early", 2, Some(queued));
        assert_eq!(nobody_overtakes(&sample.view()).len(), 1);
        assert_eq!(waits_judged(&sample.view()), 1);
        sample.disturbed();
        assert_eq!(nobody_overtakes(&sample.view()), [""; 0]);
    }

    #[test]
    fn what_is_claimed_later_was_not_waited_for() {
        let mut sample = Sample::default();
        let both = [("terraform_data.a0", true), ("terraform_data.a1", true)];
        sample.hold("early", 2, 5, None, &both);
        sample.hold("late", 1, 3, Some(4), &[("terraform_data.a1", true)]);
        let op = sample.begin("k1", "terraform_data.a0");
        let queued = sample.now();
        let other = sample.begin("k2", "terraform_data.a1");
        sample.granted(other, "late", 1, None);
        sample.granted(op, "early", 2, Some(queued));
        assert_eq!(nobody_overtakes(&sample.view()).len(), 1);
        sample.extend_ok("run-early", "terraform_data.a1");
        assert_eq!(nobody_overtakes(&sample.view()), [""; 0]);
    }

    #[test]
    fn whoever_is_not_served_in_quiet_is_found() {
        let mut sample = Sample::default();
        sample.phase(CALM);
        let op = sample.begin("k1", "terraform_data.a0");
        assert_eq!(everybody_is_served(&sample.view()).len(), 1);
        sample.unknown(op);
        assert_eq!(everybody_is_served(&sample.view()).len(), 1);
    }
}
