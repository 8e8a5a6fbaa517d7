//! I3: the tokens of a state strictly rise in the order in which grants commit.

use std::collections::BTreeMap;

use super::View;
use crate::ledger::Reservation;

pub(super) fn tokens_rise(view: &View<'_>) -> Vec<String> {
    let mut by_state: BTreeMap<&str, Vec<&Reservation>> = BTreeMap::new();
    for reservation in &view.ledger.reservations {
        let state = &*reservation.state_id;
        by_state.entry(state).or_default().push(reservation);
    }
    let mut found = Vec::new();
    for (state, mut granted) in by_state {
        granted.sort_by_key(|reservation| (reservation.incarnation, reservation.granted_gen));
        for pair in granted.windows(2) {
            if pair[1].token <= pair[0].token {
                found.push(format!(
                    "{}: token {} was granted at gen {}, and {} at gen {}",
                    view.name(state),
                    pair[0].token,
                    pair[0].granted_gen,
                    pair[1].token,
                    pair[1].granted_gen,
                ));
            }
            if pair[1].granted_gen == pair[0].granted_gen {
                found.push(format!(
                    "{}: gen {} was given twice",
                    view.name(state),
                    pair[1].granted_gen
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn a_token_that_does_not_rise_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 5, 1, Some(2), &[]);
        sample.hold("r2", 6, 3, Some(4), &[]);
        assert_eq!(tokens_rise(&sample.view()), [""; 0]);
        sample.hold("r3", 6, 5, Some(6), &[]);
        assert_eq!(tokens_rise(&sample.view()).len(), 1);
    }
}
