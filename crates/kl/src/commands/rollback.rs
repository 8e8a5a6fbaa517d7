//! `kl rollback`: an old version made current again, after a look at what that changes.

use std::collections::BTreeMap;

use protocol::states::{ResourceSummary, RollbackAnswer, Version};
use serde::Serialize;

use super::version_ref::VersionRef;
use super::{Context, pages, status};
use crate::cli::RollbackArgs;
use crate::client::{ApiError, Client};
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::output::plain;

#[derive(Serialize)]
struct View {
    current: Version,
    target: Version,
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
    applied: Option<RollbackAnswer>,
}

pub(super) async fn run(args: RollbackArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let to = VersionRef::parse(&args.to)?;
    let find = async |version: &str| client.get_version(&state, version).await;
    let unreadable = |failure| status::unreadable(failure, &state);
    let current = find("head")
        .await
        .map_err(|error| unreadable(error.into()))?;
    let target = find(to.as_str())
        .await
        .map_err(|error| unreadable(error.into()))?;
    if target.seq == current.seq {
        return Err(Failure::failed(format!(
            "version {} of state `{}` is the current one; there is nothing to roll back",
            current.seq, state.state
        ))
        .hint("run `kl history` for older versions"));
    }
    let mut view = compare(&client, &state, current, target)
        .await
        .map_err(|error| unreadable(error.into()))?;
    if args.apply {
        let applied = client
            .roll_back(&state, &view.target.seq.to_string())
            .await
            .map_err(|error| {
                Failure::from(error).context(format!(
                    "could not roll state `{}` back to version {}",
                    state.state, view.target.seq
                ))
            })?;
        view.applied = Some(applied);
    }
    context.printer.result(&view, || text(&view, &state))?;
    if view.applied.is_none() && !context.printer.wants_json() {
        context
            .printer
            .note("nothing was changed; add `--apply` to do it");
    }
    Ok(())
}

async fn compare(
    client: &Client,
    state: &StateAddress,
    current: Version,
    target: Version,
) -> Result<View, ApiError> {
    let (added, changed, removed) = differences(client, state, &current, &target).await?;
    Ok(View {
        added,
        changed,
        removed,
        current,
        target,
        applied: None,
    })
}

/// What a version has that another has not, what differs, and what it has no more. An instance that
/// did not change between two versions is one and the same row in both, so the version it dates from
/// tells, and no value has to be read.
pub(super) async fn differences(
    client: &Client,
    state: &StateAddress,
    from: &Version,
    to: &Version,
) -> Result<(Vec<String>, Vec<String>, Vec<String>), ApiError> {
    let before = instances(client, state, from).await?;
    let mut after = instances(client, state, to).await?;
    let (mut changed, mut removed) = (Vec::new(), Vec::new());
    for (key, since) in before {
        match after.remove(&key) {
            None => removed.push(label(&key)),
            Some(then) if then != since => changed.push(label(&key)),
            Some(_) => {}
        }
    }
    Ok((after.keys().map(label).collect(), changed, removed))
}

/// An address, and the key of a deposed object where it is one.
type Key = (String, Option<String>);

async fn instances(
    client: &Client,
    state: &StateAddress,
    version: &Version,
) -> Result<BTreeMap<Key, i64>, ApiError> {
    let seq = version.seq.to_string();
    let resources: Vec<ResourceSummary> = pages::all(async |cursor| {
        let page = client
            .list_resources(state, &seq, cursor.as_deref())
            .await?;
        Ok((page.resources, page.next_cursor))
    })
    .await?;
    Ok(resources
        .into_iter()
        .map(|resource| ((resource.address, resource.deposed), resource.since_seq))
        .collect())
}

fn label((address, deposed): &Key) -> String {
    match deposed {
        Some(deposed) => format!("{address} (deposed object {deposed})"),
        None => address.clone(),
    }
}

fn text(view: &View, state: &StateAddress) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&plain(&line));
        text.push('\n');
    };
    line(match &view.applied {
        None => format!(
            "state {}: from version {} back to the content of version {}",
            state.state,
            with_serial(&view.current),
            with_serial(&view.target)
        ),
        Some(applied) => format!(
            "state {}: version {} (serial {}) has the content of version {}; it was version {}",
            state.state,
            applied.seq,
            applied.serial,
            with_serial(&view.target),
            with_serial(&view.current)
        ),
    });
    for (sign, addresses) in [
        ("+", &view.added),
        ("~", &view.changed),
        ("-", &view.removed),
    ] {
        for address in addresses {
            line(format!("  {sign} {address}"));
        }
    }
    line(format!(
        "{} to come back, {} to change, {} to go from the state; infrastructure is not touched",
        view.added.len(),
        view.changed.len(),
        view.removed.len()
    ));
    text
}

fn with_serial(version: &Version) -> String {
    match version.serial {
        Some(serial) => format!("{} (serial {serial})", version.seq),
        None => version.seq.to_string(),
    }
}
