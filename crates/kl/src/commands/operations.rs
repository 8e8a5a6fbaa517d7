//! `kl state rm` and `kl state mv`: single addresses of a state, without Terraform.

use protocol::operations::{
    AddressChange, AddressChangeKind, MoveRequest, OperationAnswer, OperationBy, RemoveRequest,
};
use protocol::states::Version;
use serde::Serialize;

use tfstate::Address;

use super::{Context, pages, status};
use crate::cli::{StateMvArgs, StateRmArgs};
use crate::client::{ApiError, Client};
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::near::near;
use crate::output::plain;
use crate::scope::{covers, parse_target};

/// What is shown. Attribute values are not: they may be secrets.
#[derive(Serialize)]
struct View {
    action: String,
    address: String,
    changes: Vec<AddressChange>,
    dependents: Vec<String>,
    warnings: Vec<String>,
    version: Option<Version>,
}

pub(super) async fn remove(args: StateRmArgs, context: &Context) -> Result<()> {
    let addresses = args.addresses();
    if addresses.is_empty() {
        return Err(Failure::usage("no address is named")
            .hint("name what to forget, as in `kl state rm prod aws_instance.web`"));
    }
    let client = context.client()?;
    let state = context.state(&client).await?;
    let request = RemoveRequest {
        state: state.path(),
        by: by(context, &format!("kl state rm {}", addresses.join(" "))),
        addresses,
        ..RemoveRequest::default()
    };
    let unforgotten = |error: ApiError| {
        Failure::from(error).context(format!("could not forget that in state `{}`", state.state))
    };
    let mut answer = client
        .remove_addresses(&request, false)
        .await
        .map_err(unforgotten)?;
    refuse_unmatched(&request.addresses, &answer, &client, &state).await?;
    if args.apply {
        answer = client
            .remove_addresses(&request, true)
            .await
            .map_err(unforgotten)?;
    }
    show(context, &state, answer, args.apply)
}

/// Fails if one of the addresses matches nothing: what is forgotten in the belief that it was there is not looked for.
async fn refuse_unmatched(
    addresses: &[String],
    answer: &OperationAnswer,
    client: &Client,
    state: &StateAddress,
) -> Result<()> {
    let found: Vec<Address> = answer
        .preview
        .changes
        .iter()
        .filter_map(|change| change.address.parse().ok())
        .collect();
    let is_matched = |text: &&String| {
        let wanted = parse_target(text);
        wanted.is_none_or(|wanted| found.iter().any(|address| covers(&wanted, address)))
    };
    let Some(unmatched) = addresses.iter().find(|text| !is_matched(text)) else {
        return Ok(());
    };
    let there = pages::all(async |cursor| {
        let page = client
            .list_resources(state, "head", cursor.as_deref())
            .await?;
        Ok((page.resources, page.next_cursor))
    })
    .await
    .map_err(|error| status::unreadable(error.into(), state))?;
    let failure = Failure::failed(format!(
        "state `{}` holds nothing at {unmatched}; nothing was forgotten",
        state.state
    ));
    let names = there.iter().map(|resource| resource.address.as_str());
    Err(match near(unmatched, names).as_slice() {
        [] => failure.hint(format!(
            "run `kl state list {}` for the addresses there are",
            state.state
        )),
        near => failure.hint(format!("near it are {}", near.join(", "))),
    })
}

pub(super) async fn relocate(args: StateMvArgs, context: &Context) -> Result<()> {
    let Some((from, to)) = args.ends() else {
        return Err(
            Failure::usage("a move has two addresses: from where, to where")
                .hint("write it as in `kl state mv prod aws_instance.web aws_instance.front`"),
        );
    };
    let client = context.client()?;
    let state = context.state(&client).await?;
    let request = MoveRequest {
        state: state.path(),
        by: by(context, &format!("kl state mv {from} {to}")),
        address: from,
        to,
        ..MoveRequest::default()
    };
    let answer = client.move_address(&request, args.apply).await;
    let answer = answer.map_err(|error| {
        Failure::from(error).context(format!("could not move that in state `{}`", state.state))
    })?;
    show(context, &state, answer, args.apply)
}

fn by(context: &Context, command: &str) -> OperationBy {
    OperationBy {
        actor: Some(context.surroundings.who()),
        // What others are shown is one line of bounded length.
        command: Some(command.chars().take(200).collect()),
        key: Some(uuid::Uuid::new_v4().to_string()),
    }
}

fn show(
    context: &Context,
    state: &StateAddress,
    answer: OperationAnswer,
    apply: bool,
) -> Result<()> {
    let preview = answer.preview;
    let view = View {
        action: preview.action,
        address: preview.address,
        changes: preview.changes,
        dependents: preview.dependents,
        warnings: preview.warnings,
        version: answer.version,
    };
    context.printer.result(&view, || text(&view, state))?;
    if !apply && !view.changes.is_empty() && !context.printer.wants_json() {
        context
            .printer
            .note("nothing was changed; add `--apply` to do it");
    }
    Ok(())
}

fn text(view: &View, state: &StateAddress) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&plain(&line));
        text.push('\n');
    };
    for change in &view.changes {
        let sign = match change.change {
            AddressChangeKind::Added => '+',
            AddressChangeKind::Changed => '~',
            AddressChangeKind::Removed => '-',
        };
        line(format!("  {sign} {}", change.address));
    }
    for warning in &view.warnings {
        line(format!("  ! {warning}"));
    }
    if !view.dependents.is_empty() {
        line(format!(
            "  still depended on by {}",
            view.dependents.join(", ")
        ));
    }
    line(match &view.version {
        _ if view.changes.is_empty() => {
            format!(
                "state {}: nothing stands there; there is nothing to do",
                state.state
            )
        }
        Some(version) => format!(
            "state {}: version {} (serial {}); infrastructure is not touched",
            state.state,
            version.seq,
            version.serial.unwrap_or_default()
        ),
        None => format!(
            "state {}: {} addresses would change; infrastructure is not touched",
            state.state,
            view.changes.len()
        ),
    });
    text
}
