//! What can be done with an archive and no server: take documents out of it, and compare.
//!
//! All of it works on a verified archive and returns plain data, or writes where it is told.

mod diff;
mod extract;

pub use diff::{ArchiveDiff, ChangedVersion, VersionDiff, diff_archives, diff_versions};
pub use extract::{extract_all, extract_version};
