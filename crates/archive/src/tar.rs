//! The one tar dialect of the format: ustar headers in which nothing but name, size and checksum
//! differs from one entry to the next.
//!
//! A header is accepted when it is byte for byte the one this module would write for the same
//! name and size. Only when it is not, its fields are looked at, to say what is wrong with it.

use crate::refusal::{Fault, Rule};

pub(crate) const BLOCK: usize = 512;

/// What ends a tar stream: two empty blocks.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Longest name without the prefix field, which the format does not use.
const MAX_NAME: usize = 100;

/// Largest size eleven octal digits can hold.
const MAX_SIZE: u64 = 0o777_7777_7777;

const NAME: std::ops::Range<usize> = 0..MAX_NAME;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: std::ops::Range<usize> = 257..265;
const PREFIX: std::ops::Range<usize> = 345..500;

/// The header of an entry: mode 0644, owner 0, no times, so that equal contents give equal bytes.
/// `None` when name or size do not fit.
pub(crate) fn header(name: &str, size: u64) -> Option<[u8; BLOCK]> {
    if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') || size > MAX_SIZE {
        return None;
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(NAME.start, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(SIZE.start, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(CHECKSUM.start, b"        ");
    put(TYPE, b"0");
    put(MAGIC.start, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    let sum = sum(&header);
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(header)
}

/// Bytes of padding after an entry of this size.
pub(crate) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    if over == 0 { 0 } else { BLOCK - over }
}

/// Name and size of an entry.
pub(crate) fn read_header(block: &[u8; BLOCK]) -> Result<(String, u64), Fault> {
    check_sum(block)?;
    check_type(block[TYPE])?;
    if &block[MAGIC] != b"ustar\x0000" {
        return Err(Fault::new(Rule::TarDialect, "the header is not ustar"));
    }
    let name = read_name(block)?;
    let size = read_size(&block[SIZE]).ok_or_else(|| {
        Fault::new(
            Rule::TarSize,
            format!("the size of {name:?} is not plain octal"),
        )
    })?;
    if header(&name, size).as_ref() != Some(block) {
        let detail = format!("the header of {name:?} is not spelled as this format prescribes");
        return Err(Fault::new(Rule::TarDialect, detail));
    }
    Ok((name, size))
}

fn check_sum(block: &[u8; BLOCK]) -> Result<(), Fault> {
    let mut blank = *block;
    blank[CHECKSUM].fill(b' ');
    let expected = format!("{:06o}", sum(&blank));
    // Writers end the field in different ways; the digits are the same.
    let digits = &block[CHECKSUM.start..CHECKSUM.start + 6];
    if digits == expected.as_bytes() {
        Ok(())
    } else {
        Err(Fault::new(
            Rule::TarChecksum,
            "the checksum of an entry's header is wrong",
        ))
    }
}

fn sum(header: &[u8; BLOCK]) -> u32 {
    header.iter().copied().map(u32::from).sum()
}

fn check_type(kind: u8) -> Result<(), Fault> {
    let (rule, what) = match kind {
        b'0' => return Ok(()),
        b'1' => (Rule::EntryLink, "a hard link"),
        b'2' => (Rule::EntryLink, "a symbolic link"),
        b'3' => (Rule::EntryDevice, "a character device"),
        b'4' => (Rule::EntryDevice, "a block device"),
        b'5' => (Rule::EntryDirectory, "a directory"),
        b'6' => (Rule::EntryDevice, "a pipe"),
        b'x' | b'g' | b'X' => (Rule::EntryPax, "a pax header"),
        b'L' | b'K' | b'N' => (Rule::EntryLongName, "a header for a long name"),
        b'S' => (Rule::EntrySparse, "a sparse file"),
        b'M' | b'V' | b'D' => (
            Rule::EntrySparse,
            "part of a GNU multi-volume or dump archive",
        ),
        _ => (Rule::EntryType, "of a type that is no plain file"),
    };
    Err(Fault::new(
        rule,
        format!("an entry is {what}; this format has plain files only"),
    ))
}

fn read_name(block: &[u8; BLOCK]) -> Result<String, Fault> {
    let escapes = |what: &str| Err(Fault::new(Rule::NameEscapes, what));
    let field = &block[NAME];
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    if field[end..].iter().any(|byte| *byte != 0) {
        return escapes("a name holds NUL");
    }
    if block[PREFIX].iter().any(|byte| *byte != 0) {
        return Err(Fault::new(
            Rule::TarDialect,
            "an entry's name is split into prefix and name",
        ));
    }
    let Ok(name) = std::str::from_utf8(&field[..end]) else {
        return Err(Fault::new(
            Rule::NameUnknown,
            "an entry's name is not UTF-8",
        ));
    };
    if name.starts_with('/') || name.starts_with('\\') || name.contains(':') {
        return escapes(&format!("{name:?} is an absolute name"));
    }
    if name.split(['/', '\\']).any(|part| part == "..") {
        return escapes(&format!("{name:?} climbs out of the archive"));
    }
    Ok(name.to_owned())
}

fn read_size(field: &[u8]) -> Option<u64> {
    let digits = field.strip_suffix(b"\0")?;
    let octal = digits.iter().all(|byte| (b'0'..=b'7').contains(byte));
    let text = octal.then(|| std::str::from_utf8(digits).ok()).flatten()?;
    u64::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_any_flipped_bit_does_not() {
        let header = header("versions/12.tfstate.json", 123_456).unwrap();
        assert_eq!(
            read_header(&header).unwrap(),
            ("versions/12.tfstate.json".to_owned(), 123_456)
        );
        for at in 0..BLOCK * 8 {
            let mut flipped = header;
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(read_header(&flipped).is_err(), "bit {at}");
        }
    }

    #[test]
    fn what_does_not_fit_has_no_header() {
        assert_eq!(header("", 0), None);
        assert_eq!(header(&"x".repeat(101), 0), None);
        assert_eq!(header("x", 1 << 33), None);
        assert_eq!(header("a\0b", 0), None);
    }

    #[test]
    fn padding_fills_the_last_block() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
    }
}
