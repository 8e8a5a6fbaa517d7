//! Why an archive was refused: one rule each, with a stable code.

use std::fmt;
use std::io;

/// Declares the rules with their codes, so that none can be left out of the list.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// A rule an archive can break.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable, documented code (snake_case, never reworded).
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

rules! {
    /// The file does not begin as a zstd frame.
    NotZstd = "not_zstd",
    /// The frame's header is not the one the format prescribes.
    ZstdHeader = "zstd_header",
    /// The frame's window is larger than 2^27 bytes.
    WindowTooLarge = "window_too_large",
    /// The compressed data cannot be decoded.
    ZstdDamaged = "zstd_damaged",
    /// The file ends too early.
    Cut = "cut",
    /// The seal at the end does not match the bytes before it.
    SealMismatch = "seal_mismatch",
    /// Something follows the end.
    TrailingData = "trailing_data",

    /// The tar stream ends too early, or its end is not two empty blocks.
    TarEnd = "tar_end",
    /// A header's checksum is wrong.
    TarChecksum = "tar_checksum",
    /// A header is not spelled as the format prescribes.
    TarDialect = "tar_dialect",
    /// A header's size is no plain octal number.
    TarSize = "tar_size",
    /// The padding after an entry is not empty.
    TarPadding = "tar_padding",
    /// An entry is a hard or symbolic link.
    EntryLink = "entry_link",
    /// An entry is a device or a pipe.
    EntryDevice = "entry_device",
    /// An entry is a directory.
    EntryDirectory = "entry_directory",
    /// A pax header.
    EntryPax = "entry_pax",
    /// A GNU header for a long name.
    EntryLongName = "entry_long_name",
    /// A sparse or multi-volume entry.
    EntrySparse = "entry_sparse",
    /// An entry of another type that is no plain file.
    EntryType = "entry_type",

    /// A name is absolute, climbs out of the archive, or holds NUL.
    NameEscapes = "name_escapes",
    /// A name the format does not have.
    NameUnknown = "name_unknown",
    /// An entry occurs twice.
    EntryRepeated = "entry_repeated",
    /// An entry stands where the format has another.
    EntryOrder = "entry_order",
    /// An entry is missing.
    EntryMissing = "entry_missing",
    /// More entries than the versions and `ext/` account for, or not as many as declared.
    EntryCount = "entry_count",

    /// An entry is larger than its kind may be.
    EntryTooLarge = "entry_too_large",
    /// The archive holds more versions than the format allows.
    TooManyVersions = "too_many_versions",
    /// The archive unpacks to more than the reader's limit.
    OverLimit = "over_limit",
    /// The archive unpacks to more than it declares.
    OverDeclared = "over_declared",
    /// Reading on would take more memory than the reader's limit.
    OverMemory = "over_memory",
    /// JSON of the format nests too deep.
    JsonTooDeep = "json_too_deep",

    /// A JSON entry cannot be read as what it should be.
    BadJson = "bad_json",
    /// The archive does not identify itself as one of Kilolock.
    NotAnArchive = "not_an_archive",
    /// The archive is of a major this reader does not know.
    UnknownMajor = "unknown_major",
    /// `archive.json` contradicts itself or the versions that follow.
    ArchiveContradiction = "archive_contradiction",

    /// A version's number does not follow the one before.
    VersionOrder = "version_order",
    /// A version's entry names another number than its file name.
    VersionNumber = "version_number",
    /// Two versions have one id.
    VersionRepeated = "version_repeated",
    /// A version that must be a key frame is a delta.
    KeyFrameRequired = "key_frame_required",
    /// A document has another size than its version says.
    DocumentSize = "document_size",
    /// A document has another SHA-256 than its version says.
    DocumentDigest = "document_digest",
    /// A document is nothing Kilolock would have taken.
    DocumentRefused = "document_refused",
    /// Serial, lineage or Terraform version differ from the document's.
    DocumentFields = "document_fields",
    /// Rendering does not reproduce a document that is not marked verbatim.
    DocumentNotRendered = "document_not_rendered",

    /// A delta's line is not as the format prescribes.
    DeltaLine = "delta_line",
    /// A delta's lines are not in order.
    DeltaOrder = "delta_order",
    /// A delta changes or removes what the version before does not have, or adds what it has.
    DeltaPlace = "delta_place",
    /// A delta's pieces do not make up rows of a state document.
    DeltaRows = "delta_rows",

    /// A tag names no version of the archive.
    TagDangling = "tag_dangling",
    /// A tag occurs twice.
    TagRepeated = "tag_repeated",
    /// A run names a version that it did not make.
    RunDangling = "run_dangling",
    /// A run occurs twice.
    RunRepeated = "run_repeated",
    /// An `ext/` entry differs from what `archive.json` declares.
    ExtensionUndeclared = "extension_undeclared",

    /// The manifest does not list exactly the entries before it.
    ManifestEntries = "manifest_entries",
    /// An entry differs from the manifest.
    ManifestDigest = "manifest_digest",
    /// The manifest's counts are wrong.
    ManifestCounts = "manifest_counts",
    /// The signature cannot be read.
    SignatureFormat = "signature_format",
    /// The signature does not fit the manifest.
    SignatureInvalid = "signature_invalid",
    /// The archive is signed with a key the reader does not trust.
    SignatureForeign = "signature_foreign",
    /// The archive is not signed.
    SignatureMissing = "signature_missing",

    /// The archive is no longer the one that was verified.
    ChangedSinceVerified = "changed_since_verified",
}

/// A refusal: which entry, which rule, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry}: {detail}")]
pub struct Refusal {
    pub rule: Rule,
    /// The name of the entry, or `the file`, `the tar stream`.
    pub entry: String,
    pub detail: String,
}

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive is refused: {0}")]
    Refused(#[from] Refusal),
    /// The archive may be sound; its bytes could not be had.
    #[error("the archive could not be read")]
    Read(#[source] io::Error),
    #[error("what was extracted could not be written")]
    Write(#[source] io::Error),
    /// The archive has no such version.
    #[error("the archive holds no version {seq}")]
    NoSuchVersion { seq: u64 },
    /// The caller asked to stop.
    #[error("reading the archive was stopped")]
    Stopped,
}

impl ArchiveError {
    /// The rule that was broken, if that is the reason.
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Refused(refusal) => Some(refusal.rule),
            _ => None,
        }
    }
}

/// A broken rule before it is known which entry it was found in.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            detail: detail.into(),
        }
    }

    pub(crate) fn at(self, entry: impl fmt::Display) -> ArchiveError {
        ArchiveError::Refused(Refusal {
            rule: self.rule,
            entry: entry.to_string(),
            detail: self.detail,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_plain() {
        let mut codes: Vec<_> = Rule::ALL.iter().map(|rule| rule.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Rule::ALL.len());
        let plain = |code: &&str| {
            code.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        assert!(codes.iter().all(plain));
    }
}
