//! Which moves have to do with a set of addresses, through any number of steps.

use std::collections::BTreeSet;

use super::{Direction, Move};
use crate::address::{ConfigAddress, ConfigModule};

/// Addresses, and modules that are meant with all that may be in them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) addresses: BTreeSet<ConfigAddress>,
    pub(crate) modules: BTreeSet<ConfigModule>,
}

/// The moves that `named` takes part in, directly or through other moves, and everything at
/// either end of them, `named` included.
pub(crate) fn follow<'m>(moves: &'m [Move], named: &Named) -> (Vec<&'m Move>, Named) {
    let mut all = named.clone();
    let mut touched = vec![false; moves.len()];
    let mut fresh = named.clone();
    // A chain uses each move once, so more rounds than there are moves cannot add an end; the
    // bound also stops a module that is moved into itself.
    for _ in 0..=moves.len() {
        let mut next = Named::default();
        for (place, candidate) in moves.iter().enumerate() {
            for direction in [Direction::Forwards, Direction::Backwards] {
                let addresses = fresh.addresses.iter();
                let found = addresses.filter_map(|address| candidate.other_end(address, direction));
                for other in found {
                    touched[place] = true;
                    if all.addresses.insert(other.clone()) {
                        next.addresses.insert(other);
                    }
                }
                for module in &fresh.modules {
                    let Some(other) = candidate.other_end_of_module(module, direction) else {
                        continue;
                    };
                    touched[place] = true;
                    if let Some(address) = other.config_address() {
                        if all.addresses.insert(address.clone()) {
                            next.addresses.insert(address);
                        }
                    } else if all.modules.insert(other.config_module()) {
                        next.modules.insert(other.config_module());
                    }
                }
            }
        }
        if next == Named::default() {
            break;
        }
        fresh = next;
    }
    let touched = moves.iter().zip(touched).filter(|(_, touched)| *touched);
    (touched.map(|(found, _)| found).collect(), all)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::moved, *};

    fn named(address: &str) -> Named {
        Named {
            addresses: BTreeSet::from([address.parse().unwrap()]),
            ..Named::default()
        }
    }

    #[test]
    fn a_module_meets_the_moves_of_what_is_in_it_and_around_it() {
        let moves = [
            moved(&[], "module.a", "module.b"),
            moved(&[], "module.b.t.x", "t.x"),
            moved(&[], "module.c.module.d", "module.e"),
        ];
        let ends = |module: &[&str]| {
            let path = ConfigModule(module.iter().map(|name| (*name).to_owned()).collect());
            let whole = Named {
                modules: BTreeSet::from([path]),
                ..Named::default()
            };
            let (_, all) = follow(&moves, &whole);
            let modules: Vec<String> = all.modules.iter().map(ToString::to_string).collect();
            (modules, all.addresses.len())
        };
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(&["a"]), (names(&["module.a", "module.b"]), 3));
        assert_eq!(
            ends(&["a", "deep"]).0,
            names(&["module.a.module.deep", "module.b.module.deep"])
        );
        assert_eq!(
            ends(&["c"]).0,
            names(&["module.c", "module.c.module.d", "module.e"])
        );
        assert_eq!(ends(&["e"]).0, names(&["module.c.module.d", "module.e"]));
        assert_eq!(ends(&["z"]).0, names(&["module.z"]));
    }

    #[test]
    fn chains_are_followed_in_both_directions() {
        let moves = [
            moved(&[], "t.b2", "t.b3"),
            moved(&[], "t.b", "t.b2"),
            moved(&[], "t.x", "t.y"),
        ];
        for start in ["t.b", "t.b2", "t.b3"] {
            let (touched, all) = follow(&moves, &named(start));
            assert_eq!(touched.len(), 2);
            let all: Vec<String> = all.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(all, ["t.b", "t.b2", "t.b3"]);
        }
    }

    #[test]
    fn a_module_moved_into_itself_comes_to_an_end() {
        let moves = [moved(&[], "module.a", "module.a.module.b")];
        let (touched, all) = follow(&moves, &named("module.a.t.x"));
        assert_eq!(touched.len(), 1);
        assert!(all.addresses.len() < 10);
        let whole = Named {
            modules: BTreeSet::from([ConfigModule::root().child("a")]),
            ..Named::default()
        };
        assert!(follow(&moves, &whole).1.modules.len() < 10);
    }
}
