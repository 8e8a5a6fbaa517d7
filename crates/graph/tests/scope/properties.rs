//! Random states, configurations and targets.

use std::collections::BTreeSet;

use graph::claims::{Access, Path};
use graph::scope::{
    Calls, ConfigNode, Configuration, Operation, Repetition, ScopeContract, ScopeRequest, expand,
};

use crate::model::{self, Edges};
use crate::support::config::{self, targets};
use crate::support::rows::State;
use crate::support::{Rng, random};

struct Round {
    state: State,
    declared: Edges,
    targets: Vec<String>,
    request: ScopeRequest,
}

fn round(rng: &mut Rng) -> Round {
    let rows = rng.below(40);
    let state = random::state(rng, rows);
    let mut declared = Edges::new();
    for _ in 0..rng.below(25) {
        let block = random::block(rng).config_address();
        let refers = declared.entry(block).or_default();
        for _ in 0..rng.below(3) {
            refers.insert(random::block(rng).config_address());
        }
    }
    let mut targets = Vec::new();
    for _ in 0..=rng.below(3) {
        targets.push(match rng.below(5) {
            0 => rng
                .pick(&["module.m", "module.k", "module.k[0]", "module.m.module.k"])
                .to_string(),
            1 => random::block(rng).config_address(),
            _ => random::block(rng).instance(rng),
        });
    }
    let nodes = declared.iter().map(|(block, refers)| ConfigNode {
        address: block.parse().unwrap(),
        dependencies: refers.iter().map(|text| text.parse().unwrap()).collect(),
        repetition: Repetition::Unknown,
    });
    let nodes = nodes.collect();
    let texts: Vec<&str> = targets.iter().map(String::as_str).collect();
    let request = ScopeRequest {
        operation: if rng.one_in(3) {
            Operation::Destroy
        } else {
            Operation::Apply
        },
        write: config::targets(&texts),
        configuration: Some(Configuration {
            nodes,
            ..Configuration::default()
        }),
        ..ScopeRequest::default()
    };
    Round {
        state,
        declared,
        targets,
        request,
    }
}

#[test]
fn a_scope_is_that_of_the_slow_model() {
    for seed in 0..6_000 {
        let Round {
            state,
            declared,
            targets,
            request,
        } = round(&mut Rng(seed));
        let contract = expand(&state.graph(), &request);
        let destroy = request.operation == Operation::Destroy;
        let expected = model::answer(&state, &declared, &targets, destroy);
        let set = |texts: &[String]| texts.iter().cloned().collect::<BTreeSet<String>>();
        let answer = model::Answer {
            fetch: set(&contract.fetch_addresses),
            write: set(&contract.write_addresses),
            required: set(&contract.config_required_nodes),
            missing: set(&contract.missing_from_state),
        };
        assert_eq!(
            answer, expected,
            "seed {seed}: {targets:?} destroy {destroy}"
        );
        assert_contract(&state, &contract, seed);
    }
}

/// What holds for every contract.
fn assert_contract(state: &State, contract: &ScopeContract, seed: u64) {
    let fetched: BTreeSet<&String> = contract.fetch_addresses.iter().collect();
    let parts = contract
        .write_addresses
        .iter()
        .chain(&contract.read_addresses);
    assert_eq!(parts.clone().count(), fetched.len(), "seed {seed}");
    assert!(
        parts.clone().all(|address| fetched.contains(address)),
        "seed {seed}"
    );
    let claims = &contract.reservation_candidates;
    for (addresses, access) in [
        (&contract.write_addresses, Access::Write),
        (&contract.read_addresses, Access::Read),
    ] {
        for address in addresses {
            let path: Path = address.parse().unwrap();
            assert!(
                claims.grants(&path, access),
                "seed {seed}: {access} {address}"
            );
        }
    }
    // Closed: of each block that something fetched depends on, everything is fetched.
    for ((address, _), row) in &state.rows {
        if fetched.contains(address) {
            for ((other, _), needed) in &state.rows {
                let depends = row.dependencies.contains(&needed.config_address)
                    || row.config_address == needed.config_address;
                assert!(
                    !depends || fetched.contains(other),
                    "seed {seed}: {address} {other}"
                );
            }
        }
    }
}

#[test]
fn what_was_widened_needs_no_more_widening() {
    let mut widened = 0;
    for seed in 0..3_000 {
        let rng = &mut Rng(seed);
        let Round {
            state, mut request, ..
        } = round(rng);
        let configuration = request.configuration.as_mut().unwrap();
        configuration.calls = Calls::Repeated(Vec::new());
        for node in &mut configuration.nodes {
            let all = [
                Repetition::Unknown,
                Repetition::Single,
                Repetition::Count,
                Repetition::ForEach,
            ];
            node.repetition = *rng.pick(&all);
        }
        if rng.one_in(2) {
            config::repeat_call(configuration, "module.k", Repetition::Count);
        }
        for _ in 0..rng.below(5) {
            let (from, to) = if rng.one_in(4) {
                ("module.k[0]".to_owned(), "module.m2".to_owned())
            } else {
                (
                    random::block(rng).instance(rng),
                    random::block(rng).instance(rng),
                )
            };
            config::moved(configuration, &from, &to);
        }
        let graph = state.graph();
        let first = expand(&graph, &request);
        assert_contract(&state, &first, seed);
        // Destroying is not widened, but refused.
        if request.operation == Operation::Destroy {
            assert_eq!(first.write_targets, request.write, "seed {seed}");
            continue;
        }
        for one in &first.moves {
            let is_written = |end| first.write_targets.iter().any(|other| other.includes(end));
            assert!(
                one.ends().into_iter().all(is_written),
                "seed {seed}: {one:?}"
            );
        }
        let mut again = request.clone();
        again.write.clone_from(&first.write_targets);
        let second = expand(&graph, &again);
        assert_eq!(second.fetch_addresses, first.fetch_addresses, "seed {seed}");
        assert_eq!(second.write_addresses, first.write_addresses, "seed {seed}");
        assert_eq!(second.write_targets, first.write_targets, "seed {seed}");
        widened += usize::from(first.write_targets != request.write);
    }
    assert!(widened > 300, "{widened}");
}

#[test]
fn wider_targets_never_shrink_a_scope() {
    for seed in 0..3_000 {
        let rng = &mut Rng(seed);
        let Round { state, request, .. } = round(rng);
        let graph = state.graph();
        let small = expand(&graph, &request);
        let mut more = request.clone();
        let other = random::block(rng).config_address();
        more.write.extend(targets(&[other.as_str()]));
        let large = expand(&graph, &more);
        let fetched: BTreeSet<&String> = large.fetch_addresses.iter().collect();
        assert!(
            small
                .fetch_addresses
                .iter()
                .all(|address| fetched.contains(address)),
            "seed {seed}"
        );
    }
}
