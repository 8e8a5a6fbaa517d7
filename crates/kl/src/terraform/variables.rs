//! Input variables: which are given, and asking for those that are not.
//!
//! Terraform runs without a terminal here, so kl asks in its place. Answers travel in the
//! environment, where a process list does not show them, and go to the apply as well as to the
//! plan: an ephemeral one is in no plan.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use config_scope::{Configuration, Variable, variables_assigned_in};

use crate::config::Surroundings;
use crate::failure::{Failure, Result};
use crate::near::near;
use crate::secret::Secret;

/// What is known of the input variables of a run.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// `-var` and `-var-file`, in the order in which they were given.
    flags: Vec<String>,
    asked: Vec<(String, Secret)>,
    has_ephemeral: bool,
}

impl Variables {
    /// The flags for a plan.
    pub(crate) fn for_plan(&self) -> &[String] {
        &self.flags
    }

    /// The flags for the apply of a saved plan, which has all but ephemeral ones inside.
    pub(crate) fn for_apply(&self) -> &[String] {
        if self.has_ephemeral { &self.flags } else { &[] }
    }

    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, &str)> {
        self.asked
            .iter()
            .map(|(name, value)| (format!("TF_VAR_{name}"), value.expose()))
    }
}

/// Finds out which required variables nobody has given, and asks for them on the terminal.
///
/// # Errors
/// A usage failure that names them, where there is no terminal.
pub(crate) fn ask_missing(
    configuration: &Configuration,
    flags: Vec<String>,
    surroundings: &Surroundings,
) -> Result<Variables> {
    let given = given(configuration, &flags, surroundings);
    let declared = configuration.variables();
    refuse_undeclared(&flags, &declared)?;
    let missing: Vec<&Variable> = declared
        .iter()
        .filter(|variable| !variable.has_default && !given.contains(variable.name.as_str()))
        .filter(|variable| {
            surroundings
                .variable(&format!("TF_VAR_{}", variable.name))
                .is_none()
        })
        .collect();
    let mut asked = Vec::new();
    if !missing.is_empty() {
        if !std::io::stdin().is_terminal() {
            return Err(refusal(&missing));
        }
        for variable in missing {
            asked.push((variable.name.clone(), ask(variable)?));
        }
    }
    Ok(Variables {
        flags,
        asked,
        has_ephemeral: declared.iter().any(|variable| variable.ephemeral),
    })
}

/// Refuses `-var` for what is no variable: Terraform would say so only after the run had begun.
fn refuse_undeclared(flags: &[String], declared: &[Variable]) -> Result<()> {
    let assigned = flags.iter().filter_map(|flag| flag.strip_prefix("-var="));
    let names = assigned.filter_map(|assignment| Some(assignment.split_once('=')?.0.trim()));
    let is_declared = |name: &&str| declared.iter().any(|variable| variable.name == *name);
    let Some(unknown) = names.into_iter().find(|name| !is_declared(name)) else {
        return Ok(());
    };
    let failure = Failure::usage(format!(
        "-var {unknown}=…: the configuration declares no variable of that name"
    ));
    let known = declared.iter().map(|variable| variable.name.as_str());
    Err(match near(unknown, known).as_slice() {
        [] => failure,
        near => failure.hint(format!("near it are {}", near.join(", "))),
    })
}

/// The names that flags and files assign.
fn given(
    configuration: &Configuration,
    flags: &[String],
    surroundings: &Surroundings,
) -> BTreeSet<String> {
    let assigned = configuration.assigned_variables();
    let mut given: BTreeSet<String> = assigned.into_iter().map(str::to_owned).collect();
    for flag in flags {
        if let Some(assignment) = flag.strip_prefix("-var=") {
            given.extend(
                assignment
                    .split('=')
                    .next()
                    .map(|name| name.trim().to_owned()),
            );
        } else if let Some(file) = flag.strip_prefix("-var-file=") {
            // One that cannot be read is Terraform's to complain about.
            let bytes = std::fs::read(surroundings.directory.join(Path::new(file)));
            let names = bytes
                .ok()
                .and_then(|bytes| variables_assigned_in(file, &bytes));
            given.extend(names.unwrap_or_default());
        }
    }
    given
}

fn refusal(missing: &[&Variable]) -> Failure {
    let names: Vec<&str> = missing
        .iter()
        .map(|variable| variable.name.as_str())
        .collect();
    let (what, example) = match names.as_slice() {
        [one] => (format!("the variable {one} has no value"), *one),
        several => (
            format!("the variables {} have no value", several.join(", ")),
            several[0],
        ),
    };
    Failure::usage(format!("{what}, and there is no terminal to ask on")).hint(format!(
        "give it with `-var {example}=…`, a .tfvars file, or TF_VAR_{example}"
    ))
}

fn ask(variable: &Variable) -> Result<Secret> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "var.{} ({}): ", variable.name, variable.at)?;
    stderr.flush()?;
    let hidden = variable.sensitive || variable.ephemeral;
    let _silent = if hidden { Silent::new() } else { None };
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if hidden {
        writeln!(stderr)?;
    }
    Ok(Secret::new(answer.trim_end_matches(['\r', '\n'])))
}

/// A terminal that does not show what is typed, until the value goes.
struct Silent(rustix::termios::Termios);

impl Silent {
    fn new() -> Option<Self> {
        let before = rustix::termios::tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(
            std::io::stdin(),
            rustix::termios::OptionalActions::Now,
            &silent,
        )
        .ok()?;
        Some(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        _ = rustix::termios::tcsetattr(
            std::io::stdin(),
            rustix::termios::OptionalActions::Now,
            &self.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use config_scope::MemoryTree;

    use super::*;

    #[test]
    fn every_way_of_giving_a_variable_counts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.tfvars"), "by_file = 1\n").unwrap();
        let mut tree = MemoryTree::new();
        tree.insert(
            "main.tf",
            "variable \"by_auto\" {}\nvariable \"by_flag\" {}\nvariable \"by_file\" {}\nvariable \"by_env\" {}\nvariable \"missing\" {}\nvariable \"has\" {\n default = 1\n}\n",
        );
        tree.insert("a.auto.tfvars", "by_auto = 1\n");
        let configuration = Configuration::load(&tree).unwrap();
        let surroundings = Surroundings::for_test(folder.path(), &[("TF_VAR_by_env", "1")]);
        let flags = vec![
            "-var=by_flag=a=b".to_owned(),
            "-var-file=x.tfvars".to_owned(),
        ];
        let failure = ask_missing(&configuration, flags, &surroundings).unwrap_err();
        assert_eq!(
            failure.causes().next().unwrap(),
            "the variable missing has no value, and there is no terminal to ask on"
        );
    }
}
