//! Another serial in a document that must otherwise keep its bytes.

use std::ops::Range;

use crate::json::{ScanError, Scanner, decode_string, folds_to};

/// The document with the value of its top-level `serial` replaced, wherever it stands and however often;
/// every other byte stays. A document without one gets it as its first member. `None` for bytes that are no JSON object.
pub fn with_serial(document: &[u8], serial: u64) -> Option<Vec<u8>> {
    let spans = serial_spans(document).ok()?;
    let digits = serial.to_string();
    if spans.is_empty() {
        let open = document.iter().position(|byte| *byte == b'{')? + 1;
        let rest = &document[open..];
        let comma = if rest.trim_ascii_start().starts_with(b"}") {
            ""
        } else {
            ","
        };
        let member = format!("\"serial\":{digits}{comma}");
        return Some([&document[..open], member.as_bytes(), rest].concat());
    }
    let mut replaced = Vec::with_capacity(document.len() + digits.len());
    let mut from = 0;
    for span in spans {
        replaced.extend_from_slice(&document[from..span.start]);
        replaced.extend_from_slice(digits.as_bytes());
        from = span.end;
    }
    replaced.extend_from_slice(&document[from..]);
    Some(replaced)
}

fn serial_spans(document: &[u8]) -> Result<Vec<Range<usize>>, ScanError> {
    let mut scanner = Scanner::new(document);
    let mut spans = Vec::new();
    let mut more = scanner.open(b'{')?;
    while more {
        let name = scanner.name()?;
        let value = scanner.value()?;
        if decode_string(name).is_some_and(|name| folds_to(&name, "serial")) {
            spans.push(scanner.pos() - value.len()..scanner.pos());
        }
        more = scanner.another(b'{')?;
    }
    scanner.end()?;
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_digits_change() {
        let odd = b"{\t\"serial\" : 5 ,\"a\":{\"serial\":5},\r\n\"Serial\":7}";
        let expected = b"{\t\"serial\" : 123 ,\"a\":{\"serial\":5},\r\n\"Serial\":123}";
        assert_eq!(with_serial(odd, 123).as_deref(), Some(&expected[..]));
        assert_eq!(
            with_serial(b" {\"version\":4}", 1).as_deref(),
            Some(&b" {\"serial\":1,\"version\":4}"[..])
        );
        assert_eq!(
            with_serial(b"{ }", 1).as_deref(),
            Some(&b"{\"serial\":1 }"[..])
        );
        assert_eq!(with_serial(b"{\"serial\":1", 1), None);
    }
}
