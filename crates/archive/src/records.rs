//! The JSON entries of an archive, as types. `docs/archive-format.md` describes each member.
//!
//! Members a reader does not know are ignored: a later minor may add some. What the members must
//! satisfy together is checked in `read`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tfstate::Digest;

/// `archive.json`: what this archive is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveInfo {
    /// [`FORMAT`](crate::FORMAT).
    pub format: String,
    pub minor: u32,
    /// The program that wrote it, with its version.
    pub writer: String,
    pub exported_at: DateTime<Utc>,
    /// The name of who asked for it.
    pub exported_by: String,
    pub state: StateInfo,
    pub versions: VersionRange,
    /// How many entries follow this one.
    pub entries: u64,
    /// The whole tar stream has at most so many bytes.
    pub max_bytes: u64,
    /// The names of the `ext/` entries, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext: Vec<String>,
}

/// Which state an archive is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateInfo {
    pub workspace: String,
    pub environment: String,
    pub name: String,
    pub id: String,
    /// The number, id, serial and lineage of its newest version.
    pub head_seq: u64,
    pub head_id: String,
    pub serial: Option<u64>,
    pub lineage: Option<String>,
}

/// The versions that follow: how many, and their numbers. Numbers may be missing in between, where
/// history was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    pub count: u64,
    pub first: u64,
    pub last: u64,
}

/// A version without its document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VersionMeta {
    pub seq: u64,
    pub id: String,
    /// Absent where the document shows none, as an encrypted one.
    pub serial: Option<u64>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    /// How it came to be: `terraform`, `native`, `rollback`, `import`.
    pub source: String,
    pub created_at: DateTime<Utc>,
    /// The author's name at the time. It is text, never a principal.
    pub created_by: String,
    /// The run that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Whether serial or lineage did not follow from the version before (`state push -force`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub forced: bool,
    /// Whether it was written without a lock.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unlocked: bool,
    /// Whether the document is not what rendering gives, so that its bytes were kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verbatim: bool,
    /// Size and SHA-256 of the document.
    pub bytes: u64,
    #[serde(with = "hex")]
    pub sha256: Digest,
    /// Where it was imported from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<RawValue>>,
}

/// What follows a version's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// The document.
    Key,
    /// The changes against the version before.
    Delta,
}

/// `versions/<seq>.json` as it is written; it is read as a [`FrameRecord`] and a [`VersionMeta`].
#[derive(Serialize)]
pub(crate) struct VersionRecord<'a> {
    pub(crate) frame: Frame,
    #[serde(flatten)]
    pub(crate) meta: &'a VersionMeta,
}

/// What `versions/<seq>.json` says beside the metadata.
#[derive(Deserialize)]
pub(crate) struct FrameRecord {
    pub(crate) frame: Frame,
}

/// `tags.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TagList<T> {
    pub(crate) tags: T,
}

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub name: String,
    /// The version it names.
    pub seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub created_by: String,
    pub created_at: DateTime<Utc>,
}

/// `runs.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunList<R> {
    pub(crate) runs: R,
}

/// A run that made versions of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    /// `plan`, `apply`, `operation`.
    pub kind: String,
    pub status: String,
    /// The name of who ran it.
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_seq: Option<u64>,
    pub started_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// The versions it made: each names this run.
    pub versions: Vec<u64>,
}

/// `manifest.json`: every entry before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub major: u32,
    pub minor: u32,
    pub counts: Counts,
    pub entries: Vec<ManifestEntry>,
}

/// How much an archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    pub versions: u64,
    pub key_frames: u64,
    pub deltas: u64,
    pub tags: u64,
    pub runs: u64,
    pub ext: u64,
    /// Bytes of all documents together, as if each were written out.
    pub document_bytes: u64,
}

/// One entry of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    pub name: String,
    pub bytes: u64,
    #[serde(with = "hex")]
    pub sha256: Digest,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A SHA-256 as 64 lower-case hex digits.
pub(crate) mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use tfstate::Digest;

    pub(crate) fn serialize<S: Serializer>(digest: &Digest, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(digest)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(input)?;
        decode(&text).ok_or_else(|| D::Error::custom("expected 64 lower-case hex digits"))
    }

    fn decode(text: &str) -> Option<Digest> {
        let mut digest = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Digest(digest))
    }

    fn nibble(digit: u8) -> Option<u8> {
        match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        }
    }
}
