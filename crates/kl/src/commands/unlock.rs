//! `kl unlock`: breaking a lock that somebody left behind.

use protocol::LockInfo;
use protocol::states::LockHolder;
use serde::Serialize;

use super::Context;
use super::status::{self, held};
use crate::cli::UnlockArgs;
use crate::failure::{Failure, Result};

#[derive(Serialize)]
struct View {
    broken: Vec<LockHolder>,
}

pub(super) async fn run(args: UnlockArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let holders = client
        .get_state_status(&state)
        .await
        .map_err(|error| status::unreadable(error.into(), &state))?
        .holders;
    let Some(holder) = choose(
        holders,
        args.lock_id.as_deref(),
        &state.state.to_string(),
        context,
    )?
    else {
        context
            .printer
            .note(&format!("nobody holds state `{}`", state.state));
        let view = View { broken: Vec::new() };
        return context.printer.result(&view, String::new);
    };
    let what = format!(
        "the lock {} of state `{}`, {}",
        holder.lock_id,
        state.state,
        held(&holder, context)
    );
    if !args.yes && !context.printer.confirm(&format!("Break {what}?"))? {
        return Err(Failure::failed("cancelled; the lock stays"));
    }
    // Its id goes along, so that a lock taken since the question is not the one that breaks.
    let answer = client
        .force_unlock(&state, Some(&holder.lock_id))
        .await
        .map_err(|error| Failure::from(error).context(format!("could not break {what}")))?;
    let view = View {
        broken: answer.broken.into_iter().collect(),
    };
    context
        .printer
        .result(&view, || match view.broken.is_empty() {
            true => format!("{what}, was given up meanwhile\n"),
            false => format!("broke {what}\n"),
        })
}

/// The holder that is meant: the one of that id, or the only one.
fn choose(
    mut holders: Vec<LockHolder>,
    lock_id: Option<&str>,
    state: &str,
    context: &Context,
) -> Result<Option<LockHolder>> {
    if let Some(wanted) = lock_id {
        // What Terraform shows of a conflict is the id with words behind it.
        let wanted = LockInfo::id_word(wanted);
        return match holders
            .into_iter()
            .find(|holder| holder.lock_id == wanted || holder.id.to_string() == wanted)
        {
            Some(holder) => Ok(Some(holder)),
            None => Err(
                Failure::failed(format!("no lock {wanted} holds state `{state}`"))
                    .hint(format!("run `kl status {state}` to see what does")),
            ),
        };
    }
    if holders.len() > 1 {
        let mut failure =
            Failure::usage(format!("{} hold state `{state}`; say which", holders.len()));
        for holder in &holders {
            failure = failure.hint(format!(
                "--lock-id {}: {}",
                holder.lock_id,
                held(holder, context)
            ));
        }
        return Err(failure);
    }
    Ok(holders.pop())
}
