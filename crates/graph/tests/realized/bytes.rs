//! Encoded graphs, whole, damaged and made up.

use graph::{DecodeError, RealizedGraph, Seq};

use crate::support::rows::{State, Which};
use crate::support::{Rng, random};

const STATE: [u8; 16] = *b"a certain state!";
const PLENTY: usize = 1 << 24;

fn decode(bytes: &[u8]) -> Result<RealizedGraph, DecodeError> {
    RealizedGraph::decode(bytes, STATE, PLENTY)
}

/// Puts the right checksum at the end.
fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&content);
    content.extend_from_slice(&sum.to_le_bytes());
    content
}

#[test]
fn a_graph_reads_back() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let rows = rng.below(80);
        let state = random::state(&mut rng, rows);
        let bytes = state.graph().encode(STATE);
        let graph = decode(&bytes).unwrap();
        assert_eq!(graph.seq(), Seq(state.seq));
        assert_eq!(graph.instance_count(), state.rows.len());
        assert_eq!(graph.encode(STATE), bytes, "seed {seed}");
    }
}

#[test]
fn damaged_foreign_and_newer_bytes_are_told_apart() {
    let mut state = State {
        seq: 9,
        ..State::default()
    };
    state.add("t.n", &["t.a"]);
    let bytes = state.graph().encode(STATE);
    for place in 1..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        assert_eq!(
            decode(&damaged).map(|_| ()),
            Err(DecodeError::Damaged),
            "{place}"
        );
    }
    for len in 1..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len}");
    }
    let mut newer = bytes.clone();
    newer[0] = 2;
    assert_eq!(decode(&newer).map(|_| ()), Err(DecodeError::OtherFormat));
    let other = RealizedGraph::decode(&bytes, [0; 16], PLENTY);
    assert_eq!(other.map(|_| ()), Err(DecodeError::OtherState));
}

/// What is accepted is exactly what would be written: there is no second text for a graph, and so
/// nothing in the bytes that has not been looked at.
#[test]
fn made_up_bytes_are_refused_or_are_the_text_of_a_graph() {
    let mut accepted = 0;
    for seed in 0..20_000 {
        let mut rng = Rng(seed);
        let rows = rng.below(6);
        let state = random::state(&mut rng, rows);
        let mut content = state.graph().encode(STATE);
        content.truncate(content.len() - 4);
        for _ in 0..=rng.below(3) {
            let place = 1 + rng.below(content.len() - 1);
            match rng.below(4) {
                0 => content.truncate(place),
                1 => content.insert(place, rng.next() as u8),
                2 => content[place] = rng.below(4) as u8,
                _ => content[place] = rng.next() as u8,
            }
            if content.len() < 2 {
                break;
            }
        }
        let bytes = sealed(content);
        if let Ok(graph) = decode(&bytes) {
            assert_eq!(graph.encode(STATE), bytes, "seed {seed}");
            accepted += 1;
        }
    }
    assert!(accepted > 20, "nothing of this was ever accepted");
}

#[test]
fn a_graph_over_the_memory_limit_is_refused() {
    let mut state = State {
        seq: 9,
        ..State::default()
    };
    for number in 0..100 {
        state.add(&format!("t.n[{number}]"), &["t.a", "t.b"]);
    }
    let bytes = state.graph().encode(STATE);
    let with = |limit| RealizedGraph::decode(&bytes, STATE, limit).map(|_| ());
    assert_eq!(with(2_000), Err(DecodeError::TooLarge));
    assert_eq!(with(20_000), Ok(()));
}

/// Front coding lets three bytes stand for any length: each text is paid for before it is made.
#[test]
fn short_bytes_do_not_become_a_large_graph() {
    let mut content = vec![1];
    content.extend_from_slice(&STATE);
    content.push(0);
    let long = "t.".to_owned() + &"n".repeat(60_000);
    let put = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    content.extend(put(50_000));
    content.extend(put(0));
    content.extend(put(long.len()));
    content.extend_from_slice(long.as_bytes());
    for len in 0..49_999 {
        content.extend(put(long.len() + len));
        content.extend(put(1));
        content.push(b'n');
    }
    assert_eq!(
        decode(&sealed(content)).map(|_| ()),
        Err(DecodeError::TooLarge)
    );
}

#[test]
fn one_graph_has_one_text_however_it_came_about() {
    let mut state = State {
        seq: 9,
        ..State::default()
    };
    state.add("module.é.t.n", &["module.è.t.n"]);
    state.add("module.è.t.n", &[]);
    state.add_object(
        "module.è.t.n",
        Which::Deposed("00c0ffee".to_owned()),
        &["t.x"],
    );
    let forwards = state.graph();
    let backwards = RealizedGraph::build(
        Seq(9),
        state
            .rows
            .iter()
            .rev()
            .map(|(name, row)| crate::support::rows::borrowed(name, row)),
    );
    assert_eq!(forwards.encode(STATE), backwards.unwrap().encode(STATE));
    assert!(decode(&forwards.encode(STATE)).is_ok());
}
