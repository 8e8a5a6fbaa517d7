//! Reading the versions of an archive that was verified.

use std::io::{Read, Write};

use tfstate::{Digest, Opaque, RowsDigest, State};

use super::policy::Policy;
use super::verify::Verified;
use super::walk::{Proof, VersionEntry, Walk};
use crate::history::{Changes, Content, Step};
use crate::records::Frame;
use crate::refusal::ArchiveError;

/// Opens a verified archive a second time, to read its versions one by one. Those of one that was only
/// [inspected](crate::inspect) are proven meanwhile: nothing may be used of them before there are no more.
///
/// # Errors
/// `changed_since_verified` when the file is no longer the one that was verified, here or while
/// reading.
pub fn read_versions<'p, R: Read>(
    file: R,
    verified: &Verified,
    policy: &Policy<'p>,
) -> Result<Versions<'p, R>, ArchiveError> {
    let proof = if verified.is_proven {
        Proof::Skip
    } else {
        Proof::Render
    };
    let walk = Walk::open(file, *policy, Some(verified.entries.clone()), proof)?;
    Ok(Versions { walk })
}

/// The versions of an archive, oldest first. Holds one document and its rows.
pub struct Versions<'p, R: Read> {
    walk: Walk<'p, R>,
}

/// One version, with the rows it changed.
pub struct Version<'a> {
    pub entry: VersionEntry,
    pub content: VersionContent<'a>,
    step: Rendered<'a>,
}

/// What a version's document is.
pub enum VersionContent<'a> {
    /// A version 4 state, split.
    State(VersionRows<'a>),
    /// Anything else. The rows of the version before stay as they were.
    Opaque(Opaque),
}

/// A version as rows.
pub struct VersionRows<'a> {
    /// For a key frame the whole state; for a delta its header, all its parts, and only the rows it
    /// brings. `changes` points into it either way.
    pub state: Box<State<'a>>,
    pub changes: Changes,
    /// The sum over all rows of the version, as [`State::rows_digest`] of the whole document.
    pub rows_digest: RowsDigest,
    /// Instances of the version; shells do not count.
    pub instance_count: u64,
}

struct Rendered<'a> {
    rows: &'a crate::history::Rows,
    document: &'a [u8],
}

impl<R: Read> Versions<'_, R> {
    /// The next version; `None` after the last, when all of them are proven.
    pub fn next_version(&mut self) -> Result<Option<Version<'_>>, ArchiveError> {
        let Some((entry, step)) = self.walk.next_version()? else {
            return Ok(None);
        };
        let Step {
            content,
            rows,
            document,
        } = step;
        let content = match content {
            Content::Opaque(opaque) => VersionContent::Opaque(opaque),
            Content::State { state, changes } => VersionContent::State(VersionRows {
                state,
                changes,
                rows_digest: rows.digest(),
                instance_count: rows.instance_count(),
            }),
        };
        Ok(Some(Version {
            entry,
            content,
            step: Rendered { rows, document },
        }))
    }
}

impl<'a> Version<'a> {
    /// The document, where the archive holds it whole.
    pub fn key_frame(&self) -> Option<&'a [u8]> {
        (self.entry.frame == Frame::Key).then_some(self.step.document)
    }

    /// Writes the document, rendering it where it is not held whole.
    pub fn write_document(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match self.key_frame() {
            Some(document) => out.write_all(document),
            None => {
                let rendered = self
                    .step
                    .rows
                    .render(self.step.document, |piece| out.write_all(piece))?;
                rendered.map_err(std::io::Error::other)
            }
        }
    }

    /// Place and digest of every row of the version, in document order.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u8], Digest)> {
        self.step
            .rows
            .instances
            .iter()
            .map(|row| (&*row.ord, row.digest))
    }

    /// Name and digest of every output of the version, by name.
    pub fn outputs(&self) -> impl Iterator<Item = (&'a str, Digest)> {
        self.step
            .rows
            .outputs
            .iter()
            .map(|row| (&*row.name, row.digest))
    }
}
