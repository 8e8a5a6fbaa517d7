//! I14: the index knows no gen that the ledger does not, and in quiet it holds what the ledger holds.

use std::collections::BTreeSet;

use super::View;

pub(super) fn index_follows_ledger(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for index in &view.ledger.index {
        let Some(state) = view
            .ledger
            .states
            .iter()
            .find(|state| state.id == index.state_id)
        else {
            continue;
        };
        if index.wm > state.r#gen {
            found.push(format!(
                "{}: the index knows gen {}, and the ledger is at {}",
                state.name, index.wm, state.r#gen
            ));
        }
        let active = view
            .ledger
            .reservations
            .iter()
            .filter(|held| held.state_id == state.id && held.ended_gen.is_none());
        let active: BTreeSet<&str> = active.map(|held| &*held.id).collect();
        let held: BTreeSet<&str> = index.held.iter().map(String::as_str).collect();
        if active != held {
            found.push(format!(
                "{}: in quiet the index holds {} and the ledger {} (gen {} and {})",
                state.name,
                held.len(),
                active.len(),
                index.wm,
                state.r#gen
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
    fn an_index_that_is_ahead_or_holds_something_else_is_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[]);
        sample.index(1, &["r1"]);
        assert_eq!(index_follows_ledger(&sample.view()), [""; 0]);
        sample.index(2, &["r1"]);
        sample.index(1, &[]);
        assert_eq!(index_follows_ledger(&sample.view()).len(), 2);
    }
}
