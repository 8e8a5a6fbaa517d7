//! The order of entries, and what they must say together, up to the last version.

use std::collections::HashSet;
use std::io::Read;

use super::entries::Entries;
use super::info::read_info;
use super::policy::Policy;
use super::prover::{Prover, check_document_size, wrong_digest};
use crate::delta::DeltaReader;
use crate::format::{EntryName, MAX_DELTA_BYTES, MAX_ENTRY_BYTES, MAX_RECORD_BYTES, Standing};
use crate::history::{History, Step};
use crate::json::{self, most_rows};
use crate::records::{ArchiveInfo, Frame, FrameRecord, ManifestEntry, VersionMeta};
use crate::refusal::{ArchiveError, Fault, Rule};

/// What the decoder holds beside its window.
const DECODER_MEMORY: u64 = 8 << 20;

/// A delta is held as its texts, as the document made of them, and as the rows that come of it.
const DELTA_TEXTS: u64 = 3;

/// What a row costs beside its texts while it is read: parsed, and as it will be kept.
const READ_ROW_COST: u64 = 400;

/// A version's record is kept as metadata, and its id once more.
const RECORD_COST: u64 = 2;

/// Whether versions are rendered and held against their SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Render,
    /// It was done before, or will be.
    Skip,
}

/// A version of the archive: its metadata and how it is stored.
#[derive(Debug, Clone, serde::Serialize)]
pub struct VersionEntry {
    pub frame: Frame,
    #[serde(flatten)]
    pub meta: VersionMeta,
}

/// An archive on the way from its first entry to its last version.
pub(crate) struct Walk<'p, R: Read> {
    reader: Reader<'p, R>,
    prover: Prover,
}

/// What is read, without the proof that lags behind it.
struct Reader<'p, R: Read> {
    entries: Entries<R>,
    info: ArchiveInfo,
    versions: Vec<VersionEntry>,
    document_bytes: u64,
    policy: Policy<'p>,
    proof: Proof,
    history: History,
    ids: HashSet<String>,
    /// Bytes of the version records, whose texts are all kept.
    record_bytes: u64,
}

impl<'p, R: Read> Walk<'p, R> {
    /// Reads `archive.json`.
    pub(crate) fn open(
        file: R,
        policy: Policy<'p>,
        verified: Option<Vec<ManifestEntry>>,
        proof: Proof,
    ) -> Result<Self, ArchiveError> {
        let mut entries = Entries::open(file, policy.total_bytes, verified)?;
        let size = expect(&mut entries, &EntryName::Archive)?;
        let bytes = read_record(&mut entries, &EntryName::Archive, size, MAX_RECORD_BYTES)?;
        let info = read_info(&bytes).map_err(|fault| fault.at(EntryName::Archive))?;
        if info.versions.count > policy.versions {
            let detail = format!(
                "the archive holds {} versions; the limit is {}",
                info.versions.count, policy.versions
            );
            let fault = Fault::new(Rule::TooManyVersions, detail);
            return Err(fault.at(EntryName::Archive));
        }
        entries.declare(info.max_bytes);
        let reader = Reader {
            entries,
            info,
            versions: Vec::new(),
            document_bytes: 0,
            policy,
            proof,
            history: History::default(),
            ids: HashSet::new(),
            record_bytes: 0,
        };
        Ok(Self {
            reader,
            prover: Prover::new(),
        })
    }

    /// After the last version: what the rest of the archive is held against. Rows and documents are
    /// given up.
    pub(super) fn into_parts(self) -> (Entries<R>, ArchiveInfo, Vec<VersionEntry>, u64) {
        let Reader {
            entries,
            info,
            versions,
            document_bytes,
            ..
        } = self.reader;
        (entries, info, versions, document_bytes)
    }

    /// Reads the next version and applies it; `None` after the last. It is not proven before a later call says so, at the
    /// latest the one that answers `None`.
    pub(crate) fn next_version(
        &mut self,
    ) -> Result<Option<(VersionEntry, Step<'_>)>, ArchiveError> {
        let Self { reader, prover } = self;
        match reader.next_version(prover) {
            Ok(Some(step)) => Ok(Some(step)),
            Ok(None) => prover.finish().map(|()| None),
            Err(ArchiveError::Stopped) => Err(ArchiveError::Stopped),
            // What is wrong with an earlier version comes first.
            Err(error) => Err(prover.finish().err().unwrap_or(error)),
        }
    }
}

impl<R: Read> Reader<'_, R> {
    fn next_version(
        &mut self,
        prover: &mut Prover,
    ) -> Result<Option<(VersionEntry, Step<'_>)>, ArchiveError> {
        if self.versions.len() as u64 == self.info.versions.count {
            return Ok(None);
        }
        if self.policy.stopped() {
            return Err(ArchiveError::Stopped);
        }
        let entry = self.read_version_record()?;
        let meta = &entry.meta;
        let name = match entry.frame {
            Frame::Key => EntryName::KeyFrame(meta.seq),
            Frame::Delta => EntryName::Delta(meta.seq),
        };
        let size = expect(&mut self.entries, &name)?;
        let step = match entry.frame {
            Frame::Key => {
                self.history.forget();
                check_document_size(meta, size).map_err(|fault| fault.at(&name))?;
                self.room_for(size).map_err(|fault| fault.at(&name))?;
                let (document, sha256) = read_document(&mut self.entries, size, &self.policy)?;
                if sha256 != meta.sha256 {
                    return Err(wrong_digest(meta).at(&name));
                }
                let rows = most_rows(&document).saturating_mul(READ_ROW_COST);
                self.room_for(size.saturating_add(rows))
                    .map_err(|fault| fault.at(&name))?;
                self.history
                    .key_frame(document, meta)
                    .map_err(|fault| fault.at(&name))?
            }
            Frame::Delta => {
                too_large(size, MAX_DELTA_BYTES).map_err(|fault| fault.at(&name))?;
                let texts = size.saturating_mul(DELTA_TEXTS);
                let room = self.room_for(texts).map_err(|fault| fault.at(&name))?;
                let mut delta = DeltaReader::new(room / READ_ROW_COST);
                self.entries
                    .content(|piece| delta.feed(piece).map_err(|fault| fault.at(&name)))?;
                let delta = delta.finish().map_err(|fault| fault.at(&name))?;
                let step = self
                    .history
                    .delta(delta, meta)
                    .map_err(|fault| fault.at(&name))?;
                if self.proof == Proof::Render {
                    prover.prove(&step, meta, &self.policy, &name)?;
                }
                step
            }
        };
        self.document_bytes = self.document_bytes.saturating_add(meta.bytes);
        self.versions.push(entry.clone());
        Ok(Some((entry, step)))
    }

    fn read_version_record(&mut self) -> Result<VersionEntry, ArchiveError> {
        let (name, size) = next_entry(&mut self.entries, "a version")?;
        // Numbers ascend, so an earlier one that is met again is found quickly.
        let earlier = |seq| {
            self.versions
                .binary_search_by_key(seq, |entry| entry.meta.seq)
                .is_ok()
        };
        let seq = match &name {
            EntryName::Version(seq) if !earlier(seq) => *seq,
            _ => return Err(misplaced(&self.entries, &name, "a version")),
        };
        let bytes = read_record(&mut self.entries, &name, size, MAX_RECORD_BYTES)?;
        self.record_bytes += size;
        self.room_for(0)
            .and_then(|_| self.check_version(&bytes, seq))
            .map_err(|fault| fault.at(&name))
    }

    fn check_version(&mut self, bytes: &[u8], seq: u64) -> Result<VersionEntry, Fault> {
        let FrameRecord { frame } = json::read(bytes)?;
        let meta: VersionMeta = json::read(bytes)?;
        if meta.seq != seq {
            let detail = format!("the entry names version {}", meta.seq);
            return Err(Fault::new(Rule::VersionNumber, detail));
        }
        let last = self.versions.last();
        if let Some(last) = last
            && last.meta.seq >= seq
        {
            let detail = format!("version {seq} stands after version {}", last.meta.seq);
            return Err(Fault::new(Rule::VersionOrder, detail));
        }
        let position = self.versions.len() as u64;
        let range = self.info.versions;
        let is_last = position + 1 == range.count;
        if position == 0 && seq != range.first || is_last != (seq == range.last) || seq > range.last
        {
            let detail = format!("version {seq} does not fit the range that archive.json declares");
            return Err(Fault::new(Rule::ArchiveContradiction, detail));
        }
        if is_last {
            self.check_head(&meta)?;
        }
        if !self.ids.insert(meta.id.clone()) {
            let detail = format!("the id {:?} is that of an earlier version", meta.id);
            return Err(Fault::new(Rule::VersionRepeated, detail));
        }
        let standing = Standing {
            position,
            count: range.count,
            tagged: false,
            verbatim: meta.verbatim,
            after_verbatim: last.is_some_and(|last| last.meta.verbatim),
        };
        if frame == Frame::Delta && standing.needs_key_frame() {
            let detail = format!("version {seq} must be a key frame");
            return Err(Fault::new(Rule::KeyFrameRequired, detail));
        }
        if meta.bytes > MAX_ENTRY_BYTES {
            let detail = format!("a document has at most {MAX_ENTRY_BYTES} bytes");
            return Err(Fault::new(Rule::EntryTooLarge, detail));
        }
        Ok(VersionEntry { frame, meta })
    }

    fn check_head(&self, meta: &VersionMeta) -> Result<(), Fault> {
        let state = &self.info.state;
        let same = state.head_seq == meta.seq
            && state.head_id == meta.id
            && state.serial == meta.serial
            && state.lineage == meta.lineage;
        if same {
            return Ok(());
        }
        let detail = "the last version is not the head that archive.json describes";
        Err(Fault::new(Rule::ArchiveContradiction, detail))
    }

    /// Whether so many bytes more may be used; returns how many may be beyond them.
    fn room_for(&self, more: u64) -> Result<u64, Fault> {
        let limit = self.policy.memory_bytes;
        let needed = DECODER_MEMORY
            .saturating_add(self.entries.window_bytes())
            .saturating_add(self.record_bytes.saturating_mul(RECORD_COST))
            .saturating_add(self.history.memory())
            .saturating_add(more);
        limit.checked_sub(needed).ok_or_else(|| {
            let detail =
                format!("reading it takes about {needed} bytes of memory; the limit is {limit}");
            Fault::new(Rule::OverMemory, detail)
        })
    }
}

fn read_document<R: Read>(
    entries: &mut Entries<R>,
    size: u64,
    policy: &Policy<'_>,
) -> Result<(Vec<u8>, tfstate::Digest), ArchiveError> {
    // There is room for it; memory that is never written to costs nothing.
    let mut document = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let sha256 = entries.content(|piece| {
        if policy.stopped() {
            return Err(ArchiveError::Stopped);
        }
        document.extend_from_slice(piece);
        Ok(())
    })?;
    Ok((document, sha256))
}

fn too_large(size: u64, limit: u64) -> Result<(), Fault> {
    if size <= limit {
        return Ok(());
    }
    let detail = format!("the entry has {size} bytes; one of its kind has at most {limit}");
    Err(Fault::new(Rule::EntryTooLarge, detail))
}

/// The next entry, which must exist.
pub(super) fn next_entry<R: Read>(
    entries: &mut Entries<R>,
    wanted: &str,
) -> Result<(EntryName, u64), ArchiveError> {
    entries.next()?.ok_or_else(|| {
        Fault::new(
            Rule::EntryMissing,
            format!("the archive ends where {wanted} should follow"),
        )
        .at("the tar stream")
    })
}

/// The next entry's size; it must be this one.
pub(super) fn expect<R: Read>(
    entries: &mut Entries<R>,
    wanted: &EntryName,
) -> Result<u64, ArchiveError> {
    let (name, size) = next_entry(entries, &wanted.to_string())?;
    if name == *wanted {
        Ok(size)
    } else {
        Err(misplaced(entries, &name, &wanted.to_string()))
    }
}

/// An entry that stands where another belongs.
pub(super) fn misplaced<R: Read>(
    entries: &Entries<R>,
    name: &EntryName,
    wanted: &str,
) -> ArchiveError {
    let text = name.to_string();
    let fault = if entries.seen.iter().any(|entry| entry.name == text) {
        Fault::new(Rule::EntryRepeated, "the archive holds this entry twice")
    } else {
        Fault::new(
            Rule::EntryOrder,
            format!("the entry stands where {wanted} belongs"),
        )
    };
    fault.at(name)
}

/// Reads an entry of JSON whole, if it is not too large.
pub(super) fn read_record<R: Read>(
    entries: &mut Entries<R>,
    name: &EntryName,
    size: u64,
    limit: u64,
) -> Result<Vec<u8>, ArchiveError> {
    too_large(size, limit).map_err(|fault| fault.at(name))?;
    Ok(entries.whole()?.0)
}
