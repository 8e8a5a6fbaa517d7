//! Documents out of an archive.

use std::io::{self, Read, Write};

use crate::read::{Policy, Verified, VersionEntry, read_versions};
use crate::refusal::ArchiveError;

/// Writes the document of version `seq`.
///
/// # Errors
/// [`ArchiveError::NoSuchVersion`] when the archive does not hold it.
pub fn extract_version<R: Read>(
    file: R,
    verified: &Verified,
    policy: &Policy<'_>,
    seq: u64,
    out: &mut dyn Write,
) -> Result<(), ArchiveError> {
    let missing = ArchiveError::NoSuchVersion { seq };
    if !verified.versions.iter().any(|entry| entry.meta.seq == seq) {
        return Err(missing);
    }
    let mut versions = read_versions(file, verified, policy)?;
    while let Some(version) = versions.next_version()? {
        if version.entry.meta.seq == seq {
            return version.write_document(out).map_err(ArchiveError::Write);
        }
    }
    Err(missing)
}

/// Writes the document of every version, oldest first, to what `open` gives for it.
pub fn extract_all<R: Read, W: Write>(
    file: R,
    verified: &Verified,
    policy: &Policy<'_>,
    mut open: impl FnMut(&VersionEntry) -> io::Result<W>,
) -> Result<u64, ArchiveError> {
    let mut versions = read_versions(file, verified, policy)?;
    let mut count = 0;
    while let Some(version) = versions.next_version()? {
        let mut out = open(&version.entry).map_err(ArchiveError::Write)?;
        version
            .write_document(&mut out)
            .map_err(ArchiveError::Write)?;
        out.flush().map_err(ArchiveError::Write)?;
        count += 1;
    }
    Ok(count)
}
