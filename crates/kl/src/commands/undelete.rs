//! `kl undelete`: a deleted state back under its name.

use super::Context;
use crate::cli::UndeleteArgs;
use crate::failure::{Failure, Result};

pub(super) async fn run(args: UndeleteArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let answer = client
        .undelete_state(&state, args.id)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not bring back state `{}`", state.state))
        })?;
    context.printer.result(&answer, || {
        format!("state {} is back, as {}\n", state.state, answer.state_id)
    })
}
