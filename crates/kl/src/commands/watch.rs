//! `kl status --watch` and `kl run status --watch`: what happens, a line for each thing.

use chrono::Utc;
use protocol::RunId;
use protocol::events::{Event, Missed, RunEvent, StandingEvent};
use protocol::runs::RunStatus;
use protocol::states::Version;

use super::Context;
use super::status::{doing, unreadable};
use crate::client::Events;
use crate::failure::{Failure, Result};
use crate::output::plain;
use crate::output::time::stamp;

pub(super) async fn state(context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let events = client.watch_state(&state);
    follow(events, context, |failure| unreadable(failure, &state)).await
}

pub(super) async fn run(run: &RunId, context: &Context) -> Result<()> {
    let events = context.client()?.watch_run(run);
    let about = |failure: Failure| failure.context(format!("could not watch run {run}"));
    follow(events, context, about).await
}

async fn follow(
    mut events: Events,
    context: &Context,
    about: impl Fn(Failure) -> Failure,
) -> Result<()> {
    loop {
        let Some(event) = events.next().await.map_err(|error| about(error.into()))? else {
            return Ok(());
        };
        context.printer.line(&event, || {
            let now = stamp(Utc::now());
            let lines = lines(&event).into_iter();
            lines
                .map(|line| format!("{now}  {}\n", plain(&line)))
                .collect()
        })?;
    }
}

fn lines(event: &Event) -> Vec<String> {
    match event {
        Event::Version(version) => vec![new_version(version)],
        Event::Missed(missed) => vec![too_many(missed)],
        Event::Standing(standing) => who(standing),
        Event::Run(run) => vec![changed(run)],
        Event::Bye(_) => Vec::new(),
    }
}

fn new_version(version: &Version) -> String {
    let mut text = format!("version {} by {}", version.seq, version.created_by);
    if let Some(command) = &version.command {
        text.push_str(&format!(", `{command}`"));
    }
    text
}

fn too_many(missed: &Missed) -> String {
    let Missed { from_seq, to_seq } = missed;
    format!("versions {from_seq} to {to_seq} came meanwhile: kl history")
}

fn who(standing: &StandingEvent) -> Vec<String> {
    let mut lines = Vec::new();
    if standing.holder_count == 0 {
        lines.push("free".to_owned());
    }
    for holder in &standing.holders {
        lines.push(format!("held by {}, {}", holder.who, doing(holder)));
    }
    for waiting in &standing.waiting {
        let about = &waiting.about;
        lines.push(format!("waiting: {}, `{}`", about.who, about.command));
    }
    if standing.unsettled_count > 0 {
        lines.push(format!(
            "unsettled: {} addresses, see kl status",
            standing.unsettled_count
        ));
    }
    lines
}

fn changed(run: &RunEvent) -> String {
    let status = match run.status {
        RunStatus::Running => "runs",
        RunStatus::Planned => "sleeps over its plan",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Aborted => "was aborted",
        RunStatus::Expired => "lost its lease",
    };
    let mut text = format!("`{}` of {} {status}, {}", run.command, run.who, run.id);
    if let Some(error) = &run.error {
        text.push_str(&format!(": {error}"));
    }
    text
}
