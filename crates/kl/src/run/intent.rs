//! A contract and its outcome in words: what a run is going to do, and what it did.

use std::collections::BTreeSet;

use protocol::runs::{Run, Unsettled};
use protocol::scope::{ClaimMode, ScopeConfidence, ScopeContract};

use crate::output::Printer;

/// More addresses than these are counted instead of listed.
const MOST_LISTED: usize = 8;

/// Says before anything happens on what, how sure, and what is claimed.
pub(crate) fn announce(run: &Run, printer: Printer) {
    let contract = &run.contract;
    printer.note(&format!(
        "lane: native, run {}, on version {} of {}",
        run.id, run.base_seq, run.state
    ));
    printer.note(&format!(
        "scope: {}, writes {} and reads {} of {} instances",
        confidence(contract.confidence),
        contract.write_addresses.len(),
        contract.read_addresses.len(),
        contract.diagnostics.realized_resource_count
    ));
    let claims: BTreeSet<&str> = contract
        .reservation_candidates
        .iter()
        .filter(|claim| claim.mode == ClaimMode::Write)
        .map(|claim| claim.address.as_str())
        .collect();
    match run.reservation {
        Some(_) => printer.note(&format!("claims: {}", listed(&claims))),
        None => printer.note(&format!(
            "claims: none; an apply would claim {}",
            listed(&claims)
        )),
    }
    for note in &contract.notes {
        printer.note(&format!("note: {note}"));
    }
    if !contract.removed_config_nodes.is_empty() && !contract.dependents.is_empty() {
        printer.warning(&format!(
            "{} will go, and is still named by {}",
            contract.removed_config_nodes.join(", "),
            contract.dependents.join(", ")
        ));
    }
    for mark in &run.unsettled {
        printer.warning(&format!(
            "{}; it is refreshed first, and settled by an apply",
            unsettled(mark)
        ));
    }
}

/// A mark in words: where, whose, and why.
pub(crate) fn unsettled(mark: &Unsettled) -> String {
    let what = match mark.address.as_str() {
        "*" => "the whole state",
        address => address,
    };
    let of = match mark.who.as_str() {
        "" => String::new(),
        who => format!(" of {who}"),
    };
    let whose = match &mark.run {
        Some(run) => format!("run {run}{of}"),
        None => format!("an apply of plain Terraform{of}"),
    };
    format!("{what} is unsettled since {whose}: {}", mark.reason)
}

fn confidence(confidence: ScopeConfidence) -> &'static str {
    match confidence {
        ScopeConfidence::Safe => "safe",
        ScopeConfidence::Widened => "widened",
        ScopeConfidence::Unsafe => "unsafe",
    }
}

/// Says afterwards what is on record.
pub(crate) fn outcome(run: &Run, printer: Printer) {
    let changed: BTreeSet<&str> = run
        .versions
        .iter()
        .flat_map(|version| version.changed.iter().map(String::as_str))
        .collect();
    match (run.versions.first(), run.versions.last()) {
        (Some(first), Some(last)) if first.seq != last.seq => printer.note(&format!(
            "recorded: versions {} to {} (serial {}), with {}",
            first.seq,
            last.seq,
            last.serial,
            listed(&changed)
        )),
        (Some(only), _) => printer.note(&format!(
            "recorded: version {} (serial {}), with {}",
            only.seq,
            only.serial,
            listed(&changed)
        )),
        _ => printer.note("recorded: nothing changed in the state"),
    }
    if run.kept_count > 0 {
        printer.warning(&format!(
            "{} uploads came too late or went beyond the scope: they are kept, and `kl recover` shows them",
            run.kept_count
        ));
    }
}

fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = names
        .iter()
        .take(MOST_LISTED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_LISTED {
        text.push_str(&format!(" and {} more", names.len() - MOST_LISTED));
    }
    text
}

/// Why a scope cannot be proven, as the contract says.
pub(crate) fn doubts(contract: &ScopeContract) -> Vec<String> {
    let mut doubts = contract.notes.clone();
    if !contract.unknown_missing_from_state.is_empty() {
        doubts.push(format!(
            "neither in the state nor in the configuration: {}",
            contract.unknown_missing_from_state.join(", ")
        ));
    }
    doubts
}
