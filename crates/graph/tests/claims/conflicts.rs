//! Who excludes whom.

use graph::claims::{Access, ClaimSet, NodeHash, Path};

use crate::support::Rng;
use crate::universe::{WORLD, World};

fn compare_pairs(world: &World, rounds: u64, seed: u64) {
    let mut conflicts = 0;
    for round in 0..rounds {
        let mut rng = Rng(seed + round);
        let held = world.some_claims(&mut rng, 4);
        let asked = world.some_claims(&mut rng, 4);
        let (held_all, held_written) = world.meaning(&held);
        let (asked_all, asked_written) = world.meaning(&asked);
        let expected = held_written.meets(&asked_all) || asked_written.meets(&held_all);
        let set = |claims: &[_]| ClaimSet::new(claims.iter().map(|claim| world.claim(*claim)));
        let (held, asked) = (set(&held), set(&asked));
        let context = || format!("seed {}: {held:?} {asked:?}", seed + round);
        assert_eq!(
            held.first_overlap(&asked).is_some(),
            expected,
            "{}",
            context()
        );
        assert_eq!(
            held.nodes().conflict(&asked.nodes()),
            expected,
            "{}",
            context()
        );
        assert_eq!(
            asked.nodes().conflict(&held.nodes()),
            expected,
            "{}",
            context()
        );
        conflicts += u64::from(expected);
    }
    // Neither answer may be so rare that it goes untested.
    assert!(
        conflicts > rounds / 10 && conflicts < rounds * 9 / 10,
        "{conflicts}"
    );
}

#[test]
fn reservations_conflict_exactly_if_one_writes_a_thing_the_other_holds() {
    compare_pairs(&WORLD, 30_000, 1);
}

/// A million pairs, for an optimised build: `cargo test --release -p graph -- --ignored`.
#[test]
#[ignore = "a million pairs are for an optimised build"]
fn a_million_pairs_conflict_exactly_if_one_writes_a_thing_the_other_holds() {
    compare_pairs(&WORLD, 1_000_000, 1_000_000);
}

#[test]
fn a_path_covers_another_exactly_if_it_means_all_that_the_other_means() {
    let world = &*WORLD;
    for round in 0..40_000 {
        let mut rng = Rng(round);
        let (_, path, meant) = rng.pick(&world.places);
        let (_, other, other_meant) = rng.pick(&world.places);
        assert_eq!(
            path.covers(other),
            meant.contains(other_meant),
            "{path} {other}"
        );
        assert_eq!(
            path.overlaps(other),
            meant.meets(other_meant),
            "{path} {other}"
        );
    }
}

#[test]
fn a_granted_access_lies_within_what_is_claimed() {
    let world = &*WORLD;
    for round in 0..20_000 {
        let mut rng = Rng(round);
        let claims = world.some_claims(&mut rng, 4);
        let (all, written) = world.meaning(&claims);
        let set = ClaimSet::new(claims.iter().map(|claim| world.claim(*claim)));
        let (_, path, meant) = rng.pick(&world.places);
        if set.grants(path, Access::Write) {
            assert!(written.contains(meant), "seed {round}: {path}");
        }
        if set.grants(path, Access::Read) {
            assert!(all.contains(meant), "seed {round}: {path}");
        }
        for (place, access) in claims {
            assert!(set.grants(&world.places[place].1, access), "seed {round}");
        }
    }
}

#[test]
fn every_path_of_the_world_has_its_own_hash() {
    let world = &*WORLD;
    let mut hashes: Vec<NodeHash> = Vec::new();
    let mut paths: Vec<&Path> = world.places.iter().map(|(_, path, _)| path).collect();
    paths.sort();
    paths.dedup();
    hashes.extend(paths.iter().map(|path| NodeHash::of(path)));
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), paths.len());
}

#[test]
fn hashes_are_the_same_in_every_release() {
    // Computed with another implementation of SHA-256 from the layout in `claims/hash.rs`.
    let hash = |text: &str| NodeHash::of(&text.parse().unwrap()).get();
    assert_eq!(hash("*"), -8769971958181354797);
    assert_eq!(hash("module.a.data.t.n[\"k\"]"), -2492227078705910037);
    assert_eq!(hash("output.vpc_id"), 4236574125878770725);
}

#[test]
fn neighbours_in_spelling_are_strangers() {
    let claims = |text: &str| {
        let path = text.parse().unwrap();
        ClaimSet::new([graph::claims::Claim::write(path)])
    };
    for (held, asked, expected) in [
        ("module.db", "module.db2", false),
        ("module.db", "module.db[0]", true),
        ("module.db", "module.db[\"a\"].aws_x.y", true),
        ("aws_x.y", "aws_x.y[0]", true),
        ("aws_x.y", "aws_x.y2", false),
        ("aws_x.y", "data.aws_x.y", false),
        ("aws_x.y[0]", "aws_x.y[\"0\"]", false),
        ("aws_x.y[\"a.b\"]", "aws_x.y[\"a\"]", false),
        ("output.a", "output.a", true),
        ("output.a", "output.ab", false),
        ("output.a", "resource.output.a", false),
        ("module.m[\"x\"].t.a", "module.m[\"y\"].t.b", true),
        ("module.m.t.a", "module.m.t.b", false),
        ("*", "output.a", true),
    ] {
        let (held_set, asked_set) = (claims(held), claims(asked));
        assert_eq!(
            held_set.first_overlap(&asked_set).is_some(),
            expected,
            "{held} {asked}"
        );
        assert_eq!(
            held_set.nodes().conflict(&asked_set.nodes()),
            expected,
            "{held} {asked}"
        );
    }
}
