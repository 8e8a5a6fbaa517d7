//! `archive.json`: whether the archive is one of this format, and what it says of itself.

use std::collections::HashSet;

use crate::format::{
    EntryName, FORMAT, FORMAT_FAMILY, MAX_EXTENSIONS, MAX_SEQ, MAX_VERSIONS, MINOR, OTHER_ENTRIES,
};
use crate::json;
use crate::records::ArchiveInfo;
use crate::refusal::{Fault, Rule};

/// Reads the entry and checks that it does not contradict itself.
pub(super) fn read_info(bytes: &[u8]) -> Result<ArchiveInfo, Fault> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
    }
    let Format { format } = json::read(bytes)?;
    if format != FORMAT {
        return Err(match format.strip_prefix(FORMAT_FAMILY) {
            Some(major) => Fault::new(
                Rule::UnknownMajor,
                format!("this reads {FORMAT}; the archive is of version {major:?}"),
            ),
            None => Fault::new(
                Rule::NotAnArchive,
                format!("{format:?} is no format of Kilolock"),
            ),
        });
    }
    let info: ArchiveInfo = json::read(bytes)?;
    let contradiction = |detail: &str| Err(Fault::new(Rule::ArchiveContradiction, detail));
    let range = info.versions;
    if range.count > MAX_VERSIONS {
        let detail = format!(
            "an archive holds at most {MAX_VERSIONS} versions, not {}",
            range.count
        );
        return Err(Fault::new(Rule::TooManyVersions, detail));
    }
    // Numbers ascend, so there are at least as many as versions from the first to the last.
    let possible = (1..=MAX_SEQ).contains(&range.first)
        && range.first <= range.last
        && range.last <= MAX_SEQ
        && (1..=range.last - range.first + 1).contains(&range.count)
        && (range.count == 1) == (range.first == range.last);
    if !possible {
        return contradiction("the range of versions is none");
    }
    if info.state.head_seq != range.last {
        return contradiction("the head is not the last version");
    }
    check_extensions(&info)?;
    // `runs.json` may be there or not.
    let least = 2 * range.count + OTHER_ENTRIES - 2 + info.ext.len() as u64;
    if !(least..=least + 1).contains(&info.entries) {
        let detail = format!(
            "{} versions do not make {} entries",
            range.count, info.entries
        );
        return Err(Fault::new(Rule::EntryCount, detail));
    }
    Ok(info)
}

fn check_extensions(info: &ArchiveInfo) -> Result<(), Fault> {
    let undeclared = |detail: String| Err(Fault::new(Rule::ExtensionUndeclared, detail));
    if info.minor == MINOR && !info.ext.is_empty() {
        return undeclared(format!("minor {MINOR} has no ext/ entries"));
    }
    if info.ext.len() > MAX_EXTENSIONS {
        return undeclared(format!(
            "an archive has at most {MAX_EXTENSIONS} ext/ entries"
        ));
    }
    let mut seen = HashSet::new();
    for name in &info.ext {
        if !matches!(EntryName::parse(name), Some(EntryName::Extension(_))) {
            return undeclared(format!("{name:?} is no name of an ext/ entry"));
        }
        if !seen.insert(name) {
            return undeclared(format!("{name:?} is declared twice"));
        }
    }
    Ok(())
}
