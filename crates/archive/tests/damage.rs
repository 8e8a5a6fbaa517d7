//! Archives that were cut, flipped or scrambled on their way.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{ArchiveError, Policy, Rule, verify};
use support::pack::{Unpacked, compress, tar_stream};
use support::states::{changed_in_every_way, corpus, small};
use support::{TestHistory, trusted};

const LIMIT: u64 = 1 << 30;

fn refusal(archive: &[u8]) -> Option<Rule> {
    let trusted = trusted();
    match verify(archive, &Policy::trusting(&trusted, LIMIT)) {
        Ok(_) => None,
        Err(ArchiveError::Refused(refusal)) => Some(refusal.rule),
        Err(other) => panic!("{other:?}"),
    }
}

/// A small archive that has everything an archive can have.
fn sample() -> TestHistory {
    let mut documents = changed_in_every_way(&small(1, 2));
    documents.truncate(4);
    documents.push(b"{\"version\": 4, \"serial\": 9, \"resources\": []}".to_vec());
    documents.push(small(10, 1));
    TestHistory::of(documents).tag("prod", 1).run("run_1", &[2])
}

#[test]
fn a_file_cut_anywhere_is_told_to_be_cut() {
    let documents = corpus().into_iter().map(|(_, document)| document);
    let archive = TestHistory::of(documents).export();
    let page = 4 << 10;
    assert!(
        archive.len() > 20 * page,
        "{} bytes make too few cuts",
        archive.len()
    );
    let near_the_end = archive.len() - 60..archive.len();
    for end in (0..archive.len())
        .step_by(page)
        .chain([1, 5, 6, 7])
        .chain(near_the_end)
    {
        assert_eq!(refusal(&archive[..end]), Some(Rule::Cut), "cut at {end}");
    }
    assert_eq!(refusal(&archive), None);
}

#[test]
fn every_flipped_byte_is_refused() {
    // The same archive with a small window, so that thousands of readings take seconds.
    let archive = Unpacked::of(&sample().export()).pack();
    assert_eq!(refusal(&archive), None);
    for at in 0..archive.len() {
        let mut flipped = archive.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(refusal(&flipped).is_some(), "bit {} of byte {at}", at % 8);
    }
}

#[test]
fn every_changed_byte_of_the_tar_stream_is_refused() {
    // Compressed and sealed anew, as someone would who does not have the key.
    let stream = tar_stream(&TestHistory::of((1..=3).map(|serial| small(serial, 1))).export());
    for at in 0..stream.len() {
        let mut changed = stream.clone();
        changed[at] = changed[at].wrapping_add(1);
        assert!(refusal(&compress(&changed)).is_some(), "byte {at}");
    }
}

#[test]
fn what_follows_the_end_is_refused() {
    let archive = sample().export();
    let with = |more: &[u8]| refusal(&[&archive[..], more].concat());
    assert_eq!(with(b"\0"), Some(Rule::TrailingData));
    assert_eq!(with(&archive), Some(Rule::TrailingData));
    let mut stream = tar_stream(&archive);
    stream.extend([0; 512]);
    assert_eq!(refusal(&compress(&stream)), Some(Rule::TrailingData));
    stream.truncate(stream.len() - 1024);
    assert_eq!(refusal(&compress(&stream)), Some(Rule::TarEnd));
    stream.truncate(stream.len() - 512);
    assert_eq!(refusal(&compress(&stream)), Some(Rule::TarEnd));
    let last = stream.len();
    stream.extend([0; 1024]);
    stream[last + 700] = 1;
    assert_eq!(refusal(&compress(&stream)), Some(Rule::TarEnd));
}

#[test]
fn other_compression_is_told_apart() {
    let stream = tar_stream(&sample().export());
    assert_eq!(refusal(b""), Some(Rule::Cut));
    assert_eq!(refusal(b"PK\x03\x04 not one of ours"), Some(Rule::NotZstd));
    assert_eq!(refusal(&stream), Some(Rule::NotZstd));
    let plain = zstd::encode_all(&stream[..], 1).unwrap();
    assert_eq!(refusal(&support::pack::seal(plain)), Some(Rule::ZstdHeader));
    let wide = support::pack::compress_with(&stream, 28);
    assert_eq!(refusal(&wide), Some(Rule::WindowTooLarge));
    let sound = compress(&stream);
    let unsealed = &sound[..sound.len() - 48];
    assert_eq!(refusal(unsealed), Some(Rule::Cut));
    // A first block of a kind that there is not, and a wrong checksum of the content, both sealed.
    let mut reserved = unsealed.to_vec();
    reserved[6] |= 0b110;
    assert_eq!(
        refusal(&support::pack::seal(reserved)),
        Some(Rule::ZstdDamaged)
    );
    let mut checksum = unsealed.to_vec();
    *checksum.last_mut().unwrap() ^= 1;
    assert_eq!(
        refusal(&support::pack::seal(checksum)),
        Some(Rule::ZstdDamaged)
    );
    assert_eq!(
        refusal(&[unsealed, &[1; 48]].concat()),
        Some(Rule::SealMismatch)
    );
}
