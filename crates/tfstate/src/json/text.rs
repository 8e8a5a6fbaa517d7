//! Strings as Go's `encoding/json` reads them, and its matching of field names.

use std::borrow::Cow;

/// The bytes between the quotes of a JSON string token, or `None` when it is no string.
fn string_content(token: &[u8]) -> Option<&[u8]> {
    token.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The value of a JSON string token, quotes included. Like Go, each surrogate escape without its
/// partner becomes U+FFFD. `None` when the token is no valid JSON string.
pub fn decode_string(token: &[u8]) -> Option<Cow<'_, str>> {
    let content = string_content(token)?;
    let text = std::str::from_utf8(content).ok()?;
    let Some(first) = memchr::memchr(b'\\', content) else {
        return Some(Cow::Borrowed(text));
    };
    let mut value = String::with_capacity(text.len());
    value.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(escape) = rest.strip_prefix('\\') {
        let (rune, after) = decode_escape(escape)?;
        value.push(rune);
        let plain = memchr::memchr(b'\\', after.as_bytes()).unwrap_or(after.len());
        value.push_str(&after[..plain]);
        rest = &after[plain..];
    }
    Some(Cow::Owned(value))
}

/// Reads one escape, its backslash already gone; returns the rune and what follows.
fn decode_escape(escape: &str) -> Option<(char, &str)> {
    let rune = match escape.as_bytes().first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = hex4(escape)?;
            let after = &escape[5..];
            if (0xd800..0xdc00).contains(&unit)
                && let Some(low) = after.strip_prefix('\\').filter(|low| low.starts_with('u'))
                && let Some(second @ 0xdc00..0xe000) = hex4(low)
            {
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                return Some((char::from_u32(code)?, &low[5..]));
            }
            return Some((
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
                after,
            ));
        }
        _ => return None,
    };
    Some((rune, &escape[1..]))
}

fn hex4(escape: &str) -> Option<u32> {
    let digits = escape
        .get(1..5)
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// Writes `value` as a JSON string the way Terraform does: `<`, `>`, `&`, U+2028 and U+2029
/// escaped, other non-ASCII literal (facts B2).
pub fn encode_string(value: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut token = Vec::with_capacity(value.len() + 2);
    token.push(b'"');
    for rune in value.chars() {
        match rune {
            '"' => token.extend_from_slice(b"\\\""),
            '\\' => token.extend_from_slice(b"\\\\"),
            '\n' => token.extend_from_slice(b"\\n"),
            '\r' => token.extend_from_slice(b"\\r"),
            '\t' => token.extend_from_slice(b"\\t"),
            '\u{8}' => token.extend_from_slice(b"\\b"),
            '\u{c}' => token.extend_from_slice(b"\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a Vec cannot fail.
                _ = write!(token, "\\u{:04x}", u32::from(rune));
            }
            _ => token.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    token.push(b'"');
    token
}

/// Whether Go would match the decoded member name `name` to the lower-case ASCII field `field`:
/// equal under simple case folding, where two runes beyond ASCII fold to letters (ſ and K).
pub(crate) fn folds_to(name: &str, field: &str) -> bool {
    let folded = name.chars().map(|rune| match rune {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => rune.to_ascii_lowercase(),
    });
    folded.eq(field.chars())
}
