//! Writing archives, streaming: whoever exports hands over one version after the other and never
//! holds more than one change.
//!
//! The order of calls is the order of the format: [`Writer::start`], for each version
//! [`Writer::key_frame`] or [`Writer::delta`], then [`Writer::tags`], which gives a [`Closing`] for
//! the rest. What is written cannot be taken back: after an error other than
//! [`WriteError::DeltaTooLarge`] the archive must be given up.

mod changes;
mod closing;
mod error;
mod output;
mod places;

use std::io::Write;

use tfstate::Document;

pub use changes::{OutputBirth, RowBirth, VersionChanges};
pub use closing::{Closing, Finished};
pub use error::WriteError;

use crate::format::{
    EntryName, FORMAT, MAX_ENTRY_BYTES, MAX_RECORD_BYTES, MAX_VERSIONS, MINOR, Standing,
};
use crate::records::{
    ArchiveInfo, Counts, Frame, StateInfo, Tag, VersionMeta, VersionRange, VersionRecord,
};
use changes::KnownParts;
use output::Output;
use places::Places;

/// What an exporter knows before it begins.
#[derive(Debug, Clone)]
pub struct Preface {
    /// The program, with its version.
    pub writer: String,
    pub exported_at: chrono::DateTime<chrono::Utc>,
    pub exported_by: String,
    pub state: StateInfo,
    pub versions: VersionRange,
    /// Whether `runs.json` will follow.
    pub has_runs: bool,
    /// See [`bound_of`](crate::bound_of).
    pub max_bytes: u64,
}

/// An archive being written, up to its last version.
pub struct Writer<W: Write> {
    output: Output<W>,
    info: ArchiveInfo,
    counts: Counts,
    last: Option<VersionMeta>,
    /// Numbers of the key frames: a tag must name one.
    key_frames: Vec<u64>,
    /// Rows of the last version; `None` after one that is verbatim, where no delta may follow.
    places: Option<Places>,
    parts: KnownParts,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub fn start(sink: W, preface: Preface) -> Result<Self, WriteError> {
        let range = preface.versions;
        if range.count == 0 || range.count > MAX_VERSIONS {
            return Err(WriteError::OverLimit(
                "an archive holds 1 to 10,000 versions",
            ));
        }
        let info = ArchiveInfo {
            format: FORMAT.to_owned(),
            minor: MINOR,
            writer: preface.writer,
            exported_at: preface.exported_at,
            exported_by: preface.exported_by,
            state: preface.state,
            versions: range,
            // Two for each version, tags, manifest and signature.
            entries: 2 * range.count + 3 + u64::from(preface.has_runs),
            max_bytes: preface.max_bytes,
            ext: Vec::new(),
        };
        let mut output = Output::new(sink, info.max_bytes)?;
        output.json(&EntryName::Archive, &info, MAX_RECORD_BYTES)?;
        Ok(Self {
            output,
            info,
            counts: Counts::default(),
            last: None,
            key_frames: Vec::new(),
            places: None,
            parts: KnownParts::new(),
        })
    }

    /// Where the bytes go. An exporter that uploads drains a buffer here between calls.
    pub fn sink_mut(&mut self) -> &mut W {
        self.output.sink_mut()
    }

    /// How much has been written so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the next version must be a key frame.
    pub fn needs_key_frame(&self, verbatim: bool, tagged: bool) -> bool {
        let standing = Standing {
            position: self.counts.versions,
            count: self.info.versions.count,
            tagged,
            verbatim,
            after_verbatim: self.is_after_verbatim(),
        };
        standing.needs_key_frame()
    }

    /// Which of the next versions must be key frames, for those who read ahead. Of each version: whether it is verbatim,
    /// and whether it is tagged.
    pub fn plan(&self, next: impl IntoIterator<Item = (bool, bool)>) -> Vec<bool> {
        let mut after_verbatim = self.is_after_verbatim();
        let plan = |(position, (verbatim, tagged))| {
            let standing = Standing {
                position,
                count: self.info.versions.count,
                tagged,
                verbatim,
                after_verbatim,
            };
            after_verbatim = verbatim;
            standing.needs_key_frame()
        };
        (self.counts.versions..).zip(next).map(plan).collect()
    }

    fn is_after_verbatim(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.verbatim)
    }

    /// Begins the next version as a key frame; its document follows in pieces.
    pub fn key_frame(&mut self, meta: &VersionMeta) -> Result<KeyFrame<'_, W>, WriteError> {
        if meta.bytes > MAX_ENTRY_BYTES {
            return Err(WriteError::OverLimit(
                "the document is larger than the format allows",
            ));
        }
        self.record(meta, Frame::Key)?;
        self.output
            .begin(&EntryName::KeyFrame(meta.seq), meta.bytes)?;
        self.counts.key_frames += 1;
        self.key_frames.push(meta.seq);
        // Known again once the frame is complete.
        self.places = None;
        self.parts.clear();
        Ok(KeyFrame {
            meta: meta.clone(),
            places: Places::default(),
            writer: self,
        })
    }

    /// Writes the next version as a key frame from its whole document.
    pub fn document(&mut self, meta: &VersionMeta, document: &[u8]) -> Result<(), WriteError> {
        let mut frame = self.key_frame(meta)?;
        if !meta.verbatim
            && let Ok(Document::State(state)) = tfstate::parse(document)
        {
            state
                .instances
                .iter()
                .try_for_each(|row| frame.place(&row.ord))?;
        }
        frame.write(document)?;
        frame.finish()
    }

    /// Writes the next version as a delta.
    ///
    /// # Errors
    /// [`WriteError::DeltaTooLarge`] leaves the archive as it was: write a key frame instead.
    pub fn delta(
        &mut self,
        meta: &VersionMeta,
        changes: &VersionChanges<'_>,
    ) -> Result<(), WriteError> {
        let places = match &self.places {
            Some(places) if !self.needs_key_frame(meta.verbatim, false) => places,
            _ => return Err(WriteError::Misuse("this version must be a key frame")),
        };
        let encoded = changes::encode(meta, changes, places, &self.parts)?;
        self.record(meta, Frame::Delta)?;
        self.output
            .entry(&EntryName::Delta(meta.seq), &encoded.bytes)?;
        self.output.flush()?;
        self.places = Some(encoded.places);
        self.parts = encoded.parts;
        self.counts.deltas += 1;
        self.complete(meta);
        Ok(())
    }

    fn record(&mut self, meta: &VersionMeta, frame: Frame) -> Result<(), WriteError> {
        let range = self.info.versions;
        let position = self.counts.versions;
        let is_last = position + 1 == range.count;
        let fits = position < range.count
            && (position > 0 || meta.seq == range.first)
            && is_last == (meta.seq == range.last)
            && self.last.as_ref().is_none_or(|last| last.seq < meta.seq);
        if !fits {
            return Err(WriteError::Misuse(
                "the version does not fit the range that was announced",
            ));
        }
        self.output.json(
            &EntryName::Version(meta.seq),
            &VersionRecord { frame, meta },
            MAX_RECORD_BYTES,
        )?;
        Ok(())
    }

    fn complete(&mut self, meta: &VersionMeta) {
        self.counts.versions += 1;
        self.counts.document_bytes += meta.bytes;
        self.last = Some(meta.clone());
    }

    /// After the last version: writes the tags.
    pub fn tags(self, tags: &[Tag]) -> Result<Closing<W>, WriteError> {
        if self.counts.versions != self.info.versions.count {
            return Err(WriteError::Misuse("versions are missing"));
        }
        let named = |tag: &Tag| self.key_frames.binary_search(&tag.seq).is_ok();
        if !tags.iter().all(named) {
            return Err(WriteError::Misuse(
                "a tag names a version that is no key frame",
            ));
        }
        Closing::start(self.output, self.info, self.counts, tags)
    }
}

/// A key frame being written. Dropped before [`KeyFrame::finish`], it leaves an archive that nothing
/// more can be written to.
pub struct KeyFrame<'w, W: Write> {
    writer: &'w mut Writer<W>,
    meta: VersionMeta,
    places: Places,
}

impl<W: Write> KeyFrame<'_, W> {
    /// Writes some of the document.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.writer.output.content(bytes)
    }

    /// Notes the next row of the document by its place, so that deltas can follow. Places of a
    /// verbatim version are not needed.
    pub fn place(&mut self, ord: &[u8]) -> Result<(), WriteError> {
        if self.places.push(ord) {
            return Ok(());
        }
        Err(self.wrong("its rows are not in order"))
    }

    /// Where the bytes go, see [`Writer::sink_mut`].
    pub fn sink_mut(&mut self) -> &mut W {
        self.writer.output.sink_mut()
    }

    /// Completes the version.
    ///
    /// # Errors
    /// When the document is not the one its metadata describes.
    pub fn finish(self) -> Result<(), WriteError> {
        let sha256 = self.writer.output.end()?;
        if sha256 != self.meta.sha256 {
            return Err(self.wrong("its document is not the one that was recorded"));
        }
        self.writer.output.flush()?;
        self.writer.places = (!self.meta.verbatim).then_some(self.places);
        self.writer.complete(&self.meta);
        Ok(())
    }

    fn wrong(&self, what: &str) -> WriteError {
        WriteError::Version {
            seq: self.meta.seq,
            what: what.to_owned(),
        }
    }
}
