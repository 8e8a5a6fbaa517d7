//! Which files changed since a revision, as git sees it.

use std::path::Path;
use std::process::Command;

use config_scope::SourcePath;

use crate::failure::{Failure, Result};

/// The files that differ between `revision` and the working tree, deleted and new ones among them,
/// relative to `directory`.
///
/// # Errors
/// Usage failures with what git said.
pub(super) fn changed_since(revision: &str, directory: &Path) -> Result<Vec<SourcePath>> {
    if revision.starts_with('-') {
        return Err(Failure::usage(format!("`{revision}` is not a revision")));
    }
    // Both commands print paths from the top of the work tree when they run there.
    let up = git(directory, &["rev-parse", "--show-cdup"])?;
    let prefix = git(directory, &["rev-parse", "--show-prefix"])?;
    let (up, prefix) = (line(&up), line(&prefix));
    let top = directory.join(&up);
    let tracked = git(
        &top,
        &["diff", "--name-only", "--no-renames", "-z", revision, "--"],
    )?;
    let new = git(&top, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut files: Vec<SourcePath> = [tracked, new]
        .iter()
        .flat_map(|names| names.split(|byte| *byte == 0))
        .filter(|name| !name.is_empty())
        .map(|name| from_top(&String::from_utf8_lossy(name), &prefix, &up))
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// A path from the top of the work tree, as seen from the directory at `prefix`.
fn from_top(path: &str, prefix: &str, up: &str) -> SourcePath {
    let mut climbed = String::new();
    let mut here: &str = prefix;
    loop {
        if let Some(rest) = path.strip_prefix(here) {
            return SourcePath::new(&format!("{climbed}{rest}"));
        }
        climbed.push_str("../");
        let above = here.trim_end_matches('/').rfind('/');
        match above {
            Some(slash) => here = &here[..=slash],
            None => return SourcePath::new(&format!("{up}{path}")),
        }
    }
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn git(directory: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        // git must not take a lock or start a pager for a question.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .map_err(|error| {
            Failure::usage(format!(
                "--changed-from needs git, and it did not start: {error}"
            ))
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::usage(format!("git: {}", said.trim())).context("could not find out what changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_root_module() {
        for (path, prefix, up, expected) in [
            ("a.tf", "", "", "a.tf"),
            ("env/prod/a.tf", "env/prod/", "../../", "a.tf"),
            ("env/b.tf", "env/prod/", "../../", "../b.tf"),
            (
                "modules/m/x.tf",
                "env/prod/",
                "../../",
                "../../modules/m/x.tf",
            ),
        ] {
            assert_eq!(from_top(path, prefix, up).as_str(), expected, "{path}");
        }
    }
}
