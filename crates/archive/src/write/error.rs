//! Why an archive could not be written.

use std::io;

/// One variant per thing the exporter can do about it.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the archive could not be written")]
    Io(#[from] io::Error),
    /// Nothing was written of this version: write it as a key frame.
    #[error("the changes of version {seq} are too large for a delta")]
    DeltaTooLarge { seq: u64 },
    /// What was handed over about a version contradicts itself: rows are lost, or the caller is
    /// wrong. The archive must be given up.
    #[error("version {seq}: {what}")]
    Version { seq: u64, what: String },
    /// The calls do not make up an archive. The archive must be given up.
    #[error("{0}")]
    Misuse(&'static str),
    /// The archive grew beyond a limit of the format or what it declares of itself.
    #[error("{0}")]
    OverLimit(&'static str),
}
