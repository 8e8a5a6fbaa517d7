//! Documents that are large enough to be hashed beside the thread that renders them.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{ArchiveError, Policy, Refusal, Rule, inspect, read_versions, verify};
use support::pack::Unpacked;
use support::states::{Pieces, small};
use support::{TestHistory, trusted};

const LIMIT: u64 = 1 << 30;
const VERSIONS: u64 = 9;

/// Versions of 2 MB, of which each changes one row.
fn history() -> TestHistory {
    let long = format!("\"{}\"", "x".repeat(2_000_000));
    TestHistory::of((1..=VERSIONS).map(|serial| {
        let mut pieces = Pieces::read(&small(serial, 4)).unwrap();
        pieces.set_output("long", &long);
        pieces.change(1, usize::try_from(serial).unwrap());
        pieces.render()
    }))
}

/// The history with other digests in the records of these versions.
fn with_wrong_digests(seqs: &[u64]) -> Vec<u8> {
    let mut archive = Unpacked::of(&history().export());
    for seq in seqs {
        archive.edit(&format!("versions/{seq}.json"), |meta| {
            meta["sha256"] = "0".repeat(64).into();
        });
    }
    archive.pack_signed()
}

fn refused<T>(outcome: Result<T, ArchiveError>) -> Refusal {
    match outcome {
        Ok(_) => panic!("it was taken"),
        Err(ArchiveError::Refused(refusal)) => refusal,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn the_first_wrong_document_is_the_one_that_is_named() {
    let trusted = trusted();
    let policy = Policy::trusting(&trusted, LIMIT);
    for seqs in [&[2, 3][..], &[4, 5, 8], &[8]] {
        let refusal = refused(verify(&with_wrong_digests(seqs)[..], &policy));
        assert_eq!(refusal.rule, Rule::DocumentDigest);
        assert_eq!(refusal.entry, format!("versions/{}.delta.jsonl", seqs[0]));
    }
}

#[test]
fn a_wrong_document_is_named_before_a_later_entry_that_is_wrong() {
    let trusted = trusted();
    let mut archive = Unpacked::of(&with_wrong_digests(&[4]));
    archive.edit("versions/5.json", |meta| meta["serial"] = 77.into());
    let archive = archive.pack_signed();
    let refusal = refused(verify(&archive[..], &Policy::trusting(&trusted, LIMIT)));
    assert_eq!(refusal.rule, Rule::DocumentDigest);
    assert_eq!(refusal.entry, "versions/4.delta.jsonl");
}

#[test]
fn what_was_only_inspected_is_proven_before_its_versions_end() {
    let trusted = trusted();
    let policy = Policy::trusting(&trusted, LIMIT);
    for (wrong, outcome) in [
        (&[][..], None),
        (&[VERSIONS - 1], Some(Rule::DocumentDigest)),
    ] {
        let archive = with_wrong_digests(wrong);
        let inspected = inspect(&archive[..], &policy).unwrap();
        let mut versions = read_versions(&archive[..], &inspected, &policy).unwrap();
        let found = loop {
            match versions.next_version() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(refused::<()>(Err(error)).rule),
            }
        };
        assert_eq!(found, outcome);
    }
}
