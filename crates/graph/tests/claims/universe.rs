//! A small closed world: everything that can exist in it, and what a claim means there.
//!
//! Meaning is decided on the fields of addresses, with no paths and no segments, so that nothing is
//! taken from the code under test.

use std::sync::LazyLock;

use graph::claims::{Access, Claim, Path};
use tfstate::{Address, Key, Mode, ModuleStep};

use crate::support::Rng;

/// A thing that a claim may cover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Thing {
    Instance(Address),
    Output(&'static str),
}

/// What can be claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Everything,
    Module(Vec<ModuleStep>),
    Resource(Address),
    Output(&'static str),
}

/// A set of things, by their number in the world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Things(Vec<u64>);

pub(crate) struct World {
    /// Every place with its path and the things it means.
    pub(crate) places: Vec<(Place, Path, Things)>,
    /// For each place the number of the place it must be claimed as.
    pub(crate) claimed_as: Vec<usize>,
}

impl Things {
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| b & !a == 0)
    }
}

/// The one world of all tests.
pub(crate) static WORLD: LazyLock<World> = LazyLock::new(World::new);

impl World {
    fn new() -> Self {
        let keys = [
            None,
            Some(Key::Int(0)),
            Some(Key::Str("0".to_owned())),
            Some(Key::Str("a.b\"]${x}".to_owned())),
        ];
        let mut modules: Vec<Vec<ModuleStep>> = vec![vec![]];
        let mut above = modules.clone();
        for _ in 0..2 {
            let mut level = Vec::new();
            for outer in &above {
                for name in ["db", "db2"] {
                    for key in &keys {
                        let mut path = outer.clone();
                        let (name, key) = (name.to_owned(), key.clone());
                        path.push(ModuleStep { name, key });
                        level.push(path);
                    }
                }
            }
            modules.extend(level.iter().cloned());
            above = level;
        }
        let mut things: Vec<Thing> = vec![Thing::Output("n"), Thing::Output("db")];
        let mut places = vec![Place::Everything, Place::Output("n"), Place::Output("db")];
        for module in modules {
            for (mode, kind, name) in [
                (Mode::Managed, "t", "n"),
                (Mode::Managed, "t", "n2"),
                (Mode::Data, "t", "n"),
                (Mode::Managed, "output", "n"),
            ] {
                for key in keys.clone() {
                    let (kind, name, module) = (kind.into(), name.into(), module.clone());
                    let address = Address {
                        module,
                        mode,
                        kind,
                        name,
                        key,
                    };
                    things.push(Thing::Instance(address.clone()));
                    places.push(Place::Resource(address));
                }
            }
            if !module.is_empty() {
                places.push(Place::Module(module));
            }
        }
        let claimed_as = places
            .iter()
            .map(|place| {
                let claimed = must_be_claimed_as(place);
                places.iter().position(|other| *other == claimed).unwrap()
            })
            .collect();
        let places = places
            .into_iter()
            .map(|place| {
                let mut meant = Things(vec![0; things.len().div_ceil(64)]);
                for (number, thing) in things.iter().enumerate() {
                    meant.0[number / 64] |= u64::from(is_meant(&place, thing)) << (number % 64);
                }
                (place.clone(), path_of(&place), meant)
            })
            .collect();
        Self { places, claimed_as }
    }

    /// Up to `most` claims, by number of the place; many near each other.
    pub(crate) fn some_claims(&self, rng: &mut Rng, most: usize) -> Vec<(usize, Access)> {
        let count = rng.below(most) + 1;
        let mut claims = Vec::with_capacity(count);
        for _ in 0..count {
            // Everything is drawn rarely, or nearly all pairs would conflict.
            let place = match rng.below(self.places.len() + 40) {
                place if place < self.places.len() => place,
                other => 1 + other % 70,
            };
            let access = if rng.one_in(3) {
                Access::Write
            } else {
                Access::Read
            };
            claims.push((place, access));
        }
        claims
    }

    pub(crate) fn claim(&self, (place, access): (usize, Access)) -> Claim {
        let path = self.places[place].1.clone();
        Claim { path, access }
    }

    /// All things that these claims read or write, and those that they write.
    pub(crate) fn meaning(&self, claims: &[(usize, Access)]) -> (Things, Things) {
        let (mut all, mut written) = (Things::default(), Things::default());
        for (place, access) in claims {
            let meant = &self.places[self.claimed_as[*place]].2;
            all.add(meant);
            if *access == Access::Write {
                written.add(meant);
            }
        }
        (all, written)
    }
}

fn is_meant(place: &Place, thing: &Thing) -> bool {
    match (place, thing) {
        (Place::Everything, _) => true,
        (Place::Output(name), Thing::Output(other)) => name == other,
        (Place::Module(steps), Thing::Instance(address)) => {
            let Some((last, above)) = steps.split_last() else {
                return true;
            };
            address.module.len() > above.len()
                && address.module[..above.len()] == *above
                && address.module[above.len()].name == last.name
                && (last.key.is_none() || address.module[above.len()].key == last.key)
        }
        (Place::Resource(claimed), Thing::Instance(address)) => {
            let mut all_keys = address.clone();
            all_keys.key = None;
            address == claimed || all_keys == *claimed
        }
        _ => false,
    }
}

/// Anything at or in an instance of a module call with keys is claimed as the call.
fn must_be_claimed_as(place: &Place) -> Place {
    let steps = match place {
        Place::Module(steps) => steps,
        Place::Resource(address) => &address.module,
        _ => return place.clone(),
    };
    match steps.iter().position(|step| step.key.is_some()) {
        Some(keyed) => {
            let mut call = steps[..=keyed].to_vec();
            call[keyed].key = None;
            Place::Module(call)
        }
        None => place.clone(),
    }
}

fn path_of(place: &Place) -> Path {
    match place {
        Place::Everything => Path::root(),
        Place::Module(steps) => Path::module(steps),
        Place::Resource(address) => Path::from(address),
        Place::Output(name) => Path::output(name),
    }
}
