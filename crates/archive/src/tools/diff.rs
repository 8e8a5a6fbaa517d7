//! Comparing: two archives by what they hold, two versions of one archive by their rows.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Serialize;
use tfstate::Digest;

use crate::history::address_of;
use crate::read::{Policy, Verified, Version, VersionContent, read_versions};
use crate::records::{Tag, VersionMeta};
use crate::refusal::ArchiveError;

/// What differs between two archives. Ids may differ: an import gives new ones where it must.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ArchiveDiff {
    /// Numbers of versions that only one of them holds.
    pub only_left: Vec<u64>,
    pub only_right: Vec<u64>,
    /// Versions both hold, with the members in which they differ.
    pub changed: Vec<ChangedVersion>,
    /// Names of tags that are missing on one side, or name other versions or authors.
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedVersion {
    pub seq: u64,
    pub members: Vec<&'static str>,
}

impl ArchiveDiff {
    /// Whether both hold the same history.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two verified archives by their versions and tags.
pub fn diff_archives(left: &Verified, right: &Verified) -> ArchiveDiff {
    let metas = |verified: &Verified| -> BTreeMap<u64, VersionMeta> {
        verified
            .versions
            .iter()
            .map(|entry| (entry.meta.seq, entry.meta.clone()))
            .collect()
    };
    let (left_metas, right_metas) = (metas(left), metas(right));
    let only = |a: &BTreeMap<u64, VersionMeta>, b: &BTreeMap<u64, VersionMeta>| {
        a.keys()
            .filter(|seq| !b.contains_key(seq))
            .copied()
            .collect()
    };
    let changed = |(seq, meta): (&u64, &VersionMeta)| {
        let members = differing(meta, right_metas.get(seq)?);
        (!members.is_empty()).then_some(ChangedVersion { seq: *seq, members })
    };
    let tags = |verified: &Verified| -> BTreeMap<String, Tag> {
        verified
            .tags
            .iter()
            .map(|tag| (tag.name.clone(), tag.clone()))
            .collect()
    };
    let (left_tags, right_tags) = (tags(left), tags(right));
    let mut names: Vec<String> = left_tags
        .iter()
        .filter(|(name, tag)| right_tags.get(*name) != Some(tag))
        .map(|(name, _)| name.clone())
        .chain(
            right_tags
                .keys()
                .filter(|name| !left_tags.contains_key(*name))
                .cloned(),
        )
        .collect();
    names.sort_unstable();
    ArchiveDiff {
        only_left: only(&left_metas, &right_metas),
        only_right: only(&right_metas, &left_metas),
        changed: left_metas.iter().filter_map(changed).collect(),
        tags: names,
    }
}

/// The members in which two versions differ, but for ids and runs.
fn differing(left: &VersionMeta, right: &VersionMeta) -> Vec<&'static str> {
    let same = [
        ("serial", left.serial == right.serial),
        ("lineage", left.lineage == right.lineage),
        (
            "terraform_version",
            left.terraform_version == right.terraform_version,
        ),
        ("source", left.source == right.source),
        ("created_at", left.created_at == right.created_at),
        ("created_by", left.created_by == right.created_by),
        ("forced", left.forced == right.forced),
        ("unlocked", left.unlocked == right.unlocked),
        ("sha256", left.sha256 == right.sha256),
    ];
    same.into_iter()
        .filter(|(_, same)| !same)
        .map(|(member, _)| member)
        .collect()
}

/// What differs between two versions of one archive. Addresses, no values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VersionDiff {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
    pub outputs_added: Vec<String>,
    pub outputs_changed: Vec<String>,
    pub outputs_removed: Vec<String>,
    /// One of the two is no state that can be split into rows; then only this is known.
    pub opaque: bool,
}

/// Compares two versions of a verified archive, in one pass over it.
///
/// # Errors
/// [`ArchiveError::NoSuchVersion`] when the archive does not hold one of them.
pub fn diff_versions<R: Read>(
    file: R,
    verified: &Verified,
    policy: &Policy<'_>,
    from: u64,
    to: u64,
) -> Result<VersionDiff, ArchiveError> {
    for seq in [from, to] {
        if !verified.versions.iter().any(|entry| entry.meta.seq == seq) {
            return Err(ArchiveError::NoSuchVersion { seq });
        }
    }
    let (mut before, mut after) = (None, None);
    let mut versions = read_versions(file, verified, policy)?;
    while before.is_none() || after.is_none() {
        let Some(version) = versions.next_version()? else {
            break;
        };
        let seq = version.entry.meta.seq;
        if seq == from {
            before = Some(Rows::of(&version));
        }
        if seq == to {
            after = Some(Rows::of(&version));
        }
    }
    Ok(match (before.flatten(), after.flatten()) {
        (Some(before), Some(after)) => {
            let [added, changed, removed] = compare(&before.instances, &after.instances, |ord| {
                address_of(ord).map_or_else(String::new, |(address, deposed)| match deposed {
                    None => address,
                    Some(deposed) => format!("{address} (deposed {deposed})"),
                })
            });
            let [outputs_added, outputs_changed, outputs_removed] =
                compare(&before.outputs, &after.outputs, |name| {
                    String::from_utf8_lossy(name).into_owned()
                });
            VersionDiff {
                added,
                changed,
                removed,
                outputs_added,
                outputs_changed,
                outputs_removed,
                opaque: false,
            }
        }
        _ => VersionDiff {
            opaque: true,
            ..VersionDiff::default()
        },
    })
}

type Digests = BTreeMap<Vec<u8>, Digest>;

/// Digests of a version's rows, by place and by name.
struct Rows {
    instances: Digests,
    outputs: Digests,
}

impl Rows {
    /// `None` for a version without rows of its own.
    fn of(version: &Version<'_>) -> Option<Self> {
        match version.content {
            VersionContent::Opaque(_) => None,
            VersionContent::State(_) => Some(Self {
                instances: version
                    .rows()
                    .map(|(ord, digest)| (ord.to_vec(), digest))
                    .collect(),
                outputs: version
                    .outputs()
                    .map(|(name, digest)| (name.as_bytes().to_vec(), digest))
                    .collect(),
            }),
        }
    }
}

/// Names of what was added, changed, removed.
fn compare(before: &Digests, after: &Digests, name: impl Fn(&[u8]) -> String) -> [Vec<String>; 3] {
    let [mut added, mut changed, mut removed] = [const { Vec::new() }; 3];
    for (key, digest) in after {
        match before.get(key) {
            None => added.push(name(key)),
            Some(old) if old != digest => changed.push(name(key)),
            Some(_) => {}
        }
    }
    removed.extend(
        before
            .keys()
            .filter(|key| !after.contains_key(*key))
            .map(|key| name(key)),
    );
    [added, changed, removed]
}
