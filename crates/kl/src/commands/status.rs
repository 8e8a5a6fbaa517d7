//! `kl status`: a state's newest version, and who holds it.

use protocol::runs::Run;
use protocol::states::{KeptResult, LockHolder, LockLane, StateLifecycle, StateStatus, Version};
use serde::Serialize;

use super::{Context, watch, why};
use crate::cli::StatusArgs;
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::{ago, span, stamp, when};

pub(super) async fn run(args: StatusArgs, context: &Context) -> Result<()> {
    if args.watch {
        return watch::state(context).await;
    }
    let client = context.client()?;
    let state = context.state(&client).await?;
    let found = client.get_state_status(&state).await;
    let runs = why::under_way(&client, &state).await?;
    let status = match found {
        Ok(status) => Some(status),
        // A first run may be under way before anything was written.
        Err(error) if error.is_absent_state() && !runs.is_empty() => None,
        Err(error) => return Err(unreadable(error.into(), &state)),
    };
    let view = View { status, runs };
    context
        .printer
        .result(&view, || text(&view, &state, context))
}

#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    status: Option<StateStatus>,
    runs: Vec<Run>,
}

/// Says which state a request was about.
pub(super) fn unreadable(failure: Failure, state: &StateAddress) -> Failure {
    failure.context(format!("could not read state `{}`", state.state))
}

fn text(view: &View, state: &StateAddress, context: &Context) -> String {
    let mut text = match &view.status {
        Some(status) => standing(status, state, context),
        None => {
            let mut table = Table::without_headings();
            table.pair("state", format!("{} in {}", state.state, state.environment));
            table.pair("version", "none: nothing was written yet");
            table.finish()
        }
    };
    for run in &view.runs {
        text.push_str(&why::described(run, context));
    }
    if let Some(status) = &view.status {
        text.push_str(&unsettled(status, context));
    }
    text
}

/// What may differ from the real objects, each with whose doing it is, and how it is settled.
fn unsettled(status: &StateStatus, context: &Context) -> String {
    let Some(first) = status.unsettled.first() else {
        return String::new();
    };
    let mut text =
        "unsettled: what the state says here may differ from the real objects\n".to_owned();
    for mark in &status.unsettled {
        text.push_str(&format!(
            "  {}, {}\n",
            crate::run::unsettled(mark),
            when(mark.since, context.now)
        ));
    }
    if status.kept.iter().any(|kept| !kept.settled) {
        text.push_str("  to take over what was uploaded meanwhile: kl recover\n");
    }
    let selection = match first.address.as_str() {
        "*" => String::new(),
        address if address.starts_with("output.") => " -f FILE".to_owned(),
        address => format!(" --target '{address}'"),
    };
    text.push_str(&format!(
        "  to look at the real objects and settle it: kl apply{selection}\n"
    ));
    text
}

fn standing(status: &StateStatus, state: &StateAddress, context: &Context) -> String {
    let mut table = Table::without_headings();
    table.pair("state", format!("{} in {}", status.name, state.environment));
    if let Some(lifecycle) = unusual(status.lifecycle) {
        table.pair("lifecycle", lifecycle);
    }
    match &status.head {
        None => table.pair("version", "none: nothing was written yet"),
        Some(head) => version_rows(&mut table, head, status.version_count, context),
    }
    if status.holders.is_empty() {
        table.pair("lock", "free");
    }
    for holder in &status.holders {
        table.pair("lock", format!("held by {}, {}", holder.who, doing(holder)));
        table.pair("", lifetime(holder, context));
        table.pair("lock id", &holder.lock_id);
    }
    if let Some(seconds) = status.usual_hold_seconds.filter(|_| is_busy(status)) {
        table.pair(
            "usually",
            format!("a run holds its scope for {}", span(seconds.into())),
        );
    }
    for waiting in &status.waiting {
        let since = ago((context.now - waiting.since).num_seconds());
        let about = &waiting.about;
        table.pair(
            "waiting",
            format!("{}, `{}`, since {since}", about.who, about.command),
        );
    }
    for kept in status.kept.iter().filter(|kept| !kept.settled) {
        table.pair("kept", kept_result(kept, context));
    }
    table.finish()
}

/// Whether somebody wants to know how long it takes.
fn is_busy(status: &StateStatus) -> bool {
    !status.holders.is_empty() || !status.waiting.is_empty()
}

fn version_rows(table: &mut Table, head: &Version, count: i64, context: &Context) {
    table.pair("version", format!("{} of {count} kept", head.seq));
    if let Some(serial) = head.serial {
        table.pair("serial", serial.to_string());
    }
    if let Some(lineage) = &head.lineage {
        table.pair("lineage", lineage);
    }
    table.pair(
        "written",
        format!(
            "{} by {}",
            when(head.created_at, context.now),
            head.created_by
        ),
    );
    if let Some(version) = &head.terraform_version {
        table.pair("terraform", version);
    }
    table.pair("resources", head.instance_count.to_string());
    if let Some(bytes) = head.size_bytes {
        table.pair("size", format!("{bytes} bytes"));
    }
}

/// A write that came after its lock had ended: not in the history, and not lost.
fn kept_result(kept: &KeptResult, context: &Context) -> String {
    format!(
        "a late write by {} under lock {}, from version {}, {}",
        kept.kept_by,
        kept.lock_id,
        kept.base_seq,
        when(kept.kept_at, context.now)
    )
}

fn unusual(lifecycle: StateLifecycle) -> Option<&'static str> {
    match lifecycle {
        StateLifecycle::Active => None,
        StateLifecycle::Importing => Some("being imported"),
        StateLifecycle::Archived => Some("archived: read only"),
        StateLifecycle::Deleted => Some("deleted"),
    }
}

/// Who holds, doing what, for how long, and whether they still show signs of life.
pub(super) fn held(holder: &LockHolder, context: &Context) -> String {
    let (doing, lifetime) = (doing(holder), lifetime(holder, context));
    format!("held by {}, {doing}, {lifetime}", holder.who)
}

pub(super) fn doing(holder: &LockHolder) -> String {
    let mut text = match holder.lane {
        LockLane::Terraform => "Terraform",
        LockLane::Native => "a kl run",
        LockLane::Admin => "an administrative lock",
    }
    .to_owned();
    if !holder.operation.is_empty() {
        text.push_str(&format!(": {}", holder.operation));
    }
    if !holder.info.is_empty() {
        text.push_str(&format!(" ({})", holder.info));
    }
    text
}

fn lifetime(holder: &LockHolder, context: &Context) -> String {
    let age = span(u64::try_from(holder.age_seconds).unwrap_or(0));
    let mut text = format!("for {age}, since {}", stamp(holder.created_at));
    if let Some(last) = holder.last_activity_at {
        let silence = (context.now - last).num_seconds().max(0);
        text.push_str(&format!(", last heard of {}", ago(silence)));
    }
    if let Some(end) = holder.expires_at {
        text.push_str(&format!(", ends {}", when(end, context.now)));
    }
    text
}
