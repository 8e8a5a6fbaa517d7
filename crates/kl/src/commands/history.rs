//! `kl history`: the versions of a state, newest first.

use protocol::states::{Version, VersionSource};
use serde::Serialize;

use super::{Context, status};
use crate::cli::HistoryArgs;
use crate::failure::Result;
use crate::output::table::Table;
use crate::output::time::stamp;

#[derive(Serialize)]
struct View {
    versions: Vec<Version>,
}

/// Pages are asked for no larger than the server gives.
const LARGEST_PAGE: usize = 1_000;

pub(super) async fn run(args: HistoryArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let wanted = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    let mut versions = Vec::new();
    let mut cursor = None;
    while versions.len() < wanted {
        let limit = (wanted - versions.len()).min(LARGEST_PAGE);
        let page = client
            .list_versions(&state, Some(limit), cursor.as_deref())
            .await
            .map_err(|error| status::unreadable(error.into(), &state))?;
        versions.extend(page.versions);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    versions.truncate(wanted);
    let more = cursor.is_some() && versions.len() == wanted;
    let view = View { versions };
    context.printer.result(&view, || text(&view.versions))?;
    if more && !context.printer.wants_json() {
        context
            .printer
            .note("older versions are not shown; `--limit 0` shows all");
    }
    Ok(())
}

fn text(versions: &[Version]) -> String {
    let mut table = Table::new(&[
        "VERSION",
        "SERIAL",
        "WRITTEN",
        "BY",
        "HOW",
        "RUN",
        "RESOURCES",
        "BYTES",
    ]);
    for version in versions {
        table.row([
            version.seq.to_string(),
            version
                .serial
                .map_or_else(|| "-".to_owned(), |serial| serial.to_string()),
            stamp(version.created_at),
            version.created_by.clone(),
            how(version),
            version
                .run
                .as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string),
            resources(version),
            version
                .size_bytes
                .map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
        ]);
    }
    table.finish()
}

fn how(version: &Version) -> String {
    let source = match version.source {
        VersionSource::Terraform => "terraform",
        VersionSource::Native => "kl",
        VersionSource::Rollback => "rollback",
        VersionSource::Import => "import",
        VersionSource::Archive => "archive",
    };
    let mut text = match &version.command {
        Some(command) => format!("{source}: {command}"),
        None => source.to_owned(),
    };
    if version.forced {
        text.push_str(", forced");
    }
    if version.unlocked {
        text.push_str(", unlocked");
    }
    text
}

/// `42`, or `40 -> 0` where the count changed: a state that was emptied stands out.
fn resources(version: &Version) -> String {
    match version.previous_instance_count {
        Some(before) if before != version.instance_count => {
            format!("{before} -> {}", version.instance_count)
        }
        _ => version.instance_count.to_string(),
    }
}
