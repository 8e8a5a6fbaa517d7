//! Entries on their way out: tar headers and padding, digests for the manifest, compression, seal.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tfstate::Digest;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

use super::error::WriteError;
use crate::format::{EntryName, WINDOW_LOG};
use crate::records::ManifestEntry;
use crate::seal::Sealing;
use crate::tar;

/// Compression level. Higher ones cost time and gain nothing beside the long window.
const LEVEL: i32 = 3;

/// Where entries go.
pub(crate) struct Output<W: Write> {
    encoder: Encoder<'static, Sealing<W>>,
    /// Bytes of the tar stream written, and how many there may be.
    written: u64,
    max_bytes: u64,
    pub(crate) entries: Vec<ManifestEntry>,
    open: Option<Open>,
}

/// The entry that is being written.
struct Open {
    name: String,
    size: u64,
    left: u64,
    hash: Sha256,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(sink: W, max_bytes: u64) -> io::Result<Self> {
        let mut encoder = Encoder::new(Sealing::new(sink), LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        encoder.long_distance_matching(true)?;
        encoder.include_checksum(true)?;
        encoder.include_contentsize(false)?;
        Ok(Self {
            encoder,
            written: 0,
            max_bytes,
            entries: Vec::new(),
            open: None,
        })
    }

    pub(crate) fn sink_mut(&mut self) -> &mut W {
        self.encoder.get_mut().inner_mut()
    }

    /// Begins an entry of exactly this size.
    pub(crate) fn begin(&mut self, name: &EntryName, size: u64) -> Result<(), WriteError> {
        if self.open.is_some() {
            return Err(WriteError::Misuse(
                "an entry is begun before the last one is complete",
            ));
        }
        let name = name.to_string();
        let header =
            tar::header(&name, size).ok_or(WriteError::OverLimit("the entry is too large"))?;
        self.put(&header)?;
        self.open = Some(Open {
            name,
            size,
            left: size,
            hash: Sha256::new(),
        });
        Ok(())
    }

    /// Writes some of the entry's bytes.
    pub(crate) fn content(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let Some(open) = &mut self.open else {
            return Err(WriteError::Misuse("no entry is open"));
        };
        let Some(left) = open.left.checked_sub(bytes.len() as u64) else {
            return Err(WriteError::Misuse("an entry is longer than was said"));
        };
        open.left = left;
        open.hash.update(bytes);
        self.put(bytes)
    }

    /// Completes the entry; returns its digest.
    pub(crate) fn end(&mut self) -> Result<Digest, WriteError> {
        let Some(Open {
            name,
            size,
            left,
            hash,
        }) = self.open.take()
        else {
            return Err(WriteError::Misuse("no entry is open"));
        };
        if left > 0 {
            return Err(WriteError::Misuse("an entry is shorter than was said"));
        }
        self.put(&[0; tar::BLOCK][..tar::padding(size)])?;
        let sha256 = Digest(hash.finalize().into());
        self.entries.push(ManifestEntry {
            name,
            bytes: size,
            sha256,
        });
        Ok(sha256)
    }

    /// Writes an entry whole.
    pub(crate) fn entry(&mut self, name: &EntryName, bytes: &[u8]) -> Result<Digest, WriteError> {
        self.begin(name, bytes.len() as u64)?;
        self.content(bytes)?;
        self.end()
    }

    /// Writes an entry of one line of JSON; returns its bytes.
    pub(crate) fn json(
        &mut self,
        name: &EntryName,
        value: &impl Serialize,
        limit: u64,
    ) -> Result<Vec<u8>, WriteError> {
        let mut bytes = serde_json::to_vec(value).map_err(io::Error::from)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > limit {
            return Err(WriteError::OverLimit(
                "a JSON entry is larger than the format allows",
            ));
        }
        self.entry(name, &bytes)?;
        Ok(bytes)
    }

    /// Ends a block of compressed data, so that what comes next does not wait for it and the
    /// encoder does better around the edge of its window.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }

    /// Ends the tar stream, the frame and the file; returns the sink, the file's size and that of
    /// the tar stream.
    pub(crate) fn finish(mut self) -> Result<(W, u64, u64), WriteError> {
        self.put(&tar::END)?;
        let (sink, file_bytes) = self.encoder.finish()?.finish()?;
        Ok((sink, file_bytes, self.written))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.written += bytes.len() as u64;
        if self.written > self.max_bytes {
            return Err(WriteError::OverLimit(
                "the archive is larger than it declares",
            ));
        }
        Ok(self.encoder.write_all(bytes)?)
    }
}
