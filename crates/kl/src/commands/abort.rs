//! `kl apply abort`: ends a run, one's own or somebody else's.

use protocol::RunId;
use protocol::runs::RunStatus;

use super::{Context, why};
use crate::cli::AbortArgs;
use crate::client::Client;
use crate::failure::{Failure, Result};

pub(super) async fn run(args: AbortArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    still_under_way(&client, &args.run, "abort").await?;
    let run = client
        .abort_run(&args.run, &args.reason)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not abort run {}", args.run))
        })?;
    context.printer.result(&run, || {
        let mut text = format!("aborted run {} of {}, `{}`\n", run.id, run.who, run.command);
        if run.kept_count > 0 {
            text.push_str(&format!(
                "{} uploads are kept: `kl recover` shows them\n",
                run.kept_count
            ));
        }
        text
    })
}

/// Fails for a run that is over: nothing of it is left to end.
pub(super) async fn still_under_way(client: &Client, run: &RunId, verb: &str) -> Result<()> {
    let found = client
        .get_run(run)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not {verb} run {run}")))?;
    match found.status {
        RunStatus::Running | RunStatus::Planned => Ok(()),
        over => {
            let mut text = format!("run {run} of {} is over: {}", found.who, why::word(over));
            if let Some(reason) = &found.error {
                text.push_str(&format!(" ({reason})"));
            }
            let failure = Failure::failed(text);
            Err(match found.kept_count {
                0 => failure.hint("run `kl status` for those that are under way"),
                _ => failure.hint("uploads of it are kept: run `kl recover` to see and adopt them"),
            })
        }
    }
}
