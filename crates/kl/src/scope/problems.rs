//! What is wrong with a selection, each with what to do about it.

use std::collections::BTreeSet;

use config_scope::{Configuration, FileReport, FileRole, Unmatched};

use crate::failure::{Failure, Kind, Result};
use crate::near::near;

/// More names than these are counted instead of listed.
const MOST_LISTED: usize = 20;

/// A configuration that Terraform could not read either is not planned.
pub(crate) fn refuse_unparsed(configuration: &Configuration) -> Result<()> {
    let mut unparsed = configuration.unparsed();
    let Some(first) = unparsed.next() else {
        return Ok(());
    };
    let mut failure = Failure::failed(format!("{first}"))
        .context("the configuration cannot be read, and what it declares there is not known");
    for doubt in unparsed.take(MOST_LISTED) {
        failure = failure.hint(format!("also {doubt}"));
    }
    Err(failure.hint("run `terraform validate`; nothing was planned"))
}

/// A target that is neither declared nor in the state.
pub(super) fn unknown_target(unmatched: &Unmatched) -> Failure {
    let failure = Failure::usage(format!(
        "`{}` matches nothing: it is neither in the configuration nor in the state",
        unmatched.target
    ));
    match unmatched.near.as_slice() {
        [] => failure.hint("run `kl state list` for the addresses there are"),
        near => failure.hint(format!("near it are {}", near.join(", "))),
    }
}

/// A file that nothing is known of.
pub(super) fn unknown_file(report: &FileReport, configuration: &Configuration) -> Failure {
    let failure = Failure::usage(format!(
        "{} is not part of the configuration, and nothing in the state was recorded from it",
        report.file
    ));
    let files: BTreeSet<&str> = configuration
        .nodes()
        .map(|node| node.at.file.as_str())
        .collect();
    match near(report.file.as_str(), files).first() {
        Some(file) => failure.hint(format!("did you mean {file}?")),
        None => failure.hint("files are named relative to the directory of the root module"),
    }
}

/// Files that declare nothing which could be planned: who depends on them is told instead.
pub(super) fn nothing_selected(reports: &[FileReport]) -> Failure {
    let names: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    let what = match reports {
        [only] if only.role == FileRole::Variables => "assigns variables and declares no resource",
        [only] if only.role == FileRole::Input => "is read by resources and declares none",
        [_] => "declares no resource: only locals, variables, outputs or the like",
        _ => "declare no resource: only locals, variables, outputs or the like",
    };
    let failure = Failure::message(Kind::Usage, format!("{} {what}", names.join(", ")));
    let affected: BTreeSet<String> = reports
        .iter()
        .flat_map(|report| &report.affects)
        .map(ToString::to_string)
        .collect();
    if affected.is_empty() {
        return failure.hint("no resource depends on it either");
    }
    failure
        .hint(format!("what depends on it: {}", listed(&affected)))
        .hint("plan those with --target, or the files that declare them with -f")
}

/// Says beside a failure which outputs are left of files that are gone: deleting a file is what names none of them.
pub(super) fn with_stale_outputs(failure: Failure, outputs: &BTreeSet<String>) -> Failure {
    if outputs.is_empty() {
        return failure;
    }
    failure.hint(format!(
        "{}: `kl plan` on the whole state removes it",
        stale(outputs)
    ))
}

/// Outputs without a declaration, in words.
pub(super) fn stale(outputs: &BTreeSet<String>) -> String {
    let word = if outputs.len() == 1 {
        "output"
    } else {
        "outputs"
    };
    format!(
        "in the state and no longer in the configuration: {word} {}",
        listed(outputs)
    )
}

/// Names, and how many more there are.
pub(crate) fn listed(names: &BTreeSet<String>) -> String {
    let mut text = names
        .iter()
        .take(MOST_LISTED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_LISTED {
        text.push_str(&format!(" and {} more", names.len() - MOST_LISTED));
    }
    text
}
