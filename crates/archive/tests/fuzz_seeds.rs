//! The fuzz targets' checks over mutated seeds, a bounded number of times, so that every build
//! runs them without a nightly compiler.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

#[path = "../../../fuzz/src/archives.rs"]
#[expect(
    unreachable_pub,
    reason = "the functions are the fuzz crate's public ones"
)]
mod archives;

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// One edit: of bits, of bytes, of a stretch, of a number, of a token.
fn edit(content: &mut Vec<u8>, numbers: &mut Numbers) {
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
            if let Some(digit) = content[at..].iter().position(u8::is_ascii_digit) {
                content[at + digit] = b"0123456789"[numbers.below(10)];
            }
        }
        _ => {
            let texts = [
                &b"null"[..],
                b"18446744073709551616",
                b"\"\"",
                b"[[[[",
                b"\\ud800",
            ];
            let text = texts[numbers.below(texts.len())];
            content.splice(at..at, text.iter().copied());
        }
    }
}

fn mutated(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(3) {
        edit(&mut bytes, numbers);
    }
    bytes
}

#[test]
fn mutated_files_do_no_harm() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let seed = archives::SEED.pack();
    archives::file(&seed);
    for _ in 0..1_000 {
        archives::file(&mutated(&seed, &mut numbers));
    }
}

#[test]
fn mutated_streams_do_no_harm() {
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    let seed = archives::SEED.tar();
    for _ in 0..1_000 {
        archives::stream(&mutated(&seed, &mut numbers));
    }
}

#[test]
fn mutated_and_signed_entries_do_no_harm() {
    let mut numbers = Numbers(0xfeed_f00d_dead_beef);
    for round in 0..3_000 {
        let which = round % archives::SEED.entries.len();
        let mut data = mutated(&archives::SEED.entries[which].1, &mut numbers);
        data.insert(0, u8::try_from(which).unwrap());
        archives::entry(&data);
    }
}
