//! The protocol of reservations and commits as a model, searched exhaustively.
//!
//! Three clients on one state: the first two want overlapping scopes, the third something else. Redis may be flushed,
//! rolled back to an older copy, or loaded with what the ledger held some time ago. Answers get lost, reservations are
//! expired or broken under their holders, and the database may be restored from an older copy. Within these bounds no
//! order of events breaks an invariant; and without any one of the rules, some order does.

mod world;

use stateright::{Checker as _, HasDiscoveries, Model as _};
use world::{Bounds, Protocol, Rules};

/// Two kinds of trouble at a time: all at once are too many states to search.
fn all_bounds() -> [Bounds; 4] {
    let bounds = |lost_answers, ended, redis_faults, restores| Bounds {
        lost_answers,
        ended,
        redis_faults,
        restores,
    };
    [
        bounds(1, 2, 0, 0),
        bounds(1, 0, 1, 0),
        bounds(0, 1, 1, 0),
        bounds(1, 0, 0, 1),
    ]
}

#[test]
fn no_order_of_events_breaks_an_invariant() {
    for bounds in all_bounds() {
        let protocol = Protocol {
            rules: Rules::ALL,
            bounds,
        };
        let checker = protocol.checker().threads(2).spawn_bfs().join();
        println!("{bounds:?}: {} states", checker.unique_state_count());
        assert!(checker.is_done(), "the search was cut short");
        if let Some((name, path)) = checker.discoveries().into_iter().next() {
            panic!("{name} does not hold: {:?}", path.into_actions());
        }
    }
}

/// Whether an order of events breaks this invariant when a rule is left out.
fn is_broken(rules: Rules, invariant: &'static str) -> bool {
    all_bounds().into_iter().any(|bounds| {
        let wanted = HasDiscoveries::AnyOf([invariant].into());
        let protocol = Protocol { rules, bounds };
        let search = protocol.checker().threads(2).finish_when(wanted);
        search.spawn_bfs().join().discovery(invariant).is_some()
    })
}

#[test]
fn every_rule_is_needed() {
    let all = Rules::ALL;
    let cases = [
        (
            Rules {
                ledger_check: false,
                ..all
            },
            world::EXCLUSION,
        ),
        (
            Rules {
                liveness: false,
                ..all
            },
            world::FENCING,
        ),
        (
            Rules {
                liveness: false,
                version_check: false,
                ..all
            },
            world::NO_LOST_UPDATE,
        ),
        (
            Rules {
                receipts: false,
                ..all
            },
            world::ONE_VERSION_A_KEY,
        ),
        (
            Rules {
                kept_results: false,
                ..all
            },
            world::NOTHING_THROWN_AWAY,
        ),
        (
            Rules {
                marks: false,
                ..all
            },
            world::MARKED,
        ),
        (
            Rules {
                known_keys: false,
                ..all
            },
            world::KNOWN_GRANTS,
        ),
        (
            Rules {
                tokens_leap: false,
                ..all
            },
            world::RISING_TOKENS,
        ),
        (
            Rules {
                seqs_leap: false,
                ..all
            },
            world::ONE_DOCUMENT_A_SEQ,
        ),
    ];
    for (rules, invariant) in cases {
        assert!(is_broken(rules, invariant), "{rules:?} keeps {invariant}");
    }
}
