//! `kl archive verify` and `kl archive show`.

use std::fmt::Write as _;

use archive::{Frame, Origin, Verified};

use super::file::{ArchiveFile, Limits, readable};
use crate::cli::{FileArgs, VerifyArgs};
use crate::failure::Result;
use crate::output::Printer;
use crate::output::table::Table;
use crate::output::time::stamp;

pub(super) async fn verify(args: &VerifyArgs, printer: Printer) -> Result<()> {
    let mut limits = Limits::memory_mib(args.archive.memory);
    limits.keys = args
        .keys
        .iter()
        .map(|key| readable(key))
        .collect::<Result<_>>()?;
    let archive = ArchiveFile::open(&args.archive.file, limits, printer).await?;
    printer.result(&*archive.verified, || {
        format!(
            "{} is sound\n{}",
            archive.path.display(),
            summary(&archive.verified)
        )
    })
}

pub(super) async fn show(args: &FileArgs, printer: Printer) -> Result<()> {
    let archive = ArchiveFile::open(&args.file, Limits::memory_mib(args.memory), printer).await?;
    printer.result(&*archive.verified, || {
        let mut text = summary(&archive.verified);
        text.push('\n');
        text.push_str(&versions(&archive.verified));
        text
    })
}

/// What an archive is of, and who vouches for it.
pub(crate) fn summary(verified: &Verified) -> String {
    let (info, counts) = (&verified.info, verified.counts);
    let mut table = Table::without_headings();
    table.pair(
        "state",
        format!(
            "{} of {}/{}",
            info.state.name, info.state.workspace, info.state.environment
        ),
    );
    table.pair(
        "exported",
        format!(
            "{} by {}, with {}",
            stamp(info.exported_at),
            info.exported_by,
            info.writer
        ),
    );
    table.pair(
        "versions",
        format!(
            "{}, numbers {} to {}: {} whole, {} as changes",
            counts.versions,
            info.versions.first,
            info.versions.last,
            counts.key_frames,
            counts.deltas
        ),
    );
    let serial = info.state.serial.map(|serial| serial.to_string());
    table.pair(
        "head",
        format!(
            "serial {}, lineage {}",
            serial.as_deref().unwrap_or("-"),
            info.state.lineage.as_deref().unwrap_or("-")
        ),
    );
    table.pair("documents", format!("{} bytes", counts.document_bytes));
    table.pair("tags", tags(verified));
    table.pair("runs", counts.runs.to_string());
    table.pair("signature", origin(&verified.origin));
    table.pair("content", format!("sha256 {}", verified.content_sha256));
    table.finish()
}

fn tags(verified: &Verified) -> String {
    if verified.tags.is_empty() {
        return "none".to_owned();
    }
    let mut text = String::new();
    for tag in &verified.tags {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        _ = write!(text, "{comma}{} = {}", tag.name, tag.seq);
    }
    text
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Trusted { key_id } => format!("by key {key_id}, which is trusted"),
        Origin::Foreign { key_id, .. } => {
            format!("by key {key_id}; `kl archive verify --key` says whether it is the right one")
        }
        Origin::Unsigned => "none".to_owned(),
    }
}

fn versions(verified: &Verified) -> String {
    let mut table = Table::new(&["VERSION", "SERIAL", "WRITTEN", "BY", "HOW", "BYTES", "TAGS"]);
    for entry in verified.versions.iter().rev() {
        let meta = &entry.meta;
        let names: Vec<&str> = verified
            .tags
            .iter()
            .filter(|tag| tag.seq == meta.seq)
            .map(|tag| tag.name.as_str())
            .collect();
        let frame = match entry.frame {
            Frame::Key => "whole",
            Frame::Delta => "changes",
        };
        table.row([
            meta.seq.to_string(),
            meta.serial
                .map_or_else(|| "-".to_owned(), |serial| serial.to_string()),
            stamp(meta.created_at),
            meta.created_by.clone(),
            format!("{}, {frame}", meta.source),
            meta.bytes.to_string(),
            names.join(" "),
        ]);
    }
    table.finish()
}
