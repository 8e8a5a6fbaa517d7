//! `kl show`: one resource of a state.

use protocol::states::ResourceDetail;

use super::Context;
use super::version_ref::VersionRef;
use crate::cli::ShowArgs;
use crate::failure::{Failure, Result};
use crate::output::plain;
use crate::output::values;

pub(super) async fn run(args: ShowArgs, context: &Context) -> Result<()> {
    if let Some(problem) = args.bad_state() {
        return Err(Failure::usage(problem)
            .hint("quote the address: `kl show STATE 'aws_instance.web[\"a\"]'`"));
    }
    let state = context.state()?;
    let client = context.client()?;
    let version = VersionRef::parse(&args.version)?
        .for_server(&client, &state)
        .await?;
    let resource = client
        .get_resource(&state, args.address(), &version, args.sensitive)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!(
                "could not show {} of state `{}`",
                args.address(),
                state.state
            ))
        })?;
    context.printer.result(&resource, || text(&resource))?;
    if resource.masked && resource.attributes.is_some() && !context.printer.wants_json() {
        context
            .printer
            .note("sensitive values are masked; `--sensitive` shows them");
    }
    Ok(())
}

/// The layout of `terraform state show`.
fn text(resource: &ResourceDetail) -> String {
    let summary = &resource.summary;
    let tainted = if resource.tainted { " (tainted)" } else { "" };
    let block = if summary.mode == "data" {
        "data"
    } else {
        "resource"
    };
    let head = format!(
        "# {}:{tainted}\n{block} \"{}\" \"{}\" {{\n",
        plain(&summary.address),
        plain(&summary.kind),
        plain(&summary.name)
    );
    let body = match &resource.attributes {
        Some(attributes) => values::attributes(attributes, 4),
        None => "    # the values take the role reader\n".to_owned(),
    };
    format!("{head}{body}}}\n")
}
