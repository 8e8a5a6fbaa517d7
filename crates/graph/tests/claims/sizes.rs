//! Sets too large for a reservation.

use graph::claims::{Access, Claim, ClaimSet, MAX_NODES, MAX_PATH_BYTES, Path};

use crate::support::Rng;

fn set(texts: impl IntoIterator<Item = (String, Access)>) -> ClaimSet {
    ClaimSet::new(texts.into_iter().map(|(text, access)| Claim {
        path: text.parse().unwrap(),
        access,
    }))
}

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

#[test]
fn a_set_at_the_limit_stays_as_it_is() {
    let claims = set((0..MAX_NODES - 1).map(|number| (format!("t.n{number}"), Access::Write)));
    assert_eq!(claims.nodes().len(), MAX_NODES);
    assert!(claims.coarsened().is_empty());
}

#[test]
fn many_keys_of_one_resource_widen_only_that_resource() {
    let keys = (0..5_000).map(|key| (format!("t.n[{key}]"), Access::Write));
    let other = (0..50).map(|number| (format!("module.a.module.b.t.n{number}"), Access::Read));
    let claims = set(keys.chain(other));
    assert_eq!(claims.coarsened(), [path("t.n")]);
    assert!(claims.grants(&path("t.n[\"new\"]"), Access::Write));
    assert!(!claims.grants(&path("module.a"), Access::Read));
}

#[test]
fn many_resources_are_claimed_by_their_module() {
    let big = (0..5_000).map(|number| (format!("module.big.t.n{number}"), Access::Read));
    let claims = set(big.chain([("module.small.t.n".to_owned(), Access::Write)]));
    assert_eq!(claims.coarsened(), [path("module.big")]);
    assert!(!claims.grants(&path("module.big.t.n7"), Access::Write));
    assert!(claims.grants(&path("module.small.t.n"), Access::Write));
    assert!(!claims.grants(&path("module.small"), Access::Read));
}

#[test]
fn one_write_makes_the_covering_claim_a_write() {
    let reads = (0..5_000).map(|number| (format!("module.big.t.n{number}"), Access::Read));
    let claims = set(reads.chain([("module.big.u.w".to_owned(), Access::Write)]));
    assert!(claims.grants(&path("module.big"), Access::Write));
}

#[test]
fn many_resources_of_the_root_module_become_the_whole_state() {
    let claims = set((0..5_000).map(|number| (format!("t.n{number}"), Access::Write)));
    assert_eq!(claims.coarsened(), [Path::root()]);
    assert_eq!(claims.nodes(), ClaimSet::whole_state().nodes());
}

#[test]
fn a_very_long_key_is_claimed_by_its_resource() {
    let long = format!("t.n[\"{}\"]", "k".repeat(MAX_PATH_BYTES));
    let claims = set([(long.clone(), Access::Write)]);
    assert_eq!(claims.coarsened(), [path("t.n")]);
    assert!(claims.grants(&path(&long), Access::Write));
}

#[test]
fn a_large_set_fits_and_grants_all_that_was_asked_for() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let count = 3_000 + rng.below(6_000);
        let mut asked: Vec<(Path, Access)> = Vec::new();
        for _ in 0..count {
            let mut text = String::new();
            for level in 0..rng.below(4) {
                let breadth = 2 + rng.below(30) * level;
                text.push_str(&format!("module.m{}.", rng.below(breadth)));
            }
            text.push_str(&format!("t.n{}", rng.below(40)));
            if rng.one_in(2) {
                text.push_str(&format!("[{}]", rng.below(2_000)));
            }
            let access = if rng.one_in(4) {
                Access::Write
            } else {
                Access::Read
            };
            asked.push((path(&text), access));
        }
        let claims = ClaimSet::new(asked.iter().map(|(path, access)| Claim {
            path: path.clone(),
            access: *access,
        }));
        assert!(claims.nodes().len() <= MAX_NODES, "seed {seed}");
        for (path, access) in &asked {
            assert!(claims.grants(path, *access), "seed {seed}: {path}");
        }
        for (claimed, _) in claims.iter() {
            let is_asked = asked.iter().any(|(path, _)| path == claimed);
            assert!(
                is_asked || claims.coarsened().contains(claimed),
                "seed {seed}: {claimed}"
            );
        }
        let again = ClaimSet::new(claims.iter().map(|(path, access)| Claim {
            path: path.clone(),
            access,
        }));
        assert!(
            again.iter().eq(claims.iter()),
            "seed {seed}: not in its final form"
        );
    }
}
