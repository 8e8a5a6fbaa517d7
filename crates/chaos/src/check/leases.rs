//! I13: nothing expires before a deadline that its client was told, nor right after a time in which nobody could renew.

use std::collections::BTreeMap;

use super::View;
use super::view::End;
use crate::history::Call;
use crate::ledger::bare;

/// How finely two clocks of one machine agree.
const SLACK_US: i64 = 5_000;
/// How late the end of an outage may be written down.
const NOTICED_US: i64 = 400_000;
/// A beat that comes later than this after the one before begins a grace period; scaled as all times.
const GAP_SECONDS: f64 = 15.0;
/// What an outage costs on top before beats land again: they are offered every 5 s, and connections must be made anew.
const MARGIN_SECONDS: f64 = 7.0;

pub(super) fn nothing_expires_early(view: &View<'_>) -> Vec<String> {
    let delay = i64::try_from(view.times.lock_delay().as_micros()).unwrap_or(i64::MAX);
    let told = told_deadlines(view);
    let mut found = Vec::new();
    for held in view
        .ledger
        .reservations
        .iter()
        .filter(|it| it.status == "expired")
    {
        let (Some(ended), Some(expires)) = (held.ended_us, held.expires_us) else {
            found.push(format!("{}: expired without a deadline", held.idem_key));
            continue;
        };
        let deadline = told.get(&*held.id).copied().unwrap_or(expires).max(expires);
        if ended + SLACK_US < deadline + delay {
            found.push(format!(
                "{}: {} was ended {} ms before its lease and the lock delay were over",
                view.name(&held.state_id),
                held.idem_key,
                (deadline + delay - ended) / 1000
            ));
        }
        found.extend(out_of_grace(
            view,
            &held.idem_key,
            held.created_us,
            expires,
            ended,
        ));
    }
    found
}

/// The last deadline that the client of each reservation was told.
fn told_deadlines<'a>(view: &View<'a>) -> BTreeMap<&'a str, i64> {
    let mut told: BTreeMap<&str, i64> = BTreeMap::new();
    for operation in view.operations.iter().filter(|it| it.end == End::Ok) {
        let Some(expires) = operation.answer.expires_us else {
            continue;
        };
        let held = match operation.call {
            Call::Begin { .. } => operation
                .answer
                .reservation
                .as_deref()
                .and_then(|id| view.reservation(id)),
            Call::Renew { run } => view.of_run(&bare(run)).last().copied(),
            _ => None,
        };
        if let Some(held) = held {
            let known = told.entry(&held.id).or_insert(expires);
            *known = (*known).max(expires);
        }
    }
    told
}

/// Whether something that lived into an outage of the whole service was ended within a lease after it.
fn out_of_grace(
    view: &View<'_>,
    key: &str,
    created: i64,
    expires: i64,
    ended: i64,
) -> Option<String> {
    let lease = i64::try_from(view.times.lease().as_micros()).unwrap_or(i64::MAX);
    let micros =
        |seconds: f64| i64::try_from(view.times.seconds(seconds).as_micros()).unwrap_or(i64::MAX);
    let outages = view.disturbances.iter().filter(|it| {
        let whole = matches!(it.kind, "all replicas frozen" | "Postgres restarted");
        whole && it.to_wall_us - it.from_wall_us > micros(GAP_SECONDS + MARGIN_SECONDS)
    });
    for outage in outages {
        let lived_into = created < outage.from_wall_us && expires > outage.from_wall_us;
        // Grace begins with the first beat after the outage.
        let in_grace = ended > outage.to_wall_us && ended + NOTICED_US < outage.to_wall_us + lease;
        if lived_into && in_grace {
            return Some(format!(
                "{key}: ended {} ms after nobody could renew for {} ms",
                (ended - outage.to_wall_us) / 1000,
                (outage.to_wall_us - outage.from_wall_us) / 1000
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn what_expires_within_the_lock_delay_or_before_what_was_told_is_found() {
        let mut sample = Sample::default();
        sample.expired("r1", 10_000_000, 26_000_000);
        assert_eq!(nothing_expires_early(&sample.view()), [""; 0]);
        sample.expired("r2", 10_000_000, 24_000_000);
        assert_eq!(nothing_expires_early(&sample.view()).len(), 1);
        sample.renewed("run-r1", 12_000_000);
        assert_eq!(nothing_expires_early(&sample.view()).len(), 2);
    }

    #[test]
    fn what_ends_right_after_an_outage_is_found() {
        let mut sample = Sample::default();
        sample.outage(5_000_000, 95_000_000);
        sample.expired("r1", 10_000_000, 100_000_000);
        assert_eq!(nothing_expires_early(&sample.view()).len(), 1);
        let mut sample = Sample::default();
        sample.outage(5_000_000, 95_000_000);
        sample.expired("r1", 10_000_000, 156_000_000);
        assert_eq!(nothing_expires_early(&sample.view()), [""; 0]);
    }
}
