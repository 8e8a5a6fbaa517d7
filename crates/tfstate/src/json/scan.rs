//! A validating scanner over JSON text, as strict as Go's `encoding/json` and without recursion.
//!
//! It reads eight bytes at a time where that pays: inside strings and over indentation, which
//! together are nearly all of a state document.

/// Deepest nesting Go's decoder, and with it Terraform, accepts.
pub const MAX_DEPTH: usize = 10_000;

/// What is wrong, and at which byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanError {
    Syntax { offset: usize, what: &'static str },
    Utf8 { offset: usize },
}

pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    pos: usize,
    depth: usize,
    /// One bit per open container: set for an object.
    objects: Vec<u64>,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const SPACES: u64 = ONES * b' ' as u64;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            pos: 0,
            depth: 0,
            objects: Vec::with_capacity(4),
        }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next byte after white space, not consumed.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_white_space();
        self.bytes.get(self.pos).copied()
    }

    pub(crate) fn error<T>(&self, what: &'static str) -> Result<T, ScanError> {
        let what = if self.pos >= self.bytes.len() {
            "unexpected end"
        } else {
            what
        };
        Err(ScanError::Syntax {
            offset: self.pos,
            what,
        })
    }

    /// Enters an object or array whose opening byte is next. Returns whether it has an element.
    #[inline(always)]
    pub(crate) fn open(&mut self, opening: u8) -> Result<bool, ScanError> {
        if self.peek() != Some(opening) {
            return self.error("expected an object or an array");
        }
        self.push(opening == b'{')?;
        self.pos += 1;
        let closing = opening + 2;
        if self.peek() == Some(closing) {
            self.pos += 1;
            self.depth -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// After an element of the container entered by [`Scanner::open`]: whether another follows.
    #[inline(always)]
    pub(crate) fn another(&mut self, opening: u8) -> Result<bool, ScanError> {
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == opening + 2 => {
                self.pos += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ => self.error("expected a comma or the end of the object or array"),
        }
    }

    /// A member name and its colon; returns the name as raw JSON string, quotes included.
    #[inline(always)]
    pub(crate) fn name(&mut self) -> Result<&'a [u8], ScanError> {
        if self.peek() != Some(b'"') {
            return self.error("expected a member name");
        }
        let start = self.pos;
        self.string()?;
        let token = &self.bytes[start..self.pos];
        if self.peek() != Some(b':') {
            return self.error("expected a colon");
        }
        self.pos += 1;
        self.skip_white_space();
        Ok(token)
    }

    /// Validates the value that comes next and returns its bytes.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a [u8], ScanError> {
        self.skip_white_space();
        let start = self.pos;
        self.skip_value()?;
        Ok(&self.bytes[start..self.pos])
    }

    /// Nothing but white space may be left.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        if self.peek().is_some() {
            return self.error("unexpected text after the end of the document");
        }
        Ok(())
    }

    fn skip_value(&mut self) -> Result<(), ScanError> {
        let base = self.depth;
        'value: loop {
            match self.bytes.get(self.pos) {
                Some(b'"') => self.string()?,
                Some(b'{') => {
                    if self.open(b'{')? {
                        self.name()?;
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    if self.open(b'[')? {
                        continue 'value;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return self.error("expected a value"),
            }
            while self.depth > base {
                let in_object = self.in_object();
                if self.another(if in_object { b'{' } else { b'[' })? {
                    if in_object {
                        self.name()?;
                    } else {
                        self.skip_white_space();
                    }
                    continue 'value;
                }
            }
            return Ok(());
        }
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        let level = self.depth - 1;
        self.objects[level / 64] >> (level % 64) & 1 == 1
    }

    #[inline(always)]
    fn push(&mut self, object: bool) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return self.error("nesting deeper than 10000");
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.objects.len() {
            self.objects.push(0);
        }
        let bits = &mut self.objects[word];
        *bits = *bits & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        Ok(())
    }

    #[inline(always)]
    fn skip_white_space(&mut self) {
        match self.bytes.get(self.pos) {
            Some(&byte) if byte <= b' ' => self.skip_white_space_slowly(),
            _ => {}
        }
    }

    #[inline(always)]
    fn skip_white_space_slowly(&mut self) {
        // One blank after a colon, or a line break and indentation: look at eight bytes at once.
        if matches!(self.bytes[self.pos], b' ' | b'\n') {
            self.pos += 1;
            while let Some(chunk) = self.bytes[self.pos..].first_chunk::<8>() {
                let differs = u64::from_le_bytes(*chunk) ^ SPACES;
                if differs != 0 {
                    self.pos += (differs.trailing_zeros() / 8) as usize;
                    break;
                }
                self.pos += 8;
            }
        }
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.pos) {
            self.pos += 1;
        }
    }

    /// A string whose opening quote is next.
    #[inline(always)]
    fn string(&mut self) -> Result<(), ScanError> {
        let start = self.pos;
        let mut pos = start + 1;
        let mut seen = 0_u64;
        loop {
            while let Some(chunk) = self.bytes[pos..].first_chunk::<8>() {
                let word = u64::from_le_bytes(*chunk);
                seen |= word;
                // The lowest marked byte is exact: a borrow can only spoil the bytes above a match.
                let quote = (word ^ QUOTES).wrapping_sub(ONES) & !(word ^ QUOTES);
                let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES) & !(word ^ BACKSLASHES);
                let control = word.wrapping_sub(SPACES) & !word;
                let marks = (quote | backslash | control) & HIGHS;
                if marks != 0 {
                    pos += (marks.trailing_zeros() / 8) as usize;
                    break;
                }
                pos += 8;
            }
            match self.bytes.get(pos) {
                Some(b'"') => {
                    self.pos = pos + 1;
                    if seen & HIGHS != 0 {
                        return self.check_utf8(start);
                    }
                    return Ok(());
                }
                Some(b'\\') => {
                    self.pos = pos;
                    pos = self.escape()?;
                }
                Some(&byte) if byte >= b' ' => {
                    seen |= u64::from(byte);
                    pos += 1;
                }
                _ => {
                    self.pos = pos;
                    return self.error("control character in a string");
                }
            }
        }
    }

    /// Returns the position after the escape at the current one.
    #[inline(always)]
    fn escape(&mut self) -> Result<usize, ScanError> {
        match self.bytes.get(self.pos + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(self.pos + 2),
            Some(b'u') => match self.bytes.get(self.pos + 2..self.pos + 6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(self.pos + 6),
                _ => self.error("invalid \\u escape in a string"),
            },
            _ => self.error("invalid escape in a string"),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_utf8(&self, start: usize) -> Result<(), ScanError> {
        match std::str::from_utf8(&self.bytes[start..self.pos]) {
            Ok(_) => Ok(()),
            Err(error) => Err(ScanError::Utf8 {
                offset: start + error.valid_up_to(),
            }),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.bytes[self.pos] == b'-' {
            self.pos += 1;
        }
        match self.bytes.get(self.pos) {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return self.error("invalid number"),
        }
        if self.bytes.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.pos), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.bytes.get(self.pos), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        if !self.bytes.get(self.pos).is_some_and(u8::is_ascii_digit) {
            return self.error("invalid number");
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.bytes.get(self.pos).is_some_and(u8::is_ascii_digit) {
            self.pos += 1;
        }
    }

    #[inline(always)]
    fn word(&mut self, word: &'static [u8]) -> Result<(), ScanError> {
        if !self.bytes[self.pos..].starts_with(word) {
            return self.error("expected a value");
        }
        self.pos += word.len();
        Ok(())
    }
}
