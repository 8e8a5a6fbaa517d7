//! Verifying: one pass over a whole archive, after which it is known to be sound.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use serde::Serialize;
use tfstate::Digest;

use super::entries::Entries;
use super::policy::Policy;
use super::walk::{Proof, VersionEntry, Walk, expect, misplaced, next_entry, read_record};
use crate::format::{EntryName, FORMAT, MAJOR, MAX_ENTRY_BYTES, MAX_LIST_BYTES, MAX_RECORD_BYTES};
use crate::json;
use crate::records::{
    ArchiveInfo, Counts, Frame, Manifest, ManifestEntry, Run, RunList, Tag, TagList, hex,
};
use crate::refusal::{ArchiveError, Fault, Rule};
use crate::sign::{self, Origin};

/// A sound archive: every size, digest, count and order was right, every version renders to its
/// SHA-256, and the signature is one the policy allows.
///
/// It vouches for those bytes only: [`read_versions`](crate::read_versions) refuses a file that has
/// changed since.
#[derive(Debug, Clone, Serialize)]
pub struct Verified {
    #[serde(flatten)]
    pub info: ArchiveInfo,
    pub origin: Origin,
    pub counts: Counts,
    pub tags: Vec<Tag>,
    pub runs: Vec<Run>,
    #[serde(rename = "history")]
    pub versions: Vec<VersionEntry>,
    /// Bytes of the tar stream.
    pub unpacked_bytes: u64,
    /// SHA-256 over the content: equal for two archives that hold the same history, whatever ids
    /// the state and its versions have there.
    #[serde(with = "hex")]
    pub content_sha256: Digest,
    /// SHA-256 of the file up to its seal.
    #[serde(with = "hex")]
    pub file_sha256: Digest,
    #[serde(skip)]
    pub(crate) entries: Vec<ManifestEntry>,
    /// Whether every version was rendered.
    #[serde(skip)]
    pub(crate) is_proven: bool,
}

/// Reads an archive from beginning to end and checks everything.
///
/// Memory is that of one document, see [`Policy::memory_bytes`]; time grows with the documents'
/// sizes, because each is rendered once.
///
/// # Errors
/// The first broken rule, with the entry it was found in. Nothing read before it may be used.
pub fn verify<R: Read>(file: R, policy: &Policy<'_>) -> Result<Verified, ArchiveError> {
    read_all(file, policy, Proof::Render)
}

/// The same, but for one thing: versions that are stored as deltas are not rendered. That is the longest part, and whoever
/// reads the versions next has it done on the way: [`read_versions`](crate::read_versions) refuses what does not render to
/// its SHA-256, at the latest instead of its end.
///
/// # Errors
/// As [`verify`].
pub fn inspect<R: Read>(file: R, policy: &Policy<'_>) -> Result<Verified, ArchiveError> {
    read_all(file, policy, Proof::Skip)
}

fn read_all<R: Read>(file: R, policy: &Policy<'_>, proof: Proof) -> Result<Verified, ArchiveError> {
    let mut walk = Walk::open(file, *policy, None, proof)?;
    while walk.next_version()?.is_some() {}
    let (mut entries, info, versions, document_bytes) = walk.into_parts();
    let tags = read_tags(&mut entries, &versions)?;
    let (runs, next) = read_runs(&mut entries, &versions)?;
    let (name, size) = read_extensions(&mut entries, &info, next)?;
    if name != EntryName::Manifest {
        return Err(misplaced(&entries, &name, "manifest.json"));
    }
    let manifest_bytes = read_record(&mut entries, &name, size, MAX_LIST_BYTES)?;
    let key_frames = versions
        .iter()
        .filter(|entry| entry.frame == Frame::Key)
        .count() as u64;
    let counts = Counts {
        versions: versions.len() as u64,
        key_frames,
        deltas: versions.len() as u64 - key_frames,
        tags: tags.len() as u64,
        runs: runs.len() as u64,
        ext: info.ext.len() as u64,
        document_bytes,
    };
    let before_manifest = entries.seen.len() - 1;
    check_manifest(
        &manifest_bytes,
        &info,
        counts,
        &entries.seen[..before_manifest],
    )?;
    let size = expect(&mut entries, &EntryName::Signature)?;
    let signature = read_record(&mut entries, &EntryName::Signature, size, MAX_RECORD_BYTES)?;
    let origin = sign::check(&signature, &manifest_bytes, policy.trusted, policy.origin)
        .map_err(|fault| fault.at(EntryName::Signature))?;
    if let Some((name, _)) = entries.next()? {
        return Err(misplaced(&entries, &name, "the end of the archive"));
    }
    if entries.seen.len() as u64 - 1 != info.entries {
        let detail = format!(
            "{} entries follow, {} are declared",
            entries.seen.len() - 1,
            info.entries
        );
        return Err(Fault::new(Rule::EntryCount, detail).at(EntryName::Archive));
    }
    let seen = std::mem::take(&mut entries.seen);
    let unpacked_bytes = entries.unpacked();
    Ok(Verified {
        content_sha256: content_digest(&versions, &tags),
        file_sha256: entries.finish()?,
        info,
        origin,
        counts,
        tags,
        runs,
        versions,
        unpacked_bytes,
        entries: seen,
        is_proven: proof == Proof::Render,
    })
}

fn read_tags<R: Read>(
    entries: &mut Entries<R>,
    versions: &[VersionEntry],
) -> Result<Vec<Tag>, ArchiveError> {
    let name = EntryName::Tags;
    let size = expect(entries, &name)?;
    let bytes = read_record(entries, &name, size, MAX_LIST_BYTES)?;
    let TagList { tags } =
        json::read::<TagList<Vec<Tag>>>(&bytes).map_err(|fault| fault.at(&name))?;
    check_tags(&tags, versions).map_err(|fault| fault.at(&name))?;
    Ok(tags)
}

fn check_tags(tags: &[Tag], versions: &[VersionEntry]) -> Result<(), Fault> {
    let frames: HashMap<u64, Frame> = versions
        .iter()
        .map(|entry| (entry.meta.seq, entry.frame))
        .collect();
    let mut names = HashSet::new();
    for Tag { name, seq, .. } in tags {
        match frames.get(seq) {
            Some(Frame::Key) => {}
            Some(Frame::Delta) => {
                let detail = format!("version {seq} is tagged {name:?}, so it must be a key frame");
                return Err(Fault::new(Rule::KeyFrameRequired, detail));
            }
            None => {
                let detail =
                    format!("tag {name:?} names version {seq}, which is not in the archive");
                return Err(Fault::new(Rule::TagDangling, detail));
            }
        }
        if !names.insert(name) {
            return Err(Fault::new(
                Rule::TagRepeated,
                format!("tag {name:?} occurs twice"),
            ));
        }
    }
    Ok(())
}

/// Reads `runs.json` if it is next; returns the entry after it.
fn read_runs<R: Read>(
    entries: &mut Entries<R>,
    versions: &[VersionEntry],
) -> Result<(Vec<Run>, (EntryName, u64)), ArchiveError> {
    let (name, size) = next_entry(entries, "manifest.json")?;
    if name != EntryName::Runs {
        return Ok((Vec::new(), (name, size)));
    }
    let bytes = read_record(entries, &name, size, MAX_LIST_BYTES)?;
    let RunList { runs } =
        json::read::<RunList<Vec<Run>>>(&bytes).map_err(|fault| fault.at(&name))?;
    check_runs(&runs, versions).map_err(|fault| fault.at(&name))?;
    Ok((runs, next_entry(entries, "manifest.json")?))
}

fn check_runs(runs: &[Run], versions: &[VersionEntry]) -> Result<(), Fault> {
    let made_by: HashMap<u64, Option<&str>> = versions
        .iter()
        .map(|entry| (entry.meta.seq, entry.meta.run.as_deref()))
        .collect();
    let mut ids = HashSet::new();
    for run in runs {
        if !ids.insert(&run.id) {
            return Err(Fault::new(
                Rule::RunRepeated,
                format!("run {:?} occurs twice", run.id),
            ));
        }
        let stray = run
            .versions
            .iter()
            .find(|seq| made_by.get(seq) != Some(&Some(&*run.id)));
        if let Some(seq) = stray {
            let detail = format!(
                "run {:?} claims version {seq}, which it did not make",
                run.id
            );
            return Err(Fault::new(Rule::RunDangling, detail));
        }
    }
    Ok(())
}

/// Steps over the `ext/` entries, which must be those declared; returns the entry after them.
fn read_extensions<R: Read>(
    entries: &mut Entries<R>,
    info: &ArchiveInfo,
    mut next: (EntryName, u64),
) -> Result<(EntryName, u64), ArchiveError> {
    let mut declared = info.ext.iter();
    loop {
        let wanted = declared.next();
        match (&next, wanted) {
            ((EntryName::Extension(name), size), Some(wanted)) if name == wanted => {
                if *size > MAX_ENTRY_BYTES {
                    let detail = format!("an entry has at most {MAX_ENTRY_BYTES} bytes");
                    return Err(Fault::new(Rule::EntryTooLarge, detail).at(name));
                }
                entries.content(|_| Ok(()))?;
            }
            ((name @ EntryName::Extension(_), _), _) => {
                let detail = "archive.json does not declare this entry here";
                return Err(Fault::new(Rule::ExtensionUndeclared, detail).at(name));
            }
            (_, Some(wanted)) => {
                let detail = "archive.json declares this entry, but it is not there";
                return Err(Fault::new(Rule::EntryMissing, detail).at(wanted));
            }
            (_, None) => return Ok(next),
        }
        next = next_entry(entries, "manifest.json")?;
    }
}

fn check_manifest(
    bytes: &[u8],
    info: &ArchiveInfo,
    counts: Counts,
    seen: &[ManifestEntry],
) -> Result<(), ArchiveError> {
    let name = EntryName::Manifest;
    let manifest: Manifest = json::read(bytes).map_err(|fault| fault.at(&name))?;
    if (&*manifest.format, manifest.major, manifest.minor) != (FORMAT, MAJOR, info.minor) {
        let detail = "the manifest is of another format than archive.json";
        return Err(Fault::new(Rule::ArchiveContradiction, detail).at(&name));
    }
    let listed = manifest.entries.iter().map(|entry| &entry.name);
    if !listed.eq(seen.iter().map(|entry| &entry.name)) {
        let detail = "the manifest does not list exactly the entries before it";
        return Err(Fault::new(Rule::ManifestEntries, detail).at(&name));
    }
    if let Some((_, wrong)) = manifest
        .entries
        .iter()
        .zip(seen)
        .find(|(listed, seen)| listed != seen)
    {
        let detail = "the entry is not the one the manifest lists";
        return Err(Fault::new(Rule::ManifestDigest, detail).at(&wrong.name));
    }
    if manifest.counts != counts {
        let detail = "the manifest's counts are not those of the archive";
        return Err(Fault::new(Rule::ManifestCounts, detail).at(&name));
    }
    Ok(())
}

/// What must survive an export, an import elsewhere and another export.
fn content_digest(versions: &[VersionEntry], tags: &[Tag]) -> Digest {
    #[derive(Serialize)]
    struct Content<'a> {
        seq: u64,
        #[serde(with = "hex")]
        sha256: Digest,
        source: &'a str,
        created_at: String,
        created_by: &'a str,
        forced: bool,
        unlocked: bool,
    }
    let mut text = String::new();
    let mut push = |line: Result<String, serde_json::Error>| {
        // Plain structs of texts and numbers always serialise.
        text.push_str(&line.unwrap_or_default());
        text.push('\n');
    };
    for VersionEntry { meta, .. } in versions {
        push(serde_json::to_string(&Content {
            seq: meta.seq,
            sha256: meta.sha256,
            source: &meta.source,
            created_at: meta.created_at.to_rfc3339(),
            created_by: &meta.created_by,
            forced: meta.forced,
            unlocked: meta.unlocked,
        }));
    }
    let mut tags: Vec<&Tag> = tags.iter().collect();
    tags.sort_by(|a, b| a.name.cmp(&b.name));
    tags.into_iter()
        .for_each(|tag| push(serde_json::to_string(tag)));
    Digest::of(text.as_bytes())
}
