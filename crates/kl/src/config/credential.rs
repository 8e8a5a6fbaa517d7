//! Where the token is found, and fetching it.
//!
//! Finding and fetching are apart: `kl config` shows where the token would come from without
//! running anybody's password manager.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Server, Sourced, Surroundings, git};
use crate::failure::{Failure, Kind, Result};
use crate::secret::Secret;

/// Where a token is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    /// An environment variable.
    Variable(String),
    File(PathBuf),
    /// A program whose first line of output is the token, run without a shell.
    Command {
        words: Vec<String>,
        directory: PathBuf,
    },
    /// The password of Terraform's http backend, which for Kilolock is a token. It belongs to the
    /// server of that backend, where one is known, and is sent to no other.
    BackendPassword {
        password: Secret,
        server: Option<Server>,
    },
}

/// What may be said about a token in public.
impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(_) | Self::BackendPassword { .. } => f.write_str("********"),
            Self::File(path) => write!(f, "******** in {}", path.display()),
            // The arguments may be telling; the program is enough to know which setting it is.
            Self::Command { words, .. } => write!(f, "******** from `{} …`", words[0]),
        }
    }
}

/// A token that was fetched, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Credential(pub(crate) Secret);

/// Fetches the token.
///
/// # Errors
/// Usage failures for a variable that is not set, a file that is missing, empty or tracked by git;
/// a failure of kind "not authorised" for a command that did not print a token.
pub(crate) fn fetch(
    source: &Sourced<CredentialSource>,
    surroundings: &Surroundings,
) -> Result<Credential> {
    let from = &source.origin;
    let text = match &source.value {
        CredentialSource::Variable(name) => surroundings
            .variable(name)
            .ok_or_else(|| {
                Failure::usage(format!("the variable {name} that {from} names is not set")).hint(
                    format!("run `export {name}=…` with a token from `kl token create`"),
                )
            })?
            .to_owned(),
        CredentialSource::File(path) => {
            read_file(path).map_err(|failure| failure.context(format!("no token from {from}")))?
        }
        CredentialSource::Command { words, directory } => run(words, directory)
            .map_err(|failure| failure.context(format!("no token from {from}")))?,
        CredentialSource::BackendPassword { password, .. } => {
            return Ok(Credential(password.clone()));
        }
    };
    let token = text.trim();
    if token.is_empty() || token.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(Failure::usage(format!(
            "what {from} holds is not a token: it is empty or has white space inside"
        )));
    }
    Ok(Credential(Secret::new(token)))
}

/// As much as a file or command is listened to: a token has 60 characters, a device or `yes` no end.
const LONGEST_OUTPUT_BYTES: u64 = 64 * 1024;

fn read_file(path: &Path) -> Result<String> {
    if git::is_tracked(path) {
        return Err(Failure::usage(format!(
            "{} is tracked by git, and a token in a committed file is a leaked token",
            path.display()
        ))
        .hint("run `kl token revoke --leaked` with it, and keep the new one out of git"));
    }
    let unreadable = |error: std::io::Error| {
        Failure::new(Kind::Usage, error).context(format!("could not read {}", path.display()))
    };
    let mut text = String::new();
    File::open(path)
        .map_err(unreadable)?
        .take(LONGEST_OUTPUT_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}

fn run(words: &[String], directory: &Path) -> Result<String> {
    let program = &words[0];
    let refused = |problem: String| {
        Failure::message(Kind::NotAuthorised, format!("`{program}` {problem}"))
            .hint("run the token_command by hand to see what it says")
    };
    let mut child = Command::new(program)
        .args(&words[1..])
        .current_dir(directory)
        // A password manager may ask on the terminal and complain there; kl's stdin is not its.
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| refused(format!("could not be started: {error}")))?;
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout
            .take(LONGEST_OUTPUT_BYTES)
            .read_to_end(&mut printed)
            .map_err(|error| refused(format!("could not be read: {error}")))?;
    }
    if printed.len() as u64 == LONGEST_OUTPUT_BYTES {
        // It may never end; nobody listens to it any more.
        let _ = child.kill();
        let _ = child.wait();
        return Err(refused("printed more than a token".to_owned()));
    }
    let status = child
        .wait()
        .map_err(|error| refused(format!("could not be waited for: {error}")))?;
    if !status.success() {
        return Err(refused(format!("ended with {status}")));
    }
    let text = String::from_utf8(printed)
        .map_err(|_| refused("printed something that is not text".to_owned()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Origin;
    use super::*;

    fn fetched(source: CredentialSource, variables: &[(&str, &str)]) -> Result<Credential> {
        let surroundings = Surroundings::for_test(Path::new("/"), variables);
        fetch(
            &Sourced::new(source, Origin::Flag("--token-file")),
            &surroundings,
        )
    }

    #[test]
    fn a_command_gives_its_first_line_and_a_failing_one_says_which() {
        let command = |words: &[&str]| CredentialSource::Command {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            directory: PathBuf::from("/"),
        };
        let token = fetched(command(&["printf", "klp_x\\nmore\\n"]), &[]).unwrap();
        assert_eq!(token.0.expose(), "klp_x");
        let endless = fetched(command(&["yes"]), &[]).unwrap_err();
        assert_eq!(endless.kind(), Kind::NotAuthorised);
        let device = CredentialSource::File(PathBuf::from("/dev/zero"));
        assert_eq!(fetched(device, &[]).unwrap_err().kind(), Kind::Usage);
        let failure = fetched(command(&["false"]), &[]).unwrap_err();
        assert_eq!(failure.kind(), Kind::NotAuthorised);
        assert!(
            failure
                .causes()
                .any(|cause| cause.contains("`false` ended with"))
        );
    }

    #[test]
    fn a_file_loses_its_final_newline() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "klp_x\n").unwrap();
        assert_eq!(
            fetched(CredentialSource::File(file), &[])
                .unwrap()
                .0
                .expose(),
            "klp_x"
        );
        let failure = fetched(CredentialSource::File(folder.path().join("no")), &[]).unwrap_err();
        assert_eq!(failure.kind(), Kind::Usage);
    }

    #[test]
    fn two_lines_in_a_variable_are_no_token() {
        let source = || CredentialSource::Variable("T".to_owned());
        assert!(fetched(source(), &[("T", "a\nb")]).is_err());
        assert!(fetched(source(), &[]).is_err());
        assert_eq!(fetched(source(), &[("T", " a ")]).unwrap().0.expose(), "a");
    }
}
