//! I4, I5 and I6: what versions write, by what right, and how they are numbered.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::view::{End, Operation};
use crate::document::segments;
use crate::history::Call;
use crate::ledger::Version;

/// Each version's parent is the version before it; every address that it writes was as its writer saw it; and its writer held
/// it then.
pub(super) fn no_update_is_lost(view: &View<'_>) -> Vec<String> {
    let mut found = chains(view);
    found.extend(acknowledged(view));
    found.extend(rights(view));
    found
}

/// At each address every value says which one its writer saw: that is the one before.
fn chains(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (state, address, rows) in view.histories() {
        let mut seen = BTreeSet::new();
        for (at, row) in rows.iter().enumerate() {
            if !seen.insert(&*row.value) {
                found.push(format!(
                    "{} {address}: {} came back in version {}",
                    view.name(state),
                    row.value,
                    row.born_seq
                ));
            }
            let Some(before) = at.checked_sub(1).map(|at| &rows[at]) else {
                continue;
            };
            if before.value != row.before {
                found.push(format!(
                    "{} {address}: version {} wrote {} over {}, but its writer saw {}",
                    view.name(state),
                    row.born_seq,
                    row.value,
                    before.value,
                    row.before
                ));
            }
        }
    }
    found
}

/// What was acknowledged is in the history; what was refused at the first try is not, unless it was kept and taken over.
fn acknowledged(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // A duplicate of a body says nothing of whether the first one counted.
    let mut sent: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (state, write) in view.operations.iter().filter_map(first_write) {
        *sent.entry((state, write)).or_default() += 1;
    }
    for operation in &view.operations {
        let Some((name, writes)) = operation.call.writes() else {
            continue;
        };
        let Some(state) = view.state_named(name) else {
            continue;
        };
        let is_only = first_write(operation).is_some_and(|write| sent.get(&write) == Some(&1));
        for write in writes {
            let rows = view.history(&state.id, &write.address);
            let is_there = rows.iter().any(|row| row.value == write.value);
            let is_refused = operation.end == End::Fail
                && operation.answer.troubles == 0
                && is_only
                && !was_kept(view, operation);
            let what = match operation.end {
                End::Ok if !is_there => "was acknowledged and is not there",
                End::Fail if is_refused && is_there => "was refused and is there",
                _ => continue,
            };
            found.push(format!(
                "{} {}: {} of {} {what}",
                state.name, write.address, write.value, operation.client
            ));
        }
    }
    found
}

fn first_write<'a>(operation: &Operation<'a>) -> Option<(&'a str, &'a str)> {
    let (state, writes) = operation.call.writes()?;
    Some((state, &*writes.first()?.value))
}

fn was_kept(view: &View<'_>, operation: &Operation<'_>) -> bool {
    let digest = match operation.call {
        Call::Upload { sha256, .. } | Call::Push { sha256, .. } => sha256,
        _ => return false,
    };
    view.ledger.kept.iter().any(|kept| kept.digest == *digest)
}

/// A version under a reservation was written while that was active, under its own token, and only where it claims to write.
fn rights(view: &View<'_>) -> Vec<String> {
    let mut written: BTreeMap<(&str, i64), Vec<&str>> = BTreeMap::new();
    for row in &view.ledger.rows {
        let version = (&*row.state_id, row.born_seq);
        written.entry(version).or_default().push(&row.address);
    }
    let mut found = Vec::new();
    for version in &view.ledger.versions {
        let Some(id) = &version.reservation_id else {
            continue;
        };
        let name = view.name(&version.state_id);
        let Some(held) = view.reservation(id) else {
            found.push(format!(
                "{name}: version {} names no reservation",
                version.seq
            ));
            continue;
        };
        if held
            .ended_us
            .is_some_and(|ended| ended < version.created_us)
        {
            found.push(format!(
                "{name}: version {} was written {} µs after {} had ended",
                version.seq,
                version.created_us - held.ended_us.unwrap_or_default(),
                held.idem_key
            ));
        }
        if version.token.is_some_and(|token| token != held.token) {
            found.push(format!("{name}: version {} has another token", version.seq));
        }
        let claims = view.claims(held);
        let addresses = written.get(&(&*version.state_id, version.seq));
        for address in addresses.into_iter().flatten() {
            let path = segments(address);
            let covers = claims
                .iter()
                .any(|claim| claim.write && path.starts_with(&claim.path));
            if !covers {
                found.push(format!(
                    "{name}: version {} wrote {address}, which {} does not claim",
                    version.seq, held.idem_key
                ));
            }
        }
    }
    found
}

/// A live holder's commit within its claims is never refused for a version.
pub(super) fn live_holders_commit(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for operation in &view.operations {
        if operation.end != End::Fail || operation.answer.code != "version_conflict" {
            continue;
        }
        let held = match operation.call {
            Call::Upload {
                run, late: false, ..
            }
            | Call::Commit {
                run,
                uncovered: false,
                ..
            } => view.of_run(run),
            Call::Push {
                id, late: false, ..
            } => view.of_key(id),
            _ => continue,
        };
        let answered = operation.ended_wall_us;
        if held
            .iter()
            .any(|held| held.ended_us.is_none_or(|ended| ended > answered))
        {
            found.push(format!(
                "{} held {} and was refused for a version: {}",
                operation.client,
                operation.call.name(),
                operation.answer.detail
            ));
        }
    }
    found
}

/// Numbers of versions have no gap and no double within an incarnation, and the head is the last.
pub(super) fn numbers_are_whole(view: &View<'_>) -> Vec<String> {
    let mut by_state: BTreeMap<&str, Vec<&Version>> = BTreeMap::new();
    for version in &view.ledger.versions {
        by_state.entry(&version.state_id).or_default().push(version);
    }
    let mut found = Vec::new();
    for (state, mut versions) in by_state {
        versions.sort_by_key(|version| version.seq);
        let name = view.name(state);
        for pair in versions.windows(2) {
            let is_next = pair[1].seq == pair[0].seq + 1;
            let is_restored =
                pair[1].incarnation > pair[0].incarnation && pair[1].seq > pair[0].seq;
            if !is_next && !is_restored {
                found.push(format!(
                    "{name}: version {} follows {}",
                    pair[1].seq, pair[0].seq
                ));
            }
        }
        let head = view.ledger.states.iter().find(|it| it.id == state);
        if let (Some(head), Some(last)) = (head, versions.last())
            && head.head_seq != last.seq
        {
            found.push(format!(
                "{name}: the head is {} and the last version {}",
                head.head_seq, last.seq
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn a_lost_update_and_a_value_that_comes_back_are_found() {
        let mut sample = Sample::default();
        sample.row("a0", 1, "x", "");
        sample.row("a0", 2, "y", "x");
        assert_eq!(chains(&sample.view()), [""; 0]);
        sample.row("a0", 3, "z", "x");
        assert_eq!(chains(&sample.view()).len(), 1);
        sample.row("a0", 4, "y", "z");
        assert_eq!(chains(&sample.view()).len(), 2);
    }

    #[test]
    fn acknowledged_writes_are_there_and_refused_ones_are_not() {
        let mut sample = Sample::default();
        sample.row("a0", 1, "x", "");
        sample.push_ok("tf1", "a0", "x");
        assert_eq!(acknowledged(&sample.view()), [""; 0]);
        sample.push_ok("tf1", "a0", "lost");
        assert_eq!(acknowledged(&sample.view()).len(), 1);
        // A duplicate.
        sample.push_fail("tf1", "a0", "x", "version_conflict");
        assert_eq!(acknowledged(&sample.view()).len(), 1);
        sample.row("a0", 2, "refused", "x");
        sample.push_fail("tf1", "a0", "refused", "lock_not_held");
        assert_eq!(acknowledged(&sample.view()).len(), 2);
    }

    #[test]
    fn a_write_after_the_end_and_one_outside_the_claims_are_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, Some(2), &[("terraform_data.a0", true)]);
        sample.version(1, "r1", 50);
        sample.row("terraform_data.a0", 1, "x", "");
        assert_eq!(rights(&sample.view()), [""; 0]);
        sample.version(2, "r1", 5_000_000);
        assert_eq!(rights(&sample.view()).len(), 1);
        sample.row("terraform_data.a1", 1, "x", "");
        assert_eq!(rights(&sample.view()).len(), 2);
    }

    #[test]
    fn a_live_holder_that_is_refused_is_found() {
        let mut sample = Sample::default();
        sample.lock("tf1", 1, 1, None);
        sample.push_fail("tf1", "a0", "x", "lock_ended");
        assert_eq!(live_holders_commit(&sample.view()), [""; 0]);
        sample.push_fail("tf1", "a0", "x", "version_conflict");
        assert_eq!(live_holders_commit(&sample.view()).len(), 1);
    }

    #[test]
    fn gaps_and_a_head_elsewhere_are_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[]);
        sample.version(1, "r1", 5);
        sample.version(2, "r1", 6);
        sample.head(2);
        assert_eq!(numbers_are_whole(&sample.view()), [""; 0]);
        sample.version(4, "r1", 7);
        assert_eq!(numbers_are_whole(&sample.view()).len(), 2);
    }
}
