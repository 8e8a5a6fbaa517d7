//! Whether a file is under version control.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether git tracks the file. No git, no repository or any other trouble counts as "no": this
/// only ever adds a refusal, and never stands in the way of a directory without git.
pub(super) fn is_tracked(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return false;
    };
    Command::new("git")
        // A repository's own configuration may name a program to run for this question.
        .args([
            "-c",
            "core.fsmonitor=false",
            "ls-files",
            "--error-unmatch",
            "--",
        ])
        .arg(name)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
