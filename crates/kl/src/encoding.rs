//! Turning a state file as it lies on somebody's disk into the bytes the server takes.
//!
//! The server stores exactly what it is sent and refuses marks and UTF-16. A Windows shell writes
//! both when the output of `terraform state pull` is redirected to a file, so `kl` converts them on
//! this side and says that it did. Nothing else is touched: plain UTF-8 goes through byte for byte.

use std::borrow::Cow;

use crate::failure::{Failure, Result};

/// The bytes to send, and what was done to get them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Converted<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// One sentence for the user; `None` when the bytes are as they were.
    pub(crate) note: Option<&'static str>,
}

const DROPPED_MARK: &str = "dropped the UTF-8 byte order mark";
const FROM_LITTLE: &str = "converted UTF-16 (little-endian) to UTF-8";
const FROM_BIG: &str = "converted UTF-16 (big-endian) to UTF-8";

/// Detects the encoding and converts to UTF-8 without a mark. Whether the result is JSON, and a
/// state, is not looked at here.
///
/// # Errors
/// Failures that name the encoding that was found, where it cannot be converted.
pub(crate) fn to_utf8(bytes: &[u8]) -> Result<Converted<'_>> {
    match bytes {
        [0x1f, 0x8b, ..] => Err(Failure::failed("the file is gzip, not JSON")
            .hint("run `gunzip -c FILE | kl import snapshot -`")),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(Failure::failed(
            "the file is UTF-32, which no state ever was; convert it to UTF-8",
        )),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes, FROM_LITTLE),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes, FROM_BIG),
        // JSON starts with an ASCII character, so a NUL beside the first brace is UTF-16 unmarked.
        [b'{', 0, ..] => utf16(bytes, u16::from_le_bytes, FROM_LITTLE),
        [0, b'{', ..] => utf16(bytes, u16::from_be_bytes, FROM_BIG),
        [0xef, 0xbb, 0xbf, rest @ ..] => Ok(Converted {
            bytes: Cow::Borrowed(rest),
            note: Some(DROPPED_MARK),
        }),
        _ => Ok(Converted {
            bytes: Cow::Borrowed(bytes),
            note: None,
        }),
    }
}

fn utf16<'a>(
    bytes: &[u8],
    unit: fn([u8; 2]) -> u16,
    converted: &'static str,
) -> Result<Converted<'a>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(Converted {
            bytes: Cow::Owned(text.into_bytes()),
            note: Some(converted),
        }),
        _ => Err(Failure::failed(
            "the file is UTF-16, but damaged: it was cut or mixed with another encoding",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, mark: &[u8], bytes_of: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mut bytes = mark.to_vec();
        bytes.extend(text.encode_utf16().flat_map(bytes_of));
        bytes
    }

    #[test]
    fn plain_bytes_go_through_untouched() {
        let text = "{\"a\":\"\\ud800 \\u0000 é\",\"n\":1e400}".as_bytes();
        let converted = to_utf8(text).unwrap();
        assert_eq!(converted.bytes, text);
        assert_eq!(converted.note, None);
    }

    #[test]
    fn utf16_in_any_order_with_or_without_a_mark_becomes_utf8() {
        let text = "{\"a\":\"é😀\"}\r\n";
        for bytes in [
            wide(text, &[0xff, 0xfe], u16::to_le_bytes),
            wide(text, &[], u16::to_le_bytes),
            wide(text, &[0xfe, 0xff], u16::to_be_bytes),
            wide(text, &[], u16::to_be_bytes),
        ] {
            let converted = to_utf8(&bytes).unwrap();
            assert_eq!(converted.bytes, text.as_bytes());
            assert!(converted.note.is_some_and(|note| note.contains("UTF-16")));
        }
    }

    #[test]
    fn a_mark_is_dropped_and_said_to_be() {
        let converted = to_utf8(b"\xef\xbb\xbf{}").unwrap();
        assert_eq!(converted.bytes, b"{}".as_slice());
        assert_eq!(converted.note, Some(DROPPED_MARK));
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
        let refusal = |bytes: &[u8]| to_utf8(bytes).unwrap_err().causes().next().unwrap();
        assert!(refusal(b"\x1f\x8b\x08").contains("gzip"));
        assert!(refusal(b"\xff\xfe{\0}").contains("damaged"));
        assert!(refusal(b"\xff\xfe\0\0{\0\0\0").contains("UTF-32"));
    }
}
