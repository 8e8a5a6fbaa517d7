//! `kl list`: the states of an environment. `kl state list`: the addresses in a state.

use protocol::states::{ResourceSummary, StateSummary};
use serde::Serialize;

use super::addresses::{Filter, Listed};
use super::version_ref::VersionRef;
use super::{Context, pages, status};
use crate::cli::ListArgs;
use crate::failure::{Failure, Result};
use crate::output::plain;
use crate::output::table::Table;
use crate::output::time::ago;

#[derive(Serialize)]
struct States {
    states: Vec<StateSummary>,
}

pub(super) async fn states(context: &Context) -> Result<()> {
    let client = context.client()?;
    let environment = context.settings.environment()?;
    let workspace = context.workspace(&client).await?;
    let states = pages::all(async |cursor| {
        let page = client
            .list_states(&workspace, environment, cursor.as_deref())
            .await?;
        Ok((page.states, page.next_cursor))
    })
    .await
    .map_err(|error| {
        Failure::from(error).context(format!("could not list the states of {environment}"))
    })?;
    if states.is_empty() && !context.printer.wants_json() {
        context
            .printer
            .note(&format!("{environment} has no states yet"));
    }
    let view = States { states };
    context.printer.result(&view, || {
        let mut table = Table::new(&["STATE", "VERSION", "SERIAL", "RESOURCES", "WRITTEN", "LOCK"]);
        let number = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        for state in &view.states {
            table.row([
                state.name.to_string(),
                number(state.head_seq.map(|seq| seq.to_string())),
                number(state.serial.map(|serial| serial.to_string())),
                number(state.instance_count.map(|count| count.to_string())),
                number(
                    state
                        .updated_at
                        .map(|time| ago((context.now - time).num_seconds())),
                ),
                if state.locked { "held" } else { "free" }.to_owned(),
            ]);
        }
        table.finish()
    })
}

#[derive(Serialize)]
struct Addresses {
    version: i64,
    resources: Vec<ResourceSummary>,
}

pub(super) async fn addresses(args: ListArgs, context: &Context) -> Result<()> {
    let filters = args
        .filters()
        .map(Filter::parse)
        .collect::<Result<Vec<_>>>()?;
    let client = context.client()?;
    let state = context.state(&client).await?;
    let version = VersionRef::parse(&args.version)?;
    let mut seq = 0;
    let found = pages::all(async |cursor| {
        let page = client
            .list_resources(&state, version.as_str(), cursor.as_deref())
            .await?;
        seq = page.seq;
        Ok((page.resources, page.next_cursor))
    })
    .await
    .map_err(|error| status::unreadable(error.into(), &state))?;

    let mut listed: Vec<Listed> = found.into_iter().map(Listed::new).collect();
    for filter in &filters {
        if !listed.iter().any(|entry| filter.covers(entry)) {
            return Err(Failure::failed(format!(
                "state `{}` holds nothing at {}",
                state.state,
                filter.text()
            ))
            .hint("a state whose name looks like an address is named by `--state NAME`"));
        }
    }
    listed.retain(|entry| filters.is_empty() || filters.iter().any(|filter| filter.covers(entry)));
    listed.sort_by(Listed::order);
    let view = Addresses {
        version: seq,
        resources: listed.into_iter().map(|entry| entry.summary).collect(),
    };
    context.printer.result(&view, || lines(&view.resources))
}

/// One address per line. An instance with deposed objects is one instance, as in Terraform.
fn lines(resources: &[ResourceSummary]) -> String {
    let mut text = String::new();
    let mut last = None;
    for resource in resources {
        if last != Some(&resource.address) {
            // The canonical spelling has no control characters; a stranger's server might.
            text.push_str(&plain(&resource.address));
            text.push('\n');
        }
        last = Some(&resource.address);
    }
    text
}
