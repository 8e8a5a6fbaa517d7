//! I1: no two active reservations of a state have claims that exclude each other.

use super::View;
use super::view::{Held, conflict};
use crate::history::Call;
use crate::ledger::Reservation;

pub(super) fn no_two_conflict(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for state in &view.ledger.states {
        let mut held: Vec<&Reservation> = view
            .ledger
            .reservations
            .iter()
            .filter(|reservation| reservation.state_id == state.id)
            .collect();
        held.sort_by_key(|reservation| reservation.granted_gen);
        // Those that have not ended when a later one is granted.
        let mut open: Vec<&Reservation> = Vec::new();
        for later in held {
            open.retain(|earlier| {
                earlier
                    .ended_gen
                    .is_none_or(|ended| ended > later.granted_gen)
            });
            for earlier in &open {
                if let Some(path) = clash(view, earlier, later) {
                    found.push(format!(
                        "{}: {} holds {} (token {}), and {} got it too (token {})",
                        state.name,
                        describe(earlier),
                        path,
                        earlier.token,
                        describe(later),
                        later.token,
                    ));
                }
            }
            open.push(later);
        }
    }
    found.extend(clashes_of_extensions(view));
    found
}

fn describe(reservation: &Reservation) -> &str {
    &reservation.idem_key
}

/// The path at which two reservations exclude each other by what they were granted at first.
fn clash(view: &View<'_>, earlier: &Reservation, later: &Reservation) -> Option<String> {
    let at_first = |reservation: &Reservation| -> Vec<Held> {
        let claims = view.claims(reservation).into_iter();
        claims
            .filter(|claim| !view.may_be_added(reservation, &claim.path))
            .collect()
    };
    let others = at_first(later);
    at_first(earlier).into_iter().find_map(|claim| {
        others
            .iter()
            .any(|other| conflict(&claim, other))
            .then(|| shown(&claim.path))
    })
}

/// Claims that were added later are held at least from the answer on.
fn clashes_of_extensions(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let extended =
        view.operations
            .iter()
            .filter_map(|operation| match (operation.call, operation.end) {
                (Call::Extend { run, claims }, super::view::End::Ok) => {
                    Some((run, claims, operation.ended_wall_us))
                }
                _ => None,
            });
    for (run, claims, at) in extended {
        let Some(holder) = view.of_run(run).iter().find(|it| is_active_at(it, at)) else {
            continue;
        };
        for claim in claims {
            let added = Held {
                path: crate::document::segments(&claim.address),
                write: claim.write,
            };
            let others = view.ledger.reservations.iter().filter(|other| {
                other.state_id == holder.state_id
                    && other.id != holder.id
                    && is_active_at(other, at)
            });
            for other in others {
                let first = view.claims(other).into_iter();
                let mut first = first.filter(|held| !view.may_be_added(other, &held.path));
                if first.any(|held| conflict(&held, &added)) {
                    found.push(format!(
                        "{}: {} was given {} besides, which {} holds",
                        view.name(&other.state_id),
                        describe(holder),
                        claim.address,
                        describe(other),
                    ));
                }
            }
        }
    }
    found
}

fn is_active_at(reservation: &Reservation, wall_us: i64) -> bool {
    reservation.created_us < wall_us && reservation.ended_us.is_none_or(|ended| ended > wall_us)
}

fn shown(path: &[String]) -> String {
    if path.is_empty() {
        "*".to_owned()
    } else {
        path.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn overlapping_holders_are_found_and_disjoint_or_successive_ones_are_not() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[("module.m", true)]);
        sample.hold("r2", 2, 2, Some(3), &[("terraform_data.a0", true)]);
        sample.hold("r3", 3, 4, None, &[("terraform_data.a0", true)]);
        assert_eq!(no_two_conflict(&sample.view()), [""; 0]);
        sample.hold("r4", 4, 5, None, &[("module.m.terraform_data.b0", false)]);
        assert_eq!(no_two_conflict(&sample.view()).len(), 1);
    }

    #[test]
    fn an_extension_into_what_another_holds_is_found() {
        let mut sample = Sample::default();
        sample.hold(
            "r1",
            1,
            1,
            None,
            &[("terraform_data.a0", true), ("terraform_data.a1", true)],
        );
        sample.hold("r2", 2, 2, None, &[("terraform_data.a1", true)]);
        sample.extend_ok("run-r1", "terraform_data.a1");
        assert_eq!(no_two_conflict(&sample.view()).len(), 1);
    }
}
