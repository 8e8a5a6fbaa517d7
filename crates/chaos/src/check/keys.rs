//! I2 and I7: what clients were told is in the ledger, and a key has one outcome.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::view::{End, Operation};
use crate::document::segments;
use crate::history::{Call, Claim};
use crate::ledger::{Reservation, bare};

/// Every reservation a client was ever told of is in the ledger, as it was told; and an end that it was told of as well.
pub(super) fn told_is_recorded(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for operation in view.operations.iter().filter(|it| it.end == End::Ok) {
        let answer = operation.answer;
        match operation.call {
            Call::Begin { key, claims, .. } => {
                let told = answer.reservation.as_deref();
                match told.map(|id| (id, view.reservation(id))) {
                    // Its run had ended before the answer.
                    None => {}
                    Some((id, None)) => {
                        found.push(format!("{key}: told of {id}, which is not in the ledger"))
                    }
                    Some((_, Some(held))) => {
                        if answer.token != Some(held.token) {
                            found.push(format!("{key}: told of another token than {}", held.token));
                        }
                        found.extend(uncovered(view, held, claims));
                    }
                }
            }
            Call::Reserve { run, claims, .. } => match view.of_run(run).last() {
                None => found.push(format!("{run}: its claims are not in the ledger")),
                Some(held) => found.extend(uncovered(view, held, claims)),
            },
            Call::Lock { id, .. } if view.of_key(id).is_empty() => {
                found.push(format!("{id}: its lock is not in the ledger"));
            }
            Call::Finish { run, outcome } if outcome == "succeeded" || outcome == "committed" => {
                found.extend(still_held(view, run, operation));
            }
            Call::Unlock { id, .. } => {
                let active = view.of_key(id).iter().find(|held| held.ended_us.is_none());
                if active.is_some() {
                    found.push(format!("{id}: told that it is released, and it is held"));
                }
            }
            _ => {}
        }
    }
    found
}

fn uncovered(view: &View<'_>, held: &Reservation, asked: &[Claim]) -> Option<String> {
    let claims = view.claims(held);
    let missing = asked.iter().find(|asked| {
        let path = segments(&asked.address);
        !claims
            .iter()
            .any(|claim| path.starts_with(&claim.path) && (claim.write || !asked.write))
    })?;
    Some(format!(
        "{}: {} was asked for and is not claimed",
        held.idem_key, missing.address
    ))
}

/// A run that was told it has succeeded has released what it held.
fn still_held(view: &View<'_>, run: &str, operation: &Operation<'_>) -> Option<String> {
    let held = view.of_run(run).last()?;
    let is_released = held.status == "released"
        && held
            .ended_us
            .is_some_and(|ended| ended <= operation.ended_wall_us);
    (!is_released).then(|| {
        format!(
            "{run}: told that it has ended well, and its reservation is {}",
            held.status
        )
    })
}

/// One commit key has at most one version and one answer; one key to begin or lock with, one reservation.
pub(super) fn one_key_one_outcome(view: &View<'_>) -> Vec<String> {
    let mut found = versions_of_runs(view);
    found.extend(serials_of_commits(view));
    found.extend(answers_to_keys(view));
    found.extend(ended_locks(view));
    let mut by_key: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for run in &view.ledger.runs {
        *by_key.entry((&run.state_id, &run.idem_key)).or_default() += 1;
    }
    let doubles = by_key.into_iter().filter(|(_, count)| *count > 1);
    found
        .extend(doubles.map(|((_, key), count)| format!("{key}: {count} runs were begun with it")));
    found
}

/// A run has no more versions than it sent different bodies.
fn versions_of_runs(view: &View<'_>) -> Vec<String> {
    let mut sent: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for operation in &view.operations {
        match operation.call {
            Call::Upload { run, sha256, .. } => {
                _ = sent.entry(bare(run)).or_default().insert(sha256)
            }
            Call::Commit { run, writes, .. } => {
                let name = writes.first().map_or("", |write| &write.value);
                sent.entry(bare(run)).or_default().insert(name);
            }
            _ => {}
        }
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for version in &view.ledger.versions {
        if let Some(run) = &version.run_id {
            *versions.entry(run).or_default() += 1;
        }
    }
    let more = versions.into_iter().filter_map(|(run, count)| {
        let sent = sent.get(run)?.len();
        (count > sent).then(|| format!("run {run}: {sent} bodies became {count} versions"))
    });
    more.collect()
}

/// A commit that answers with a serial names the version that wrote its values.
fn serials_of_commits(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for operation in &view.operations {
        let (Call::Commit { state, writes, .. }, End::Ok) = (operation.call, operation.end) else {
            continue;
        };
        // What was committed before a lost answer stands there already at the next try, which names the head.
        if operation.answer.troubles > 0 {
            continue;
        }
        let (Some(state), Some(write)) = (view.state_named(state), writes.first()) else {
            continue;
        };
        let rows = view.history(&state.id, &write.address);
        let born = rows
            .iter()
            .find(|row| row.value == write.value)
            .map(|row| row.born_seq);
        let mut versions = view.ledger.versions.iter();
        let version = versions.find(|it| it.state_id == state.id && Some(it.seq) == born);
        if let Some(version) = version
            && version.serial != operation.answer.serial
        {
            found.push(format!(
                "{}: told of serial {:?} for {}, which is in that of {:?}",
                operation.client, operation.answer.serial, write.value, version.serial
            ));
        }
    }
    found
}

/// Every answer to one key names one reservation, and while that is held no repetition is refused.
fn answers_to_keys(view: &View<'_>) -> Vec<String> {
    let mut by_key: BTreeMap<&str, Vec<&Operation<'_>>> = BTreeMap::new();
    for operation in &view.operations {
        match operation.call {
            Call::Begin { key: name, .. } | Call::Lock { id: name, .. } => {
                by_key.entry(name).or_default().push(operation);
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (key, operations) in by_key {
        let told: BTreeSet<_> = operations
            .iter()
            .filter(|it| it.end == End::Ok)
            .filter_map(|it| it.answer.run.as_deref())
            .collect();
        if told.len() > 1 {
            found.push(format!("{key}: was told of {} runs", told.len()));
        }
        for operation in operations.iter().filter(|it| it.end == End::Fail) {
            if let Some(held) = held_throughout(view, key, operation) {
                found.push(format!(
                    "{key}: refused ({}) while {held} is held for it",
                    operation.answer.code
                ));
            }
        }
    }
    found
}

/// A reservation of this very key that was active from the operation's beginning to its end.
fn held_throughout<'a>(view: &View<'a>, key: &str, operation: &Operation<'_>) -> Option<&'a str> {
    let by_runs = view.ledger.runs.iter().filter(|run| run.idem_key == key);
    let by_runs = by_runs.flat_map(|run| view.of_run(&run.id).iter());
    let mut held = view.of_key(key).iter().chain(by_runs);
    let found = held.find(|held| {
        held.created_us < operation.began_wall_us
            && held
                .ended_us
                .is_none_or(|ended| ended > operation.ended_wall_us)
    });
    // One that was granted by an earlier try of the same operation is a ghost all the same.
    let ghost = || {
        let by_runs = view.ledger.runs.iter().filter(|run| run.idem_key == key);
        let by_runs = by_runs.flat_map(|run| view.of_run(&run.id).iter());
        view.of_key(key).iter().chain(by_runs).find(|held| {
            let is_conflict = matches!(operation.answer.status, 423);
            let long_before = held.created_us + 1_000_000 < operation.ended_wall_us;
            is_conflict
                && long_before
                && operation.answer.troubles == 0
                && held
                    .ended_us
                    .is_none_or(|ended| ended > operation.ended_wall_us)
        })
    };
    found.or_else(ghost).map(|held| &*held.id)
}

/// A lock whose end its client was told of never comes to life again.
fn ended_locks(view: &View<'_>) -> Vec<String> {
    let mut released: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in view.operations.iter().filter(|it| it.end == End::Ok) {
        if let Call::Unlock { id, .. } = operation.call {
            released.entry(id).or_insert(operation.ended_us);
        }
    }
    let mut found = Vec::new();
    for operation in view.operations.iter().filter(|it| it.end == End::Ok) {
        if let Call::Lock { id, .. } = operation.call
            && released
                .get(&**id)
                .is_some_and(|at| *at < operation.began_us)
        {
            found.push(format!("{id}: a lock that was released was granted again"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn a_grant_that_is_not_recorded_or_otherwise_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 7, 1, None, &[("terraform_data.a0", true)]);
        sample.begin_ok("k1", "r1", 7, "terraform_data.a0");
        assert_eq!(told_is_recorded(&sample.view()), [""; 0]);
        sample.begin_ok("k2", "r1", 8, "terraform_data.a0");
        sample.begin_ok("k3", "r9", 7, "terraform_data.a0");
        sample.begin_ok("k4", "r1", 7, "terraform_data.a1");
        sample.lock_ok("nowhere");
        assert_eq!(told_is_recorded(&sample.view()).len(), 4);
    }

    #[test]
    fn an_end_that_was_told_and_did_not_happen_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[]);
        sample.finish_ok("run-r1", "failed");
        assert_eq!(told_is_recorded(&sample.view()), [""; 0]);
        sample.finish_ok("run-r1", "succeeded");
        assert_eq!(told_is_recorded(&sample.view()).len(), 1);
    }

    #[test]
    fn a_second_version_of_one_body_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[("terraform_data.a0", true)]);
        sample.upload_ok("run-r1", "terraform_data.a0", "x", "digest");
        sample.version(1, "r1", 5);
        assert_eq!(one_key_one_outcome(&sample.view()), [""; 0]);
        sample.version(2, "r1", 6);
        assert_eq!(one_key_one_outcome(&sample.view()).len(), 1);
    }

    #[test]
    fn two_runs_for_one_key_are_found() {
        let mut sample = Sample::default();
        sample.run("run1", "k1");
        assert_eq!(one_key_one_outcome(&sample.view()), [""; 0]);
        sample.run("run2", "k1");
        assert_eq!(one_key_one_outcome(&sample.view()).len(), 1);
    }

    #[test]
    fn a_lock_that_comes_back_or_meets_itself_is_found() {
        let mut sample = Sample::default();
        sample.lock("tf1", 1, 1, None);
        sample.lock_ok("tf1");
        assert_eq!(one_key_one_outcome(&sample.view()), [""; 0]);
        sample.lock_fail("tf1", 423);
        assert_eq!(one_key_one_outcome(&sample.view()).len(), 1);
        let mut sample = Sample::default();
        sample.unlock_ok("tf2");
        sample.lock_ok("tf2");
        assert_eq!(one_key_one_outcome(&sample.view()).len(), 1);
    }
}
