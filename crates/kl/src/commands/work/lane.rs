//! Which lane a command takes, and a run on the native one.
//!
//! Native where the scope is proven; else the ordinary lane, which is another runtime: Terraform's
//! lock on the whole state, the whole document, a full write. Never something in between.

use std::collections::BTreeSet;

use protocol::runs::{BeginRun, Run};
use protocol::scope::{AddressSource, ScopeOperation};

use super::prepare::Prepared;
use crate::client::ApiError;
use crate::commands::status::unreadable;
use crate::config::values::{Fallback, Protocol};
use crate::failure::{Failure, Kind, Result};
use crate::run::{Begun, begin, doubts};
use crate::scope::{Known, Selected, compose, digest, select};

/// A lane, taken.
pub(in crate::commands) enum Lane {
    Native(Box<Run>),
    /// The http backend, as plain Terraform uses it.
    Ordinary {
        reason: String,
    },
}

/// The lane, and what was found out on the way.
pub(in crate::commands) struct Choice {
    pub(in crate::commands) lane: Lane,
    pub(in crate::commands) notes: Vec<String>,
    /// The targets that were asked for; the contract of a native run has its own.
    pub(in crate::commands) targets: Vec<String>,
    /// Every managed block in the state, where it had to be asked for.
    pub(in crate::commands) inventory: Option<BTreeSet<String>>,
}

/// Decides, and begins a run where the lane is native.
pub(in crate::commands) async fn choose(
    prepared: &Prepared<'_>,
    lease_seconds: Option<u32>,
) -> Result<Choice> {
    let protocol = prepared.context.settings.protocol.value;
    if prepared.asked.is_whole() {
        let reason = "nothing was selected, so the run is on the whole state".to_owned();
        if protocol == Protocol::Kl {
            return Err(
                unproven(&reason, &[]).hint("select something with -f, --target or --changed-from")
            );
        }
        return Ok(ordinary(reason, Vec::new(), Vec::new()));
    }
    let selected = select(
        &prepared.configuration,
        &prepared.asked,
        prepared.directory(),
    )?;
    let asked_for = targets_of(&selected);
    if protocol == Protocol::Http {
        let reason = "the protocol is set to `http`".to_owned();
        return Ok(ordinary(reason, Vec::new(), asked_for));
    }
    native(prepared, &selected, asked_for, lease_seconds).await
}

async fn native(
    prepared: &Prepared<'_>,
    selected: &Selected,
    asked_for: Vec<String>,
    lease_seconds: Option<u32>,
) -> Result<Choice> {
    let files = selected.files.iter().map(ToString::to_string).collect();
    let resolved = match prepared.client.resolve_state(&prepared.state, files).await {
        Ok(resolved) => resolved,
        Err(error) if error.is_absent_route() => {
            return absent(prepared, error, asked_for).await;
        }
        Err(error) => return Err(unreadable(error.into(), &prepared.state)),
    };
    let has_document = resolved.seq > 0;
    if has_document && !resolved.native {
        let reason = "the state is kept as a document only (encrypted, or of an unknown version)";
        return fall_back(prepared, reason, Vec::new(), asked_for).await;
    }
    let differs = resolved.inventory_digest != digest(&prepared.configuration);
    let inventory = match differs && has_document || !selected.selection.unmatched.is_empty() {
        true => Some(
            prepared
                .client
                .get_inventory(&prepared.state)
                .await?
                .addresses,
        ),
        false => None,
    };
    let known = Known {
        recorded: resolved.recorded_sources,
        outputs: resolved.outputs,
        inventory: inventory.as_ref().map(|addresses| {
            let source = |one: &protocol::state_engine::InventoryAddress| AddressSource {
                address: one.address.clone(),
                file: one.file.clone().unwrap_or_default(),
            };
            addresses.iter().map(source).collect()
        }),
    };
    let operation = match prepared.asked.destroy {
        true => ScopeOperation::Destroy,
        false => ScopeOperation::Apply,
    };
    let scope = compose(&prepared.configuration, selected, &known, operation)?;
    let request = BeginRun {
        state: prepared.state.path(),
        kind: prepared.kind,
        key: uuid::Uuid::new_v4().to_string(),
        command: prepared.command.clone(),
        who: prepared.context.surroundings.who(),
        scope: scope.request,
        lease_seconds,
        wait_seconds: 0,
        ticket: None,
    };
    let begun = begin(
        &prepared.client,
        request,
        prepared.wait.0,
        &prepared.interrupts,
        prepared.context.printer,
    )
    .await?;
    match begun {
        Begun::Run(run) => Ok(Choice {
            lane: Lane::Native(run),
            notes: scope.notes,
            targets: asked_for,
            inventory: inventory
                .map(|addresses| addresses.into_iter().map(|one| one.address).collect()),
        }),
        Begun::Refused(refused) => {
            let why = refused.contract.as_ref().map(doubts).unwrap_or_default();
            fall_back(prepared, &refused.reason, why, asked_for).await
        }
    }
}

/// What it means that the state was not found: a server without these routes has no native lane, and one that has them
/// does not show this state to this caller.
async fn absent(
    prepared: &Prepared<'_>,
    error: ApiError,
    asked_for: Vec<String>,
) -> Result<Choice> {
    match prepared.client.ask_capabilities().await {
        Ok(()) => Err(unreadable(error.into(), &prepared.state)),
        Err(error) if error.is_absent_route() => {
            let reason = "the server has no native lane";
            fall_back(prepared, reason, Vec::new(), asked_for).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The targets that plain Terraform would be given.
fn targets_of(selected: &Selected) -> Vec<String> {
    let plan = selected.selection.write.targets.iter();
    let target = |plan: &config_scope::PlanTarget| match &plan.unkeyed_call {
        Some(call) => call.to_string(),
        None => plan.target.to_string(),
    };
    let targets: BTreeSet<String> = plan.map(target).collect();
    targets.into_iter().collect()
}

fn ordinary(reason: String, notes: Vec<String>, targets: Vec<String>) -> Choice {
    Choice {
        lane: Lane::Ordinary { reason },
        notes,
        targets,
        inventory: None,
    }
}

/// Takes the ordinary lane where that is allowed.
///
/// # Errors
/// A failure with exit code 4 where it is not.
async fn fall_back(
    prepared: &Prepared<'_>,
    reason: &str,
    why: Vec<String>,
    targets: Vec<String>,
) -> Result<Choice> {
    let (settings, printer) = (&prepared.context.settings, prepared.context.printer);
    let allowed = match (settings.protocol.value, prepared.fallback) {
        (Protocol::Kl, _) | (_, Fallback::Never) => false,
        (_, Fallback::Always) => true,
        (_, Fallback::Ask) => {
            if !printer.can_ask() {
                return Err(unproven(reason, &why)
                    .hint("there is no terminal to ask on: `--fallback always` works on the whole state instead"));
            }
            for note in &why {
                printer.note(&format!("because: {note}"));
            }
            let question = format!("{reason}. Lock and work on the whole state instead?");
            prepared.interrupts.unless(printer.ask(&question)).await??
        }
    };
    if !allowed {
        return Err(unproven(reason, &why)
            .hint("widen the scope, or allow `--fallback always` to work on the whole state"));
    }
    Ok(ordinary(reason.to_owned(), why, targets))
}

fn unproven(reason: &str, why: &[String]) -> Failure {
    let failure = Failure::message(Kind::Unproven, reason.to_owned());
    why.iter().fold(failure, |failure, note| {
        failure.hint(format!("because: {note}"))
    })
}
