//! `kl state rm` and `kl state mv`: single addresses of a state, without Terraform.

use protocol::operations::{
    AddressChange, AddressChangeKind, MoveRequest, OperationAnswer, OperationBy, RemoveRequest,
};
use protocol::states::Version;
use serde::Serialize;

use super::Context;
use crate::cli::{StateMvArgs, StateRmArgs};
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::output::plain;

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
    let answer = client.remove_addresses(&request, args.apply).await;
    let answer = answer.map_err(|error| {
        Failure::from(error).context(format!("could not forget that in state `{}`", state.state))
    })?;
    show(context, &state, answer, args.apply)
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
