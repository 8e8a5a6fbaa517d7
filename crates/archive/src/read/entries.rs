//! Entry by entry through the file: decompressed, counted against the budgets, hashed.
//!
//! Nothing here knows which entry may follow which; that is `walk`'s.

use std::io::{self, BufRead as _, Chain, Cursor, Read};

use sha2::{Digest as _, Sha256};
use tfstate::Digest;
use zstd::stream::read::Decoder;

use crate::format::{EntryName, MAX_WINDOW_LOG};
use crate::records::ManifestEntry;
use crate::refusal::{ArchiveError, Fault, Rule};
use crate::seal::{self, Source, SourceError};
use crate::tar;

/// Bytes handed on at once.
const CHUNK: usize = 256 << 10;

type Frame<R> = Decoder<'static, Chain<Cursor<[u8; seal::HEADER]>, Source<R>>>;

/// The entries of an archive.
pub(crate) struct Entries<R: Read> {
    frame: Frame<R>,
    window_bytes: u64,
    /// Bytes of the tar stream read, and how many there may be.
    read: u64,
    limit: Limit,
    /// Bytes of the current entry that are left, and of its padding.
    pending: Option<ManifestHead>,
    /// What has been read, as the manifest should list it.
    pub(crate) seen: Vec<ManifestEntry>,
    /// What a verified archive must still be.
    verified: Option<Vec<ManifestEntry>>,
    chunk: Box<[u8]>,
}

/// The nearer of two limits, and which it is.
#[derive(Clone, Copy)]
struct Limit {
    bytes: u64,
    rule: Rule,
}

/// The entry whose content is next.
struct ManifestHead {
    name: String,
    size: u64,
}

impl<R: Read> Entries<R> {
    /// Opens the compressed layer. At most `total_bytes` are unpacked.
    pub(crate) fn open(
        file: R,
        total_bytes: u64,
        verified: Option<Vec<ManifestEntry>>,
    ) -> Result<Self, ArchiveError> {
        let mut source = Source::new(file);
        let header = read_header(&mut source)?;
        seal::check_header(header).map_err(|fault| fault.at("the file"))?;
        let mut frame =
            Decoder::with_buffer(Cursor::new(header).chain(source)).map_err(ArchiveError::Read)?;
        frame
            .window_log_max(MAX_WINDOW_LOG)
            .map_err(ArchiveError::Read)?;
        Ok(Self {
            frame: frame.single_frame(),
            window_bytes: seal::window_bytes(header),
            read: 0,
            limit: Limit {
                bytes: total_bytes,
                rule: Rule::OverLimit,
            },
            pending: None,
            seen: Vec::new(),
            verified,
            chunk: vec![0; CHUNK].into(),
        })
    }

    /// What the archive declares of itself; from here on it binds as well.
    pub(crate) fn declare(&mut self, max_bytes: u64) {
        if max_bytes < self.limit.bytes {
            self.limit = Limit {
                bytes: max_bytes,
                rule: Rule::OverDeclared,
            };
        }
    }

    /// Bytes that the decoder holds to look back into.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Bytes of the tar stream read so far.
    pub(crate) fn unpacked(&self) -> u64 {
        self.read
    }

    /// The next entry's name and size; `None` at the end of the tar stream.
    pub(crate) fn next(&mut self) -> Result<Option<(EntryName, u64)>, ArchiveError> {
        debug_assert!(
            self.pending.is_none(),
            "an entry's content is read before the next"
        );
        let mut block = [0; tar::BLOCK];
        self.fill(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            self.fill(&mut block)?;
            return if block.iter().all(|byte| *byte == 0) {
                Ok(None)
            } else {
                Err(tar_fault(Fault::new(
                    Rule::TarEnd,
                    "a single empty block does not end a tar stream",
                )))
            };
        }
        let (name, size) = tar::read_header(&block).map_err(tar_fault)?;
        let Some(entry) = EntryName::parse(&name) else {
            let fault = Fault::new(Rule::NameUnknown, "the format has no entry of this name");
            return Err(fault.at(shown(&name)));
        };
        if self.read.saturating_add(size) > self.limit.bytes {
            return Err(self.over_limit().at(&entry));
        }
        self.pending = Some(ManifestHead { name, size });
        Ok(Some((entry, size)))
    }

    /// Hands the entry's content on, piece by piece.
    pub(crate) fn content(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<Digest, ArchiveError> {
        let Some(ManifestHead { name, size }) = self.pending.take() else {
            return Ok(Digest::of(b""));
        };
        let mut hash = Sha256::new();
        let mut chunk = std::mem::take(&mut self.chunk);
        let mut left = size;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            self.fill(&mut chunk[..step])?;
            hash.update(&chunk[..step]);
            each(&chunk[..step])?;
            left -= step as u64;
        }
        self.chunk = chunk;
        let mut padding = [0; tar::BLOCK];
        let padding = &mut padding[..tar::padding(size)];
        self.fill(padding)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(
                Fault::new(Rule::TarPadding, "the padding after the entry is not empty").at(name),
            );
        }
        let sha256 = Digest(hash.finalize().into());
        self.record(ManifestEntry {
            name,
            bytes: size,
            sha256,
        })?;
        Ok(sha256)
    }

    /// The entry's whole content; the caller has looked at its size.
    pub(crate) fn whole(&mut self) -> Result<(Vec<u8>, Digest), ArchiveError> {
        // The size is only claimed so far: the buffer grows with what really comes.
        let mut bytes = Vec::new();
        let digest = self.content(|chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok((bytes, digest))
    }

    fn record(&mut self, entry: ManifestEntry) -> Result<(), ArchiveError> {
        if let Some(verified) = &self.verified
            && verified
                .get(self.seen.len())
                .is_some_and(|expected| *expected != entry)
        {
            let fault = Fault::new(
                Rule::ChangedSinceVerified,
                "the entry is not the one that was verified",
            );
            return Err(fault.at(entry.name));
        }
        self.seen.push(entry);
        Ok(())
    }

    /// After the end of the tar stream: nothing may follow it in the frame, and the seal must fit.
    /// Returns the SHA-256 of the file up to its seal.
    pub(crate) fn finish(mut self) -> Result<Digest, ArchiveError> {
        match self.frame.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => {
                let fault = Fault::new(
                    Rule::TrailingData,
                    "something follows the end of the tar stream",
                );
                return Err(fault.at(TAR));
            }
            Err(error) => return Err(decode_error(error)),
        }
        let (_, source) = self.frame.finish().into_inner();
        source
            .check_seal()
            .map_err(decode_error)?
            .map_err(|fault| fault.at(FILE))
    }

    /// Fills `out` from the tar stream.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), ArchiveError> {
        self.read = self.read.saturating_add(out.len() as u64);
        if self.read > self.limit.bytes {
            return Err(self.over_limit().at(TAR));
        }
        let mut filled = 0;
        while filled < out.len() {
            match self.frame.read(&mut out[filled..]) {
                Ok(0) => {
                    let fault =
                        Fault::new(Rule::TarEnd, "the tar stream ends before its end is marked");
                    return Err(fault.at(TAR));
                }
                Ok(step) => filled += step,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(decode_error(error)),
            }
        }
        Ok(())
    }

    fn over_limit(&self) -> Fault {
        let Limit { bytes, rule } = self.limit;
        let whose = match rule {
            Rule::OverDeclared => "it declares itself",
            _ => "the limit allows",
        };
        Fault::new(
            rule,
            format!("the archive unpacks to more than the {bytes} bytes {whose}"),
        )
    }
}

const FILE: &str = "the file";
const TAR: &str = "the tar stream";

fn tar_fault(fault: Fault) -> ArchiveError {
    fault.at(TAR)
}

/// A name from outside, for a message.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

fn read_header<R: Read>(source: &mut Source<R>) -> Result<[u8; seal::HEADER], ArchiveError> {
    let mut header = [0; seal::HEADER];
    for slot in &mut header {
        let byte = source.fill_buf().map_err(decode_error)?.first().copied();
        let Some(byte) = byte else {
            return Err(Fault::new(Rule::Cut, "the file ends within its first bytes").at(FILE));
        };
        *slot = byte;
        source.consume(1);
    }
    Ok(header)
}

/// Tells an error of the file beneath from one of the decoder.
fn decode_error(error: io::Error) -> ArchiveError {
    match error.downcast::<SourceError>() {
        Ok(SourceError(error)) => ArchiveError::Read(error),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::new(Rule::Cut, "the file ends before its compressed data does").at(FILE)
        }
        Err(error) => Fault::new(
            Rule::ZstdDamaged,
            format!("the compressed data is damaged: {error}"),
        )
        .at(FILE),
    }
}
