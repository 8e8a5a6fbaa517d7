//! `kl archive diff`: two archives, or two versions of one.

use std::fmt::Write as _;
use std::path::Path;

use archive::{ArchiveDiff, VersionDiff, diff_archives, diff_versions};
use serde::Serialize;

use super::file::{ArchiveFile, Limits};
use crate::cli::DiffArgs;
use crate::failure::Result;
use crate::output::{Printer, plain};

#[derive(Serialize)]
struct View<'a> {
    equal: bool,
    #[serde(flatten)]
    diff: &'a ArchiveDiff,
}

pub(super) async fn run(args: &DiffArgs, printer: Printer) -> Result<()> {
    let limits = Limits::memory_mib(args.archive.memory);
    let left = ArchiveFile::open(&args.archive.file, limits.clone(), printer).await?;
    match (&args.other, &args.from) {
        (Some(other), _) => archives(&left, other, limits, printer).await,
        (None, from) => {
            let from = left.version(from.as_deref().unwrap_or("head"))?;
            let to = left.version(&args.to)?;
            versions(&left, from, to, printer).await
        }
    }
}

async fn archives(
    left: &ArchiveFile,
    other: &Path,
    limits: Limits,
    printer: Printer,
) -> Result<()> {
    let right = ArchiveFile::open(other, limits, printer).await?;
    let diff = diff_archives(&left.verified, &right.verified);
    let view = View {
        equal: diff.is_empty(),
        diff: &diff,
    };
    printer.result(&view, || archives_text(left, &right, &diff))
}

fn archives_text(left: &ArchiveFile, right: &ArchiveFile, diff: &ArchiveDiff) -> String {
    if diff.is_empty() {
        return format!(
            "{} and {} hold the same history: {} versions, content sha256 {}\n",
            left.path.display(),
            right.path.display(),
            left.verified.counts.versions,
            left.verified.content_sha256
        );
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (seqs, path) in [
        (&diff.only_left, &left.path),
        (&diff.only_right, &right.path),
    ] {
        for seq in seqs {
            _ = writeln!(text, "version {seq} is only in {}", path.display());
        }
    }
    for changed in &diff.changed {
        _ = writeln!(
            text,
            "version {} differs in {}",
            changed.seq,
            changed.members.join(", ")
        );
    }
    for tag in &diff.tags {
        _ = writeln!(text, "tag {} differs", plain(tag));
    }
    text
}

async fn versions(archive: &ArchiveFile, from: u64, to: u64, printer: Printer) -> Result<()> {
    let diff = archive
        .read("comparing", printer, move |file, verified, policy| {
            diff_versions(file, verified, policy, from, to)
        })
        .await?;
    printer.result(&diff, || versions_text(from, to, &diff))
}

fn versions_text(from: u64, to: u64, diff: &VersionDiff) -> String {
    if diff.opaque {
        return format!(
            "one of the versions {from} and {to} is encrypted or not readable: nothing more is known\n"
        );
    }
    let mut text = String::new();
    let groups = [
        ('+', "", &diff.added),
        ('~', "", &diff.changed),
        ('-', "", &diff.removed),
        ('+', "output ", &diff.outputs_added),
        ('~', "output ", &diff.outputs_changed),
        ('-', "output ", &diff.outputs_removed),
    ];
    for (sign, what, names) in groups {
        for name in names {
            // Writing to a String cannot fail.
            _ = writeln!(text, "{sign} {what}{}", plain(name));
        }
    }
    if text.is_empty() {
        text = format!("versions {from} and {to} hold the same resources and outputs\n");
    }
    text
}
