//! A kept upload against what its writer started from and what the state has become. Pure.

use std::collections::{BTreeMap, BTreeSet};

use graph::claims::Path;
use protocol::runs::{KeptAddress, KeptChange};
use tfstate::{OrdKey, Place, State};

/// What stands somewhere: digests by place, and of outputs by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) instances: BTreeMap<Vec<u8>, [u8; 32]>,
    pub(crate) outputs: BTreeMap<String, [u8; 32]>,
}

impl Standing {
    pub(crate) fn of(state: &State<'_>) -> Self {
        let instances = state.instances.iter();
        let outputs = state.outputs.iter();
        Self {
            instances: instances
                .map(|row| (row.ord.to_vec(), row.digest.0))
                .collect(),
            outputs: outputs
                .map(|row| (row.name.clone(), row.digest.0))
                .collect(),
        }
    }
}

/// A place that the writer of a kept upload changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) at: At,
    pub(crate) path: Path,
    pub(crate) base: Option<[u8; 32]>,
    pub(crate) kept: Option<[u8; 32]>,
    /// Whether something stood there that the writer was not shown.
    pub(crate) outside: bool,
}

/// Where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    Instance(Vec<u8>),
    Output(String),
}

/// What the writer changed since its base.
pub(crate) fn changed(base: &Standing, kept: &Standing) -> Vec<Changed> {
    let mut found = Vec::new();
    let places: BTreeSet<_> = base.instances.keys().chain(kept.instances.keys()).collect();
    for ord in places {
        let (before, after) = (base.instances.get(ord), kept.instances.get(ord));
        if before == after {
            continue;
        }
        // What cannot be read was written by this service as an encoded place; the whole state covers it all the same.
        let path = Place::decode(ord).map_or_else(|_| Path::root(), |place| path_of(&place));
        found.push(Changed {
            at: At::Instance(ord.clone()),
            path,
            base: before.copied(),
            kept: after.copied(),
            outside: false,
        });
    }
    let names: BTreeSet<_> = base.outputs.keys().chain(kept.outputs.keys()).collect();
    for name in names {
        let (before, after) = (base.outputs.get(name), kept.outputs.get(name));
        if before != after {
            found.push(Changed {
                at: At::Output(name.clone()),
                path: Path::output(name),
                base: before.copied(),
                kept: after.copied(),
                outside: false,
            });
        }
    }
    found
}

/// Whether the writer made something where it was shown nothing.
pub(crate) fn any_new(changes: &[Changed]) -> bool {
    changes.iter().any(|change| change.base.is_none())
}

/// The same changes, for a writer who was shown only a part of `version`: what stood elsewhere was not added by it.
pub(crate) fn beside(changes: Vec<Changed>, version: &Standing) -> Vec<Changed> {
    let seen = |mut change: Changed| {
        if change.base.is_none() {
            change.base = change.now(version);
            change.outside = change.base.is_some();
        }
        (change.base != change.kept).then_some(change)
    };
    changes.into_iter().filter_map(seen).collect()
}

fn path_of(place: &Place) -> Path {
    let module: tfstate::ModulePath = place.module.parse().unwrap_or_default();
    let key = match &place.key {
        OrdKey::Shell => None,
        OrdKey::Instance { key, .. } => key.as_ref(),
    };
    Path::resource(&module.0, place.mode, &place.kind, &place.name, key)
}

impl Changed {
    /// What stands at its place.
    pub(crate) fn now(&self, state: &Standing) -> Option<[u8; 32]> {
        match &self.at {
            At::Instance(ord) => state.instances.get(ord).copied(),
            At::Output(name) => state.outputs.get(name).copied(),
        }
    }

    pub(crate) fn shown(&self, state: &Standing) -> KeptAddress {
        KeptAddress {
            address: self.path.to_string(),
            kept: change(self.base, self.kept),
            state: change(self.base, self.now(state)),
            outside: self.outside,
        }
    }
}

fn change(before: Option<[u8; 32]>, after: Option<[u8; 32]>) -> KeptChange {
    match (before, after) {
        (before, after) if before == after => KeptChange::Unchanged,
        (None, _) => KeptChange::Added,
        (_, None) => KeptChange::Removed,
        _ => KeptChange::Changed,
    }
}

/// Which of the changes are taken over, when some are decided by hand.
///
/// # Errors
///
/// The addresses that the state changed, too, or that the writer was not shown, and that nobody decided over.
pub(crate) fn choose<'a>(
    changes: &'a [Changed],
    state: &Standing,
    prefer_kept: &BTreeSet<String>,
    prefer_state: &BTreeSet<String>,
) -> Result<Vec<&'a Changed>, Vec<String>> {
    let mut taken = Vec::new();
    let mut undecided = Vec::new();
    for change in changes {
        let now = change.now(state);
        let address = change.path.to_string();
        if now == change.kept || prefer_state.contains(&address) {
            continue;
        }
        let is_left_alone = now == change.base && !change.outside;
        if is_left_alone || prefer_kept.contains(&address) {
            taken.push(change);
        } else {
            undecided.push(address);
        }
    }
    undecided.dedup();
    if undecided.is_empty() {
        Ok(taken)
    } else {
        Err(undecided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(outputs: &[(&str, u8)]) -> Standing {
        Standing {
            instances: BTreeMap::new(),
            outputs: outputs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), [*value; 32]))
                .collect(),
        }
    }

    #[test]
    fn what_the_state_left_alone_is_taken_and_the_rest_is_for_a_person() {
        let base = standing(&[("a", 1), ("b", 1), ("c", 1), ("same", 1)]);
        let kept = standing(&[("a", 2), ("b", 2), ("new", 2), ("same", 2)]);
        let state = standing(&[("a", 1), ("b", 3), ("c", 1), ("same", 2)]);
        let changes = changed(&base, &kept);
        assert_eq!(changes.len(), 5);
        let set = |names: &[&str]| names.iter().map(|name| format!("output.{name}")).collect();
        let taken = |kept: &[&str], theirs: &[&str]| {
            choose(&changes, &state, &set(kept), &set(theirs)).map(|taken| {
                taken
                    .iter()
                    .map(|one| one.path.to_string())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(taken(&[], &[]), Err(vec!["output.b".to_owned()]));
        assert_eq!(
            taken(&["b"], &[]).unwrap(),
            ["output.a", "output.b", "output.c", "output.new"]
        );
        assert_eq!(taken(&[], &["b", "c"]).unwrap(), ["output.a", "output.new"]);
        let shown = changes[1].shown(&state);
        assert_eq!(
            (shown.kept, shown.state),
            (KeptChange::Changed, KeptChange::Changed)
        );
        let shown = changes[2].shown(&state);
        assert_eq!(
            (shown.kept, shown.state),
            (KeptChange::Removed, KeptChange::Unchanged)
        );
    }

    #[test]
    fn what_stood_outside_of_the_slice_was_not_added_and_is_decided_by_hand() {
        let slice = standing(&[("a", 1)]);
        let kept = standing(&[("a", 2), ("there", 2), ("same", 1), ("new", 2)]);
        let version = standing(&[("a", 1), ("there", 1), ("same", 1)]);
        let changes = beside(changed(&slice, &kept), &version);
        let shown: Vec<_> = changes
            .iter()
            .map(|change| change.shown(&version))
            .map(|shown| (shown.address, shown.kept, shown.state, shown.outside))
            .collect();
        let (changed, added) = (KeptChange::Changed, KeptChange::Added);
        let expected = [
            ("a", changed, false),
            ("new", added, false),
            ("there", changed, true),
        ]
        .map(|(name, kept, outside)| {
            (
                format!("output.{name}"),
                kept,
                KeptChange::Unchanged,
                outside,
            )
        });
        assert_eq!(shown, expected);
        let none = BTreeSet::new();
        let undecided = choose(&changes, &version, &none, &none).unwrap_err();
        assert_eq!(undecided, ["output.there"]);
    }
}
