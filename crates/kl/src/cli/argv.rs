//! Terraform's spelling of long flags: `-json`, `-lock=false`.
//!
//! Terraform writes long flags with one dash, and hands are trained on it. One dash before a long
//! flag that some command has is therefore read as two. Short flags and their clusters are left
//! alone, and so is everything after `--`.
//!
//! A token among the arguments is noticed here, before anything could repeat it in a message.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Command;

use crate::secret::find_token;

/// Rewrites the arguments, the program's name among them.
pub(crate) fn normalise(
    arguments: impl IntoIterator<Item = OsString>,
    command: &Command,
) -> Vec<OsString> {
    let mut known = BTreeSet::new();
    collect(command, &mut known);
    let mut literal = false;
    arguments
        .into_iter()
        .map(|argument| {
            literal |= argument == "--";
            match argument.to_str() {
                Some(text) if !literal && is_single_dashed(text, &known) => {
                    format!("-{text}").into()
                }
                _ => argument,
            }
        })
        .collect()
}

/// Whether an argument holds a token. The one command that takes one is for tokens that have
/// leaked already.
pub(crate) fn holds_token(arguments: &[OsString]) -> bool {
    let is_revoking = arguments.iter().any(|argument| argument == "revoke");
    !is_revoking
        && arguments
            .iter()
            .any(|argument| find_token(&argument.to_string_lossy()).is_some())
}

/// Whether plan or apply is given Terraform's `-state=FILE`, which with two dashes is the name of a
/// state.
pub(crate) fn names_state_file(arguments: &[OsString]) -> bool {
    let is_work = arguments
        .iter()
        .skip(1)
        .any(|argument| ["plan", "apply"].iter().any(|command| argument == command));
    let is_state_file = |text: &str| {
        ["-state", "-state-out", "-backup"].iter().any(|flag| {
            text == *flag
                || text
                    .strip_prefix(flag)
                    .is_some_and(|rest| rest.starts_with('='))
        })
    };
    is_work
        && arguments
            .iter()
            .filter_map(|argument| argument.to_str())
            .any(is_state_file)
}

fn is_single_dashed(text: &str, known: &BTreeSet<String>) -> bool {
    let Some(flag) = text.strip_prefix('-') else {
        return false;
    };
    let name = flag.split('=').next().unwrap_or(flag);
    name.len() > 1 && !name.starts_with('-') && known.contains(name)
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    known.extend(["help", "version"].map(str::to_owned));
    for argument in command.get_arguments() {
        known.extend(argument.get_long().map(str::to_owned));
        known.extend(
            argument
                .get_all_aliases()
                .into_iter()
                .flatten()
                .map(str::to_owned),
        );
    }
    for subcommand in command.get_subcommands() {
        collect(subcommand, known);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_state_file_is_not_taken_for_the_name_of_a_state() {
        let names = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            names_state_file(&arguments)
        };
        assert!(names("kl plan -state=x.tfstate"));
        assert!(names("kl apply -state x.tfstate"));
        assert!(!names("kl plan --state prod"));
        assert!(!names("kl show -state prod t.a"));
    }

    fn normalised(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from);
        normalise(arguments, &crate::cli::Cli::command())
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn one_dash_before_a_long_flag_is_two() {
        assert_eq!(
            normalised("kl -json status -state=prod"),
            "kl --json status --state=prod"
        );
        assert_eq!(
            normalised("kl import snapshot - -lock=false"),
            "kl import snapshot - --lock=false"
        );
        assert_eq!(normalised("kl pull -out x"), "kl pull --out x");
    }

    #[test]
    fn short_flags_values_and_what_follows_two_dashes_stay() {
        for line in [
            "kl -q pull -o x",
            "kl --json",
            "kl show -x",
            "kl show -- -json",
            "kl pull -",
        ] {
            assert_eq!(normalised(line), line);
        }
    }
}
