//! Reading addresses as Terraform does: an HCL traversal, then the shape of an address.

use std::str::FromStr;

use unicode_normalization::UnicodeNormalization as _;

use super::{Address, Key, Mode, ModulePath, ModuleStep};

/// Why a text is no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} (at byte {offset})")]
pub struct AddressError {
    /// Byte offset into the text.
    pub offset: usize,
    pub what: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `[module.<name>[key].]*[data.]<type>.<name>[key]`. Spelling is as free as Terraform's
    /// (white space between tokens, any escape for a rune, `[01]`); `Display` gives the canonical
    /// form. Comments, which Terraform also skips, are refused.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut reader = Reader { text, pos: 0 };
        let (module, mut word) = reader.module_steps()?;
        let mut mode = Mode::Managed;
        if word == Some("data") {
            mode = Mode::Data;
            word = Some(reader.attribute("a resource type must follow")?);
        }
        let Some(kind) = word else {
            return Err(reader.error("a resource type and name must follow the module"));
        };
        let name = reader.attribute("a resource name must follow the type")?;
        let key = reader.key()?;
        reader.end()?;
        Ok(Self {
            module,
            mode,
            kind: kind.to_owned(),
            name: name.to_owned(),
            key,
        })
    }
}

impl FromStr for ModulePath {
    type Err = AddressError;

    /// Reads `module.<name>[key]` steps joined by dots; the empty text is the root module.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader { text, pos: 0 };
        match reader.module_steps()? {
            (steps, None) => Ok(Self(steps)),
            (_, Some(_)) => Err(reader.error("only module steps may stand in a module path")),
        }
    }
}

/// Whether HCL reads `text` as one identifier.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(starts_identifier) && text.chars().all(continues_identifier)
}

fn starts_identifier(rune: char) -> bool {
    if rune.is_ascii() {
        return rune == '_' || rune.is_ascii_alphabetic();
    }
    unicode_ident::is_xid_start(rune) || starts_unnormalised(rune)
}

fn continues_identifier(rune: char) -> bool {
    if rune.is_ascii() {
        return matches!(rune, '_' | '-') || rune.is_ascii_alphanumeric();
    }
    // The joiners joined ID_Continue after the Unicode version HCL carries.
    let joiner = matches!(rune, '\u{200c}' | '\u{200d}');
    (unicode_ident::is_xid_continue(rune) && !joiner) || starts_unnormalised(rune)
}

/// What HCL accepts by `ID_Start` and `XID_Start` leaves out, because normalising would change it
/// (U+0E33, U+0EB3 and the halfwidth sound marks may at least continue an `XID`).
fn starts_unnormalised(rune: char) -> bool {
    matches!(
        rune,
        '\u{37a}' | '\u{e33}' | '\u{eb3}' | '\u{309b}'..='\u{309c}' | '\u{fc5e}'..='\u{fc63}'
            | '\u{fdfa}'..='\u{fdfb}' | '\u{fe70}' | '\u{fe72}' | '\u{fe74}' | '\u{fe76}'
            | '\u{fe78}' | '\u{fe7a}' | '\u{fe7c}' | '\u{fe7e}' | '\u{ff9e}'..='\u{ff9f}'
    )
}

struct Reader<'t> {
    text: &'t str,
    pos: usize,
}

impl<'t> Reader<'t> {
    /// Reads module steps; returns the first identifier that is not `module`, if one follows.
    fn module_steps(&mut self) -> Result<(Vec<ModuleStep>, Option<&'t str>), AddressError> {
        let mut steps = Vec::new();
        let mut word = self.identifier("an address must begin with a name")?;
        while word == "module" {
            let name = self.attribute("a module name must follow")?.to_owned();
            let key = self.key()?;
            steps.push(ModuleStep { name, key });
            if self.at_end() {
                return Ok((steps, None));
            }
            word = self.attribute("a dot and a name must follow the module")?;
        }
        Ok((steps, Some(word)))
    }

    fn attribute(&mut self, missing: &'static str) -> Result<&'t str, AddressError> {
        self.expect('.', missing)?;
        self.identifier("a name must follow the dot")
    }

    fn identifier(&mut self, missing: &'static str) -> Result<&'t str, AddressError> {
        self.skip_blanks();
        let rest = self.rest();
        if !rest.chars().next().is_some_and(starts_identifier) {
            return Err(self.error(missing));
        }
        let end = rest
            .find(|rune| !continues_identifier(rune))
            .unwrap_or(rest.len());
        self.pos += end;
        Ok(&rest[..end])
    }

    fn key(&mut self) -> Result<Option<Key>, AddressError> {
        self.skip_blanks();
        if !self.rest().starts_with('[') {
            return Ok(None);
        }
        self.pos += 1;
        self.skip_blanks();
        let key = match self.rest().as_bytes().first() {
            Some(b'"') => Key::Str(self.quoted()?),
            Some(b'0'..=b'9') => Key::Int(self.whole_number()?),
            _ => return Err(self.error("a key must be a number or a quoted string")),
        };
        self.expect(']', "the key must end with a bracket")?;
        Ok(Some(key))
    }

    /// An HCL number literal (`7`, `07`, `1.0`, `1e1`), as long as its value is whole.
    fn whole_number(&mut self) -> Result<i64, AddressError> {
        let start = self.pos;
        let whole = self.digits();
        let mut fraction = "";
        let mut exponent = 0_i64;
        if self.rest().starts_with('.') {
            self.pos += 1;
            fraction = self.digits();
            if fraction.is_empty() {
                return Err(self.error("a digit must follow the point"));
            }
        }
        if self.rest().starts_with(['e', 'E']) {
            self.pos += 1;
            let negative = self.rest().starts_with('-');
            if self.rest().starts_with(['+', '-']) {
                self.pos += 1;
            }
            let digits = self.digits();
            if digits.is_empty() {
                return Err(self.error("a digit must follow the exponent sign"));
            }
            // More than nine digits leave the range of a key in any case, unless all is zero.
            let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(999_999_999);
            exponent = if negative { -size } else { size };
        }
        let out_of_range = AddressError {
            offset: start,
            what: "the key is no whole number in range",
        };
        shifted_whole(whole, fraction, exponent).ok_or(out_of_range)
    }

    fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest
            .find(|rune: char| !rune.is_ascii_digit())
            .unwrap_or(rest.len());
        self.pos += end;
        &rest[..end]
    }

    /// A quoted HCL string without interpolation. HCL normalises literals to NFC.
    fn quoted(&mut self) -> Result<String, AddressError> {
        self.pos += 1;
        let mut value = String::new();
        loop {
            let rest = self.rest();
            let Some(rune) = rest.chars().next() else {
                return Err(self.error("the quoted key has no end"));
            };
            match rune {
                '"' => {
                    self.pos += 1;
                    return Ok(value.nfc().collect());
                }
                '\n' | '\r' => return Err(self.error("a quoted key must stand on one line")),
                '\\' => {
                    let rune = self.escape()?;
                    value.push(rune);
                    continue;
                }
                '$' | '%' => {
                    let mut after = rest[1..].chars();
                    let next = after.next();
                    if next == Some('{') {
                        return Err(self.error("a key must not hold a template sequence"));
                    }
                    if next == Some(rune) && after.next() == Some('{') {
                        value.push(rune);
                        value.push('{');
                        self.pos += 3;
                        continue;
                    }
                    value.push(rune);
                }
                _ => value.push(rune),
            }
            self.pos += rune.len_utf8();
        }
    }

    fn escape(&mut self) -> Result<char, AddressError> {
        let rest = self.rest();
        let (rune, len) = match rest.as_bytes().get(1) {
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'"') => ('"', 2),
            Some(b'\\') => ('\\', 2),
            Some(&letter @ (b'u' | b'U')) => {
                let len = if letter == b'u' { 6 } else { 10 };
                let digits = rest
                    .get(2..len)
                    .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = digits.and_then(|text| u32::from_str_radix(text, 16).ok());
                let Some(code) = code else {
                    return Err(self.error("the escape needs hexadecimal digits"));
                };
                let Some(rune) = char::from_u32(code) else {
                    return Err(self.error("the escape names no Unicode character"));
                };
                (rune, len)
            }
            _ => return Err(self.error("unknown escape in a quoted key")),
        };
        self.pos += len;
        Ok(rune)
    }

    fn expect(&mut self, rune: char, missing: &'static str) -> Result<(), AddressError> {
        self.skip_blanks();
        if !self.rest().starts_with(rune) {
            return Err(self.error(missing));
        }
        self.pos += rune.len_utf8();
        Ok(())
    }

    fn end(&mut self) -> Result<(), AddressError> {
        if self.at_end() {
            Ok(())
        } else {
            Err(self.error("nothing may follow the address"))
        }
    }

    fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest().is_empty()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn rest(&self) -> &'t str {
        &self.text[self.pos..]
    }

    fn error(&self, what: &'static str) -> AddressError {
        AddressError {
            offset: self.pos,
            what,
        }
    }
}

/// `whole.fraction × 10^exponent` when that is a whole number that fits.
fn shifted_whole(whole: &str, fraction: &str, exponent: i64) -> Option<i64> {
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let zeros_after = digits.len() - digits.trim_end_matches('0').len();
    let digits = digits.trim_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let shift = exponent - i64::try_from(fraction.len()).ok()? + i64::try_from(zeros_after).ok()?;
    if !(0..=18).contains(&shift) {
        return None;
    }
    let scale = 10_i64.checked_pow(u32::try_from(shift).ok()?)?;
    digits.parse::<i64>().ok()?.checked_mul(scale)
}
