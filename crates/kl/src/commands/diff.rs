//! `kl diff`: which addresses differ between two versions.

use protocol::states::Version;
use serde::Serialize;

use super::version_ref::VersionRef;
use super::{Context, rollback, status};
use crate::cli::VersionDiffArgs;
use crate::failure::Result;
use crate::output::plain;

#[derive(Serialize)]
struct View {
    from: Version,
    to: Version,
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

pub(super) async fn run(args: VersionDiffArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let (from, to) = (VersionRef::parse(&args.from)?, VersionRef::parse(&args.to)?);
    let unreadable = |error: crate::client::ApiError| status::unreadable(error.into(), &state);
    let from = client
        .get_version(&state, from.as_str())
        .await
        .map_err(unreadable)?;
    let to = client
        .get_version(&state, to.as_str())
        .await
        .map_err(unreadable)?;
    let (added, changed, removed) = rollback::differences(&client, &state, &from, &to)
        .await
        .map_err(unreadable)?;
    let view = View {
        from,
        to,
        added,
        changed,
        removed,
    };
    context.printer.result(&view, || text(&view))
}

fn text(view: &View) -> String {
    let mut text = format!(
        "version {} to {}: {} added, {} changed, {} removed\n",
        view.from.seq,
        view.to.seq,
        view.added.len(),
        view.changed.len(),
        view.removed.len()
    );
    for (sign, addresses) in [
        ("+", &view.added),
        ("~", &view.changed),
        ("-", &view.removed),
    ] {
        for address in addresses {
            text.push_str(&format!("  {sign} {}\n", plain(address)));
        }
    }
    text
}
