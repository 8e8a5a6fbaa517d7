//! `kl why`: who stands in the way of an address.

use protocol::runs::{Run, RunStatus};
use protocol::scope::ClaimMode;
use protocol::states::{LockHolder, WaitingClient};
use serde::Serialize;

use super::{Context, status};
use crate::cli::WhyArgs;
use crate::client::Client;
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::output::time::{span, when};
use crate::scope::{covers, parse_target};

/// Runs under way are the newest; more than these are looked for no further.
const NEWEST: usize = 100;

#[derive(Serialize)]
struct View {
    address: Option<String>,
    holders: Vec<LockHolder>,
    runs: Vec<Run>,
    /// For how long a run usually holds its scope.
    usual_hold_seconds: Option<u32>,
    /// Those who wait for a part of the state, in their order.
    waiting: Vec<WaitingClient>,
}

pub(super) async fn run(args: WhyArgs, context: &Context) -> Result<()> {
    if let Some(address) = &args.address
        && parse_target(address).is_none()
    {
        return Err(Failure::usage(format!("`{address}` is not an address")));
    }
    let client = context.client()?;
    let state = context.state(&client).await?;
    let (holders, usual_hold_seconds, waiting) = match client.get_state_status(&state).await {
        Ok(found) => (found.holders, found.usual_hold_seconds, found.waiting),
        // A first run may be under way before anything was written.
        Err(error) if error.is_absent_state() => (Vec::new(), None, Vec::new()),
        Err(error) => return Err(status::unreadable(error.into(), &state)),
    };
    let runs = under_way(&client, &state).await?;
    let is_asked = |run: &Run| {
        let address = args.address.as_deref();
        address.is_none_or(|address| !claims_on(run, address).is_empty())
    };
    let runs: Vec<Run> = runs.into_iter().filter(is_asked).collect();
    let by_run = |holder: &LockHolder| {
        let mut reservations = runs.iter().filter_map(|run| run.reservation.as_ref());
        reservations.any(|reservation| reservation.id == holder.id)
    };
    let whole = |holder: &LockHolder| holder.lane != protocol::states::LockLane::Native;
    let view = View {
        holders: holders
            .into_iter()
            .filter(|holder| whole(holder) || by_run(holder))
            .collect(),
        address: args.address,
        runs,
        usual_hold_seconds,
        waiting,
    };
    context.printer.result(&view, || text(&view, context))
}

/// The runs of a state that are under way.
pub(super) async fn under_way(client: &Client, state: &StateAddress) -> Result<Vec<Run>> {
    let page = match client.list_runs(state, NEWEST, None).await {
        Ok(page) => page,
        Err(error) if error.is_absent_state() => return Ok(Vec::new()),
        Err(error) => return Err(status::unreadable(error.into(), state)),
    };
    let is_under_way = |run: &Run| run.status == RunStatus::Running;
    Ok(page.runs.into_iter().filter(is_under_way).collect())
}

/// The claims of a run that have to do with an address.
fn claims_on(run: &Run, address: &str) -> Vec<String> {
    let claims = run
        .reservation
        .iter()
        .flat_map(|reservation| &reservation.claims);
    claims
        .filter(|claim| touches(&claim.address, address))
        .map(|claim| {
            let mode = match claim.mode {
                ClaimMode::Read => "reads",
                ClaimMode::Write => "writes",
            };
            format!("{mode} {}", claim.address)
        })
        .collect()
}

/// Whether one of two addresses or prefixes lies within the other.
fn touches(claim: &str, asked: &str) -> bool {
    if claim == "*" || claim == asked {
        return true;
    }
    let within = |outer: &str, inner: &str| {
        let (Some(outer), Ok(inner)) = (parse_target(outer), inner.parse()) else {
            return false;
        };
        covers(&outer, &inner)
    };
    within(claim, asked) || within(asked, claim)
}

fn text(view: &View, context: &Context) -> String {
    let what = view.address.as_deref().unwrap_or("the state");
    if view.holders.is_empty() && view.runs.is_empty() {
        return format!("nobody holds {what}\n");
    }
    let mut text = String::new();
    let shown_as_run = |holder: &LockHolder| {
        let mut runs = view.runs.iter().filter_map(|run| run.reservation.as_ref());
        runs.any(|reservation| reservation.id == holder.id)
    };
    for holder in view.holders.iter().filter(|holder| !shown_as_run(holder)) {
        text.push_str(&format!(
            "the whole state is {}\n",
            status::held(holder, context)
        ));
    }
    for run in &view.runs {
        text.push_str(&described(run, context));
        if let Some(address) = &view.address {
            text.push_str(&format!("  it {}\n", claims_on(run, address).join(", ")));
        }
    }
    if let Some(seconds) = view.usual_hold_seconds {
        let usual = span(seconds.into());
        text.push_str(&format!("a run of this state usually takes {usual}\n"));
    }
    for waiting in &view.waiting {
        let since = when(waiting.since, context.now);
        let about = &waiting.about;
        text.push_str(&format!(
            "{} waits with `{}` since {since}\n",
            about.who, about.command
        ));
    }
    text
}

/// How far a run has come.
pub(super) fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "under way",
        RunStatus::Planned => "sleeping over its plan",
        RunStatus::Succeeded => "done",
        RunStatus::Failed => "failed",
        RunStatus::Aborted => "aborted",
        RunStatus::Expired => "expired",
    }
}

/// A run in a few lines.
pub(super) fn described(run: &Run, context: &Context) -> String {
    let status = word(run.status);
    let mut text = format!(
        "run {} of {}, `{}`: {status}, begun {}\n",
        run.id,
        run.who,
        run.command,
        when(run.started_at, context.now)
    );
    if let Some(reservation) = &run.reservation {
        let writes = reservation
            .claims
            .iter()
            .filter(|claim| claim.mode == ClaimMode::Write)
            .map(|claim| claim.address.as_str());
        text.push_str(&format!(
            "  writes {}\n  its lease ends {} unless it is renewed\n",
            writes.collect::<Vec<_>>().join(", "),
            when(reservation.expires_at, context.now)
        ));
    }
    if let Some(error) = &run.error {
        text.push_str(&format!("  it says: {error}\n"));
    }
    for version in &run.versions {
        text.push_str(&format!(
            "  wrote version {} (serial {}): {}\n",
            version.seq,
            version.serial,
            version.changed.join(", ")
        ));
    }
    if run.kept_count > 0 {
        text.push_str(&format!("  {} of its uploads are kept\n", run.kept_count));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_touches_what_is_within_it_and_what_it_is_within() {
        for (claim, asked, expected) in [
            ("*", "t.a", true),
            ("t.a", "t.a[0]", true),
            ("t.a[0]", "t.a", true),
            ("module.m", "module.m[\"k\"].t.x", true),
            ("module.m2", "module.m.t.x", false),
            ("output.x", "t.x", false),
        ] {
            assert_eq!(touches(claim, asked), expected, "{claim} {asked}");
        }
    }
}
