//! Archives that were cut, flipped or scrambled on their way.

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

/// A stream of numbers that is the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
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
    assert_eq!(
        refusal(&[unsealed, &[1; 48]].concat()),
        Some(Rule::SealMismatch)
    );
}

/// Scrambles entries and signs the result, so that what is behind manifest and signature is
/// reached. Nothing may panic or hang, and what is accepted must be consistent.
#[test]
fn scrambled_and_signed_archives_do_no_harm() {
    let unpacked = Unpacked::of(&sample().export());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..2_000 {
        let mut scrambled = unpacked.clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(scrambled.entries.len() - 1);
            scramble(&mut scrambled.entries[at].1, &mut numbers);
        }
        let archive =
            match serde_json::from_slice::<serde_json::Value>(scrambled.get("manifest.json")) {
                Ok(manifest) if manifest.is_object() => scrambled.pack_signed(),
                _ => scrambled.pack(),
            };
        match refusal(&archive) {
            Some(_) => refused += 1,
            None => accepted += 1,
        }
    }
    assert!(refused > 1_500, "{refused} refused, {accepted} accepted");
}

fn scramble(content: &mut Vec<u8>, numbers: &mut Numbers) {
    if content.is_empty() {
        content.push(b'{');
        return;
    }
    let at = numbers.below(content.len());
    let span = at..content.len().min(at + 1 + numbers.below(40));
    match numbers.below(6) {
        0 => content[at] ^= 1 << numbers.below(8),
        1 => drop(content.drain(span)),
        2 => {
            let piece = content[span].to_vec();
            let to = numbers.below(content.len());
            content.splice(to..to, piece);
        }
        3 => content[at] = b"\"{}[]:,\\0n\n\x00\xff"[numbers.below(13)],
        4 => {
            // A digit or two, so that numbers change and stay numbers.
            if let Some(digit) = content[at..].iter().position(u8::is_ascii_digit) {
                content[at + digit] = b"0123456789"[numbers.below(10)];
            }
        }
        _ => {
            let text = [
                &b"null"[..],
                b"18446744073709551616",
                b"\"\"",
                b"[[[[",
                b"\\ud800",
            ];
            let text = text[numbers.below(5)];
            content.splice(at..at, text.iter().copied());
        }
    }
}
