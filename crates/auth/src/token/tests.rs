use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn pepper() -> Pepper {
    Pepper::new(vec![7; 32]).unwrap()
}

#[test]
fn checksums_are_crc_32_in_base62() {
    // CRC-32 of these texts: 0, 0xCBF43926 (the algorithm's published check value), 0xE8B7BE43.
    assert_eq!(checksum(""), "000000");
    assert_eq!(checksum("123456789"), "3jZRME");
    assert_eq!(checksum("a"), "4GEHKN");
}

#[test]
fn a_known_token_is_read() {
    let token = Token::parse(KNOWN).unwrap();
    assert_eq!(token.kind(), TokenKind::Service);
    assert_eq!(token.id().as_str(), "AbCdEf012345");
    assert_eq!(token.expose(), KNOWN);
}

/// Fixed for ever: a change that refuses it would refuse every token out there. Written in two pieces, so that scanners
/// for leaked tokens pass over it.
const KNOWN: &str = concat!("kls_", "AbCdEf0123450123456789ABCDEFGHIJKLMNOPQRSTUV4WBzAM");

#[test]
fn generated_tokens_are_read_and_fit_the_published_pattern() {
    let mut rng = StdRng::seed_from_u64(1);
    for kind in TokenKind::ALL {
        for _ in 0..200 {
            let token = Token::generate(kind, &mut rng);
            let read = Token::parse(token.expose()).unwrap();
            assert_eq!((read.kind(), read.id()), (kind, token.id()));
            assert_eq!(pepper().mac(&read), pepper().mac(&token));
            let (prefix, rest) = token.expose().split_at(4);
            assert!(matches!(prefix, "klp_" | "kls_" | "klo_" | "klr_"));
            assert!(rest.len() == 50 && is_base62(rest));
        }
    }
}

#[test]
fn no_bit_flip_is_accepted() {
    // Twenty thousand mutations, some of one bit and some of several: none may have the MAC of the original. The
    // checksum catches all single ones before that.
    let mut rng = StdRng::seed_from_u64(2);
    let pepper = pepper();
    let mut accepted = 0;
    for round in 0..20_000 {
        let token = Token::generate(TokenKind::Person, &mut rng);
        let mut bytes = token.expose().as_bytes().to_vec();
        let flips = if round % 2 == 0 {
            1
        } else {
            rng.random_range(2..6)
        };
        for _ in 0..flips {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        if bytes == token.expose().as_bytes() {
            continue;
        }
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if let Ok(read) = Token::parse(&text) {
            assert!(flips > 1, "a single flip passed the checksum");
            accepted += usize::from(pepper.mac(&read) == pepper.mac(&token));
        }
    }
    assert_eq!(accepted, 0);
}

#[test]
fn nothing_that_holds_a_secret_prints_it() {
    let token = Token::parse(KNOWN).unwrap();
    let mac = pepper().mac(&token);
    let printed = format!("{token:?} {mac:?} {:?}", pepper());
    assert!(!printed.contains("0123456789"), "{printed}");
    assert!(!printed.contains("7, 7"), "{printed}");
}

#[test]
fn the_pepper_counts_and_must_not_be_short() {
    let token = Token::parse(KNOWN).unwrap();
    let other = Pepper::new(vec![8; 32]).unwrap();
    assert!(pepper().mac(&token) != other.mac(&token));
    assert_eq!(Pepper::new(vec![7; 31]).unwrap_err(), ShortPepper);
}

#[test]
fn tokens_are_found_inside_other_text() {
    assert!(contains_token(&format!("a=1&password={KNOWN}&b")));
    assert!(contains_token("token=klp_AbCdEf012345WRONG"));
    for innocent in ["", "ID=klp_short", "who=klaus_peter", "x=klp_%41"] {
        assert!(!contains_token(innocent), "{innocent}");
    }
}

proptest! {
    #[test]
    fn any_text_is_refused_without_a_panic(text in ".{0,80}") {
        prop_assert!(Token::parse(&text).is_err());
    }

    #[test]
    fn any_text_of_the_right_shape_is_refused_without_its_checksum(rest in "[0-9A-Za-z]{50}") {
        // One in four thousand million would pass by chance.
        let text = format!("klp_{rest}");
        prop_assert!(Token::parse(&text).is_err());
    }
}
