//! `kl apply abort`: ends a run, one's own or somebody else's.

use super::Context;
use crate::cli::AbortArgs;
use crate::failure::{Failure, Result};

pub(super) async fn run(args: AbortArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
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
