//! The compressed layer: one zstd frame with a fixed header, and a seal behind it.
//!
//! Different compressed bytes can decode to the same stream, so checks of the content alone would
//! let a damaged byte pass. The seal is a zstd skippable frame, which every decoder steps over; it
//! holds the SHA-256 of all bytes before it. It proves that a file arrived whole, not who wrote it:
//! that is what the signature is for.

use std::io::{self, BufRead, BufReader, Read, Write};

use sha2::{Digest as _, Sha256};
use tfstate::Digest;

use crate::format::MAX_WINDOW_LOG;
use crate::refusal::{Fault, Rule};

/// Bytes of a frame's header as the format prescribes it: magic, descriptor, window.
pub(crate) const HEADER: usize = 6;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Content checksum, no content size, no dictionary, not a single segment.
const DESCRIPTOR: u8 = 0x04;

/// The seal up to the digest: magic of a skippable frame, length of what follows, a name.
const SEAL: [u8; 16] = [
    0x5b, 0x2a, 0x4d, 0x18, 40, 0, 0, 0, b'k', b'l', b's', b'e', b'a', b'l', b'1', b'\n',
];

/// Bytes of a seal.
pub(crate) const SEAL_LEN: usize = SEAL.len() + 32;

/// The seal of a file whose other bytes have this SHA-256.
pub(crate) fn seal(digest: Digest) -> [u8; SEAL_LEN] {
    let mut seal = [0; SEAL_LEN];
    seal[..SEAL.len()].copy_from_slice(&SEAL);
    seal[SEAL.len()..].copy_from_slice(digest.as_bytes());
    seal
}

/// Checks a frame's header, and that its window is one the format allows.
pub(crate) fn check_header(header: [u8; HEADER]) -> Result<(), Fault> {
    if header[..4] != MAGIC {
        return Err(Fault::new(
            Rule::NotZstd,
            "the file is not compressed with zstd",
        ));
    }
    if header[4] != DESCRIPTOR {
        let detail =
            "the zstd frame must have a content checksum, and neither content size nor dictionary";
        return Err(Fault::new(Rule::ZstdHeader, detail));
    }
    // Exponent in the upper five bits, eighths to add in the lower three.
    let window_log = u32::from(header[5] >> 3) + 10;
    if window_log > MAX_WINDOW_LOG || window_log == MAX_WINDOW_LOG && header[5] & 7 != 0 {
        let detail = format!("the zstd window is larger than 2^{MAX_WINDOW_LOG} bytes");
        return Err(Fault::new(Rule::WindowTooLarge, detail));
    }
    Ok(())
}

/// Bytes of the window that a header asks for, see [`check_header`].
pub(crate) fn window_bytes(header: [u8; HEADER]) -> u64 {
    let base = 1_u64 << (u32::from(header[5] >> 3) + 10);
    base + base / 8 * u64::from(header[5] & 7)
}

/// The file, hashed as it is consumed.
pub(crate) struct Source<R> {
    inner: BufReader<R>,
    hash: Sha256,
}

/// Marks an error as coming from beneath the decoder.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SourceError(pub(crate) io::Error);

fn mark(error: io::Error) -> io::Error {
    // An interrupted read is repeated by whoever reads; its kind must stay visible.
    io::Error::new(error.kind(), SourceError(error))
}

impl<R: Read> Source<R> {
    pub(crate) fn new(file: R) -> Self {
        Self {
            inner: BufReader::with_capacity(128 << 10, file),
            hash: Sha256::new(),
        }
    }

    /// Reads the seal and the end of the file; returns the digest of everything before the seal.
    pub(crate) fn check_seal(mut self) -> io::Result<Result<Digest, Fault>> {
        let digest = Digest(self.hash.finalize().into());
        let mut found = Vec::with_capacity(SEAL_LEN + 1);
        self.inner
            .by_ref()
            .take(SEAL_LEN as u64 + 1)
            .read_to_end(&mut found)
            .map_err(mark)?;
        let expected = seal(digest);
        Ok(if found == expected {
            Ok(digest)
        } else if found.len() > SEAL_LEN && found[..SEAL_LEN] == expected {
            Err(Fault::new(Rule::TrailingData, "something follows the seal"))
        } else if found.len() < SEAL_LEN && found[..] == expected[..found.len()] {
            Err(Fault::new(Rule::Cut, "the file ends before its seal does"))
        } else {
            let detail = "the seal does not match the file: it was damaged or changed";
            Err(Fault::new(Rule::SealMismatch, detail))
        })
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf().map_err(mark)
    }

    fn consume(&mut self, amount: usize) {
        self.hash.update(&self.inner.buffer()[..amount]);
        self.inner.consume(amount);
    }
}

/// Where compressed bytes go, hashed on the way.
pub(crate) struct Sealing<W> {
    inner: W,
    hash: Sha256,
    written: u64,
}

impl<W: Write> Sealing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            written: 0,
        }
    }

    pub(crate) fn inner_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Writes the seal; returns the sink and the size of the whole file.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        let seal = seal(Digest(self.hash.finalize().into()));
        self.inner.write_all(&seal)?;
        self.inner.flush()?;
        Ok((self.inner, self.written + SEAL_LEN as u64))
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
