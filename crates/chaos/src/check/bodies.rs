//! I8: every body sent under a reservation is in the state or kept, and whatever began to apply and ended unreleased left marks.

use super::View;
use super::view::{End, Operation};
use crate::history::Call;
use crate::ledger::Reservation;

/// Refusals that mean: what this describes has happened all the same.
const KEPT: [&str; 4] = ["lease_lost", "run_ended", "lock_ended", "outside_scope"];

pub(super) fn no_body_is_lost(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for operation in &view.operations {
        found.extend(lost(view, operation));
        if let (Call::Recover { sha256, state }, End::Ok) = (operation.call, operation.end)
            && operation.answer.sha256.as_deref() != Some(sha256)
        {
            found.push(format!(
                "{state}: what was kept is not what {} sent",
                operation.client
            ));
        }
    }
    found.extend(unmarked(view));
    found
}

fn lost(view: &View<'_>, operation: &Operation<'_>) -> Option<String> {
    if operation.end != End::Fail || !KEPT.contains(&&*operation.answer.code) {
        return None;
    }
    let (digest, held, lock) = match operation.call {
        Call::Upload {
            run, sha256, lock, ..
        } => (sha256, view.of_run(run), Some(lock)),
        Call::Push { id, sha256, .. } => (sha256, view.of_key(id), None),
        _ => return None,
    };
    // Nothing was held, so nothing was sent under it.
    if held.is_empty() {
        return None;
    }
    let is_ours = |id: &str| held.iter().any(|held| held.id == id);
    let is_kept = view.ledger.kept.iter().any(|kept| {
        let holds_it = kept.digest == *digest
            || (kept.lock_id.is_some()
                && kept.lock_id.as_ref() == lock
                && kept.kept_us >= operation.began_wall_us);
        holds_it && is_ours(&kept.reservation_id)
    });
    let is_written = operation.call.writes().is_some_and(|(state, writes)| {
        let state = view.state_named(state);
        writes.iter().all(|write| {
            let rows = state.map_or(&[][..], |state| view.history(&state.id, &write.address));
            rows.iter().any(|row| row.value == write.value)
        })
    });
    (!is_kept && !is_written).then(|| {
        format!(
            "{}: a body refused with {} is nowhere ({digest})",
            operation.client, operation.answer.code
        )
    })
}

/// Write claims of begun applies that ended without their holder's release and bear no mark.
fn unmarked(view: &View<'_>) -> Vec<String> {
    let cut_off = |held: &&Reservation| {
        held.lane == "native"
            && held.began
            && matches!(&*held.status, "expired" | "broken" | "restored")
    };
    let mut found = Vec::new();
    for held in view.ledger.reservations.iter().filter(cut_off) {
        for claim in view.claims(held).into_iter().filter(|claim| claim.write) {
            let mut marks = view.ledger.marks.iter();
            let is_marked = marks
                .any(|mark| mark.reservation_id == held.id && claim.path.starts_with(&mark.path));
            if !is_marked {
                found.push(format!(
                    "{}: {} ended as {} and left no mark at {:?}",
                    view.name(&held.state_id),
                    held.idem_key,
                    held.status,
                    claim.path
                ));
            }
        }
    }
    found
}

/// How many late bodies came back byte for byte.
pub(super) fn recovered(view: &View<'_>) -> usize {
    let same = |operation: &&Operation<'_>| match (operation.call, operation.end) {
        (Call::Recover { sha256, .. }, End::Ok) => {
            operation.answer.sha256.as_deref() == Some(sha256)
        }
        _ => false,
    };
    view.operations.iter().filter(same).count()
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn a_body_that_is_nowhere_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, Some(2), &[]);
        sample.upload_fail("run-r1", "terraform_data.a0", "x", "d1", "lease_lost");
        assert_eq!(no_body_is_lost(&sample.view()).len(), 1);
        sample.kept("r1", "d1");
        assert_eq!(no_body_is_lost(&sample.view()), [""; 0]);
    }

    #[test]
    fn another_body_than_was_sent_is_found() {
        let mut sample = Sample::default();
        sample.recover_ok("d1", "d1");
        assert_eq!(no_body_is_lost(&sample.view()), [""; 0]);
        assert_eq!(recovered(&sample.view()), 1);
        sample.recover_ok("d1", "d2");
        assert_eq!(no_body_is_lost(&sample.view()).len(), 1);
    }

    #[test]
    fn a_begun_apply_without_marks_is_found() {
        let mut sample = Sample::default();
        sample.hold(
            "r1",
            1,
            1,
            Some(2),
            &[("terraform_data.a0", true), ("terraform_data.a1", false)],
        );
        sample.end_as("r1", "broken", true);
        assert_eq!(no_body_is_lost(&sample.view()).len(), 1);
        sample.mark("r1", "terraform_data.a0");
        assert_eq!(no_body_is_lost(&sample.view()), [""; 0]);
    }
}
