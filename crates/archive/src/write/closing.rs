//! The end of an archive: runs, manifest, signature.

use std::io::Write;

use tfstate::Digest;

use super::error::WriteError;
use super::output::Output;
use crate::format::{EntryName, FORMAT, MAJOR, MAX_LIST_BYTES, MAX_RECORD_BYTES};
use crate::records::{ArchiveInfo, Counts, Manifest, Run, RunList, Tag, TagList};
use crate::sign::{SignatureFile, Signer};

/// An archive whose versions and tags are written.
pub struct Closing<W: Write> {
    output: Output<W>,
    info: ArchiveInfo,
    counts: Counts,
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Finished<W> {
    pub sink: W,
    pub counts: Counts,
    /// Bytes of the file, and of the tar stream in it.
    pub file_bytes: u64,
    pub unpacked_bytes: u64,
    pub manifest_sha256: Digest,
}

impl<W: Write> Closing<W> {
    pub(super) fn start(
        mut output: Output<W>,
        info: ArchiveInfo,
        mut counts: Counts,
        tags: &[Tag],
    ) -> Result<Self, WriteError> {
        output.json(&EntryName::Tags, &TagList { tags }, MAX_LIST_BYTES)?;
        counts.tags = tags.len() as u64;
        Ok(Self {
            output,
            info,
            counts,
        })
    }

    /// Where the bytes go, see [`Writer::sink_mut`](crate::Writer::sink_mut).
    pub fn sink_mut(&mut self) -> &mut W {
        self.output.sink_mut()
    }

    /// Writes the runs. Call it once if runs were announced, else not.
    pub fn runs(&mut self, runs: &[Run]) -> Result<(), WriteError> {
        self.output
            .json(&EntryName::Runs, &RunList { runs }, MAX_LIST_BYTES)?;
        self.counts.runs = runs.len() as u64;
        Ok(())
    }

    /// Writes manifest and signature, and ends the file. Without a signer the archive says that it
    /// is not signed.
    pub fn finish(mut self, signer: Option<&Signer>) -> Result<Finished<W>, WriteError> {
        // archive.json itself is not counted; manifest and signature are still to come.
        if self.output.entries.len() as u64 + 1 != self.info.entries {
            return Err(WriteError::Misuse(
                "the runs are not there exactly once as announced",
            ));
        }
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            major: MAJOR,
            minor: self.info.minor,
            counts: self.counts,
            entries: std::mem::take(&mut self.output.entries),
        };
        let bytes = self
            .output
            .json(&EntryName::Manifest, &manifest, MAX_LIST_BYTES)?;
        let signature = signer.map_or(SignatureFile::None {}, |signer| signer.sign(&bytes));
        self.output
            .json(&EntryName::Signature, &signature, MAX_RECORD_BYTES)?;
        let (sink, file_bytes, unpacked_bytes) = self.output.finish()?;
        Ok(Finished {
            sink,
            counts: self.counts,
            file_bytes,
            unpacked_bytes,
            manifest_sha256: Digest::of(&bytes),
        })
    }
}
