//! `kl tag`: names for versions.

use protocol::archives::{SetTag, Tag};
use serde::Serialize;

use super::{Context, status};
use crate::cli::{TagCommand, TagSetArgs, TagUnsetArgs};
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::when;

pub(super) async fn run(command: TagCommand, context: &Context) -> Result<()> {
    match command {
        TagCommand::Set(args) => set(args, context).await,
        TagCommand::List(_) => list(context).await,
        TagCommand::Unset(args) => unset(args, context).await,
    }
}

async fn set(args: TagSetArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let wanted = SetTag {
        version: args.version,
        description: args.description,
        r#move: args.moving,
    };
    let tag = client
        .set_tag(&state, &args.tag, &wanted)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!(
                "could not set the tag `{}` of state `{}`",
                args.tag, state.state
            ))
        })?;
    context.printer.result(&tag, || {
        format!(
            "{} names version {} of state {}\n",
            tag.name, tag.seq, state.state
        )
    })
}

async fn list(context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let list = client
        .list_tags(&state)
        .await
        .map_err(|error| status::unreadable(error.into(), &state))?;
    context.printer.result(&list, || {
        let mut table = Table::new(&["TAG", "VERSION", "SET", "BY", "DESCRIPTION"]);
        for tag in &list.tags {
            let Tag {
                name,
                seq,
                description,
                created_by,
                created_at,
            } = tag.clone();
            table.row([
                name,
                seq.to_string(),
                when(created_at, context.now),
                created_by,
                description.unwrap_or_default(),
            ]);
        }
        table.finish()
    })
}

async fn unset(args: TagUnsetArgs, context: &Context) -> Result<()> {
    #[derive(Serialize)]
    struct Unset {
        tag: String,
    }
    let client = context.client()?;
    let state = context.state(&client).await?;
    client.unset_tag(&state, &args.tag).await.map_err(|error| {
        Failure::from(error).context(format!(
            "could not unset the tag `{}` of state `{}`",
            args.tag, state.state
        ))
    })?;
    let unset = Unset { tag: args.tag };
    context
        .printer
        .result(&unset, || format!("{} names nothing any more\n", unset.tag))
}
