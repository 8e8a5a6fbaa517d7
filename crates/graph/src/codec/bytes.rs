//! Numbers and front-coded texts in bytes.

use std::cmp::Ordering;

use super::DecodeError;

pub(super) fn put_int(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes what `text` does not share with the beginning of `before`.
pub(super) fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    let same = |(a, b): &(u8, u8)| a == b;
    let shared = before.bytes().zip(text.bytes()).take_while(same).count();
    put_int(out, shared as u64);
    put_bytes(out, &text.as_bytes()[shared..]);
}

/// Bytes being read.
pub(super) struct Input<'b> {
    pub(super) rest: &'b [u8],
}

impl<'b> Input<'b> {
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (byte, rest) = self.rest.split_first().ok_or(DecodeError::Malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number in its shortest form.
    pub(super) fn int(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(DecodeError::Malformed);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let is_shortest = byte != 0 || shift == 0;
                return if is_shortest {
                    Ok(number)
                } else {
                    Err(DecodeError::Malformed)
                };
            }
        }
        Err(DecodeError::Malformed)
    }

    /// A number of things of which each takes at least one byte of what is left.
    pub(super) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.int()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(DecodeError::Malformed),
        }
    }

    pub(super) fn str(&mut self) -> Result<&'b str, DecodeError> {
        let len = self.count()?;
        std::str::from_utf8(self.take(len)?).map_err(|_| DecodeError::Malformed)
    }

    /// Replaces `text` by the text that is front-coded against it, and answers how that compares with the one before. The
    /// shared part must be as long as it can be, and the result at most `max_len` bytes long.
    pub(super) fn text(
        &mut self,
        text: &mut Vec<u8>,
        max_len: usize,
    ) -> Result<Ordering, DecodeError> {
        let shared = self.int()?;
        let shared = usize::try_from(shared).map_err(|_| DecodeError::Malformed)?;
        let len = self.count()?;
        let suffix = self.take(len)?;
        let (before, after) = (text.get(shared), suffix.first());
        let more_is_shared = before.is_some() && before == after;
        if shared > text.len() || more_is_shared {
            return Err(DecodeError::Malformed);
        }
        // An end comes before any byte.
        let order = after.cmp(&before);
        if shared.saturating_add(len) > max_len {
            return Err(DecodeError::TooLarge);
        }
        text.truncate(shared);
        text.extend_from_slice(suffix);
        Ok(order)
    }
}
