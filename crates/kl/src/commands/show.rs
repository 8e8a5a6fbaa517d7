//! `kl show`: one resource of a state.

use protocol::Code;
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
    let client = context.client()?;
    let state = context.state(&client).await?;
    let version = VersionRef::parse(&args.version)?;
    let resource = client
        .get_resource(&state, args.address(), version.as_str(), args.sensitive)
        .await
        .map_err(|error| {
            let is_absent = error.code() == Some(Code::NotFound);
            let failure = Failure::from(error).context(format!(
                "could not show {} of state `{}`",
                args.address(),
                state.state
            ));
            if is_absent {
                failure.hint("run `kl state list` for the addresses there are")
            } else {
                failure
            }
        })?;
    context.printer.result(&resource, || text(&resource))?;
    if resource.masked && has_mask(&resource) && !context.printer.wants_json() {
        context
            .printer
            .note("sensitive values are masked; `--sensitive` shows them");
    }
    Ok(())
}

/// Whether anything was masked; the server says only that it would have been.
fn has_mask(resource: &ResourceDetail) -> bool {
    resource
        .attributes
        .as_ref()
        .is_some_and(|attributes| attributes.get().contains(values::MASK))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(attributes: &str) -> ResourceDetail {
        serde_json::from_str(&format!(
            r#"{{"address":"t.n","mode":"managed","type":"t","name":"n","provider":"p","since_seq":1,
                "seq":2,"tainted":true,"dependencies":[],"masked":true{attributes}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn the_layout_is_that_of_terraform_state_show() {
        let shown = text(&resource(
            r#","attributes":{"id":"x","big":9007199254740993,"lone":"\ud800"}"#,
        ));
        assert_eq!(
            shown,
            "# t.n: (tainted)\nresource \"t\" \"n\" {\n    big  = 9007199254740993\n    id   = \"x\"\n    lone = \"\\ud800\"\n}\n"
        );
    }

    #[test]
    fn a_viewer_is_told_which_role_sees_values() {
        assert!(text(&resource("")).contains("role reader"));
    }

    #[test]
    fn json_keeps_numbers_and_escapes_as_they_came() {
        let attributes = r#"{"big":9007199254740993,"lone":"\ud800"}"#;
        let resource = resource(&format!(r#","attributes":{attributes}"#));
        let json = serde_json::to_string(&resource).unwrap();
        assert!(json.contains(attributes), "{json}");
    }
}
