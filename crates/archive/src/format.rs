//! The format in constants: its names, its limits, and which versions are key frames.
//!
//! What an entry holds is in `records`, `delta` and `docs/archive-format.md`.

use std::fmt;

/// The identifier in `archive.json` and `manifest.json`. Another number after `/v` is another
/// major, which this crate refuses.
pub const FORMAT: &str = "kilolock-state-archive/v1";

/// What every major's identifier begins with.
pub(crate) const FORMAT_FAMILY: &str = "kilolock-state-archive/v";

/// The major this crate reads and writes.
pub const MAJOR: u32 = 1;

/// The minor this crate writes. It reads every minor of its major.
pub const MINOR: u32 = 0;

/// The extension of an archive's file name, without the dot.
pub const EXTENSION: &str = "klstate";

/// The largest zstd window, as a power of two: what `tar --zstd -xf` opens without a flag.
pub const MAX_WINDOW_LOG: u32 = 27;

/// The window this crate writes with. Both sides hold it in memory; twice as large gains a key frame of 50 MB a fourth of its
/// size, and costs each of them 64 MiB.
pub(crate) const WINDOW_LOG: u32 = 26;

/// The largest entry: the largest state document the service takes.
pub const MAX_ENTRY_BYTES: u64 = 512 << 20;

/// The largest delta. Both sides hold one in memory; a change beyond it is written as a key frame.
pub const MAX_DELTA_BYTES: u64 = 64 << 20;

/// A delta up to this size may be larger than its document; beyond it, the document is written.
pub(crate) const SMALL_DELTA_BYTES: u64 = 64 << 10;

/// The largest `archive.json`, `versions/<seq>.json` and `manifest.sig`, which are read whole.
pub const MAX_RECORD_BYTES: u64 = 64 << 10;

/// The largest `tags.json`, `runs.json` and `manifest.json`, which grow with the history: five
/// times what ten thousand versions need.
pub const MAX_LIST_BYTES: u64 = 16 << 20;

/// Most versions of one archive.
pub const MAX_VERSIONS: u64 = 10_000;

/// Most `ext/` entries an archive may declare.
pub const MAX_EXTENSIONS: usize = 1_000;

/// Deepest nesting of JSON that this format defines. Documents are not bound by it: a state may
/// nest as deep as Terraform reads.
pub const MAX_JSON_DEPTH: usize = 128;

/// Every so manyth version is a key frame, so that no version costs more than this many deltas.
pub const KEY_FRAME_EVERY: u64 = 100;

/// Entries beside two for each version and those in `ext/`: `archive.json`, `tags.json`,
/// `runs.json`, `manifest.json`, `manifest.sig`.
pub(crate) const OTHER_ENTRIES: u64 = 5;

/// Longest name of an `ext/` entry after the slash.
const MAX_EXTENSION_NAME: usize = 64;

/// Where a version stands in its archive, as far as the kind of its frame depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Versions before it in the archive.
    pub position: u64,
    /// Versions of the archive.
    pub count: u64,
    /// Whether a tag names it.
    pub tagged: bool,
    /// Whether its document is not what rendering gives.
    pub verbatim: bool,
    /// Whether that is so for the version before it.
    pub after_verbatim: bool,
}

impl Standing {
    /// Whether the version must be a key frame. Any other may be one, and is when its delta would
    /// be too large.
    pub fn needs_key_frame(self) -> bool {
        self.position.is_multiple_of(KEY_FRAME_EVERY)
            || self.position + 1 == self.count
            || self.tagged
            || self.verbatim
            || self.after_verbatim
    }
}

/// An upper bound for the tar stream of an archive without `ext/` whose documents have
/// `document_bytes` together, for [`ArchiveInfo::max_bytes`](crate::ArchiveInfo): an exporter knows
/// no better before it starts.
pub fn bound_of(versions: u64, document_bytes: u64) -> u64 {
    // A version is at most its document or a small delta, its record, two headers and paddings.
    const PER_VERSION: u64 = SMALL_DELTA_BYTES + MAX_RECORD_BYTES + 2 * 1024;
    const ELSE: u64 = 3 * MAX_LIST_BYTES + 2 * MAX_RECORD_BYTES + 16 * 1024;
    document_bytes
        .saturating_add(versions.saturating_mul(PER_VERSION))
        .saturating_add(ELSE)
}

/// The name of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryName {
    Archive,
    /// Metadata of the version with this number.
    Version(u64),
    KeyFrame(u64),
    Delta(u64),
    Tags,
    Runs,
    /// An entry of a later minor.
    Extension(String),
    Manifest,
    Signature,
}

impl EntryName {
    /// The entry of exactly this name, if the format has one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "archive.json" => Self::Archive,
            "tags.json" => Self::Tags,
            "runs.json" => Self::Runs,
            "manifest.json" => Self::Manifest,
            "manifest.sig" => Self::Signature,
            _ => {
                if let Some(rest) = name.strip_prefix("ext/") {
                    return is_extension_name(rest).then(|| Self::Extension(name.to_owned()));
                }
                let (seq, kind) = name.strip_prefix("versions/")?.split_once('.')?;
                let seq = read_seq(seq)?;
                match kind {
                    "json" => Self::Version(seq),
                    "tfstate.json" => Self::KeyFrame(seq),
                    "delta.jsonl" => Self::Delta(seq),
                    _ => return None,
                }
            }
        })
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive => f.write_str("archive.json"),
            Self::Version(seq) => write!(f, "versions/{seq}.json"),
            Self::KeyFrame(seq) => write!(f, "versions/{seq}.tfstate.json"),
            Self::Delta(seq) => write!(f, "versions/{seq}.delta.jsonl"),
            Self::Tags => f.write_str("tags.json"),
            Self::Runs => f.write_str("runs.json"),
            Self::Extension(name) => f.write_str(name),
            Self::Manifest => f.write_str("manifest.json"),
            Self::Signature => f.write_str("manifest.sig"),
        }
    }
}

/// Whether `ext/<name>` may name an entry: lower-case letters, digits, and `._-` not in front.
fn is_extension_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_EXTENSION_NAME
        && name.bytes().next().is_some_and(plain)
        && name
            .bytes()
            .all(|byte| plain(byte) || b"._-".contains(&byte))
}

/// A sequence number in its one spelling: 1 to 2^63-1, no leading zero.
fn read_seq(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let seq: u64 = digits.then(|| text.parse().ok()).flatten()?;
    (seq <= MAX_SEQ).then_some(seq)
}

/// The largest sequence number: what a signed 64-bit column holds.
pub(crate) const MAX_SEQ: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_format_is_read_as_it_is_printed() {
        for name in [
            "archive.json",
            "versions/1.json",
            "versions/9223372036854775807.tfstate.json",
            "versions/120.delta.jsonl",
            "tags.json",
            "runs.json",
            "ext/labels.v2.json",
            "manifest.json",
            "manifest.sig",
        ] {
            assert_eq!(
                EntryName::parse(name)
                    .map(|entry| entry.to_string())
                    .as_deref(),
                Some(name)
            );
        }
    }

    #[test]
    fn other_spellings_are_no_names() {
        for name in [
            "",
            "/archive.json",
            "./archive.json",
            "Archive.json",
            "archive.json/",
            "versions/",
            "versions/0.json",
            "versions/01.json",
            "versions/+1.json",
            "versions/1.tfstate",
            "versions/1.tfstate.json.x",
            "versions/9223372036854775808.json",
            "versions/../1.json",
            "ext/",
            "ext/.hidden",
            "ext/a/b",
            "ext/UPPER",
            "ext/..",
            "states/1.json",
        ] {
            assert_eq!(EntryName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn key_frames_stand_at_both_ends_every_hundredth_and_around_what_is_verbatim() {
        let plain = Standing {
            position: 5,
            count: 300,
            tagged: false,
            verbatim: false,
            after_verbatim: false,
        };
        assert!(!plain.needs_key_frame());
        for standing in [
            Standing {
                position: 0,
                ..plain
            },
            Standing {
                position: 200,
                ..plain
            },
            Standing {
                position: 299,
                ..plain
            },
            Standing {
                tagged: true,
                ..plain
            },
            Standing {
                verbatim: true,
                ..plain
            },
            Standing {
                after_verbatim: true,
                ..plain
            },
        ] {
            assert!(standing.needs_key_frame(), "{standing:?}");
        }
    }
}
