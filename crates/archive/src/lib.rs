//! State archives, format `kilolock-state-archive/v1`: one state with its whole history in one file.
//!
//! [`Writer`] streams an archive out of a history of rows; [`verify`] checks one from beginning to
//! end; [`read_versions`] then gives its versions one by one. `docs/archive-format.md` describes the
//! format, and `docs/archive_reader.py` reads it in another language.
//!
//! Pure: bytes in, bytes or a broken rule out. Nothing is ever unpacked to a path. Not for: files,
//! jobs, uploads, who may import what. The rule for adding here: what a reader of an archive needs
//! to know about the format belongs in this crate, and in that document.

mod delta;
mod format;
mod history;
mod json;
mod members;
mod read;
mod records;
mod refusal;
mod seal;
mod sign;
mod tar;
mod tools;
mod write;

pub use format::{
    EXTENSION, FORMAT, KEY_FRAME_EVERY, MAJOR, MAX_DELTA_BYTES, MAX_ENTRY_BYTES, MAX_EXTENSIONS,
    MAX_JSON_DEPTH, MAX_LIST_BYTES, MAX_RECORD_BYTES, MAX_VERSIONS, MAX_WINDOW_LOG, MINOR,
    Standing, bound_of,
};
pub use history::Changes;
pub use read::{
    DEFAULT_MEMORY_BYTES, Policy, Verified, Version, VersionContent, VersionEntry, VersionRows,
    Versions, inspect, read_versions, verify,
};
pub use records::{
    ArchiveInfo, Counts, Frame, Manifest, ManifestEntry, Run, StateInfo, Tag, VersionMeta,
    VersionRange,
};
pub use refusal::{ArchiveError, Refusal, Rule};
pub use sign::{Origin, OriginRule, PublicKey, Signer};
pub use tools::{
    ArchiveDiff, ChangedVersion, VersionDiff, diff_archives, diff_versions, extract_all,
    extract_version,
};
pub use write::{
    Closing, Finished, KeyFrame, OutputBirth, Preface, RowBirth, VersionChanges, WriteError, Writer,
};
