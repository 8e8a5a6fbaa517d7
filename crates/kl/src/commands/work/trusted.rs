//! What both commands do with a native run: plan in it, hold the plan against it, end it.

use protocol::runs::{FinishRun, Run, RunBackend, RunOutcome};

use super::lane::Choice;
use super::prepare::Prepared;
use super::terraform::{Made, Workshop};
use crate::config::{StateAddress, credential};
use crate::failure::{Failure, Kind, Result};
use crate::plan::{Held, Plan, breaches, created_beside_slice};
use crate::secret::Secret;
use crate::terraform::Redirection;

/// Leads Terraform to the run.
pub(in crate::commands) fn to_run(run: &Run) -> Result<Redirection> {
    let RunBackend {
        address,
        username,
        password,
    } = run
        .backend
        .clone()
        .ok_or_else(|| Failure::failed(format!("run {} has ended", run.id)))?;
    Ok(Redirection {
        address,
        username,
        password: Secret::new(password),
    })
}

/// Leads Terraform to the whole state, with the caller's own token.
pub(super) fn to_state(prepared: &Prepared<'_>, state: &StateAddress) -> Result<Redirection> {
    let context = prepared.context;
    let source = context.settings.credential.as_ref();
    let token = source.map(|source| credential::fetch(source, &context.surroundings));
    Ok(Redirection {
        address: state.url().to_string(),
        username: "kl".to_owned(),
        password: match token.transpose()? {
            Some(token) => token.0,
            None => Secret::new(""),
        },
    })
}

/// Plans in a run and holds the plan against the contract.
pub(super) async fn plan(
    prepared: &Prepared<'_>,
    workshop: &mut Workshop<'_>,
    run: &Run,
    choice: &Choice,
    targets: &[String],
) -> Result<Made> {
    if !run.unsettled.is_empty() && prepared.terraform.skips_refresh() {
        return Err(Failure::usage(
            "the scope has unsettled addresses, and without a refresh nothing is known of them",
        )
        .hint("leave out -refresh=false this time"));
    }
    let made = workshop.plan(targets, &[]).await?;
    hold(prepared, run, &made.plan, choice.inventory.clone()).await?;
    Ok(made)
}

/// Holds a plan against the contract of its run.
///
/// # Errors
/// A failure that names each address which goes beyond it.
pub(super) async fn hold(
    prepared: &Prepared<'_>,
    run: &Run,
    plan: &Plan,
    mut inventory: Option<std::collections::BTreeSet<String>>,
) -> Result<()> {
    if inventory.is_none() && created_beside_slice(plan, &run.contract) {
        let found = prepared.client.get_inventory(&prepared.state).await?;
        inventory = Some(found.addresses.into_iter().map(|one| one.address).collect());
    }
    let held = Held {
        contract: &run.contract,
        inventory: inventory.as_ref(),
    };
    let breaches = breaches(plan, &held);
    if breaches.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::message(
        Kind::Failed,
        "the plan goes beyond its scope, and was not applied",
    );
    let mut remedies = Vec::new();
    for breach in breaches {
        failure = failure.hint(breach.what);
        if !remedies.contains(&breach.remedy) {
            remedies.push(breach.remedy);
        }
    }
    Err(remedies.into_iter().fold(failure, Failure::hint))
}

/// Ends a run. That this fails is no failure of the work: its lease ends it then.
pub(in crate::commands) async fn finish(
    prepared: &Prepared<'_>,
    run: &Run,
    outcome: RunOutcome,
    plan_sha256: Option<String>,
    error: Option<String>,
) -> Option<Run> {
    let end = FinishRun {
        outcome,
        plan_sha256,
        error,
        checked: true,
        refreshed: !prepared.terraform.skips_refresh(),
    };
    match prepared.client.finish_run(&run.id, &end).await {
        Ok(run) => Some(run),
        Err(error) => {
            prepared.context.printer.warning(&format!(
                "run {} could not be ended ({error}); it ends with its lease",
                run.id
            ));
            None
        }
    }
}

/// The first line of a failure, for the record.
pub(in crate::commands) fn reason(failure: &Failure) -> String {
    failure.causes().next().unwrap_or_default()
}
