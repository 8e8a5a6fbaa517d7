//! Compiling the crate that holds the queries against a live database, whatever state the rest is in.

use std::borrow::Cow;
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::host::foreground::Foreground;
use crate::host::workspace::Workspace;

/// The only crate with SQL.
const CRATE: &str = "store";

/// Compiles the workspace with live queries; the macros write what they learn into `out`.
pub(super) async fn with_live_queries(
    workspace: &Workspace,
    database_url: &str,
    out: &Path,
) -> Result<()> {
    let source = workspace
        .root()
        .join("crates")
        .join(CRATE)
        .join("src/lib.rs");
    let _touched = Touched::now(&source)?;

    let mut check = workspace.cargo();
    check
        // The whole workspace, or cargo would build the dependencies again with fewer features. What follows the
        // store crate may be broken while one works on it: keep going, and judge by the store crate alone.
        .args(["check", "--workspace", "--all-targets", "--keep-going"])
        .arg("--message-format=json-render-diagnostics")
        .env("DATABASE_URL", database_url)
        .env("SQLX_OFFLINE", "false")
        .env("SQLX_OFFLINE_DIR", out)
        .stdout(Stdio::piped());
    let (status, messages) = Foreground::spawn(check)?.wait_with_stdout().await?;
    if status.success() || crate_compiled(&messages) {
        Ok(())
    } else {
        bail!("the {CRATE} crate does not compile");
    }
}

#[derive(Deserialize)]
struct CargoMessage<'a> {
    reason: &'a str,
    #[serde(default)]
    target: Option<Target<'a>>,
    #[serde(default)]
    message: Option<Diagnostic<'a>>,
}

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow)]
    src_path: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Diagnostic<'a> {
    level: &'a str,
}

/// Whether cargo reports a compiled artifact of our crate and no error in any of its targets.
fn crate_compiled(messages: &str) -> bool {
    let ours = format!("/crates/{CRATE}/");
    let mut compiled = false;
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<CargoMessage<'_>>(line) else {
            continue;
        };
        if !message
            .target
            .is_some_and(|target| target.src_path.contains(&ours))
        {
            continue;
        }
        match message.reason {
            "compiler-artifact" => compiled = true,
            "compiler-message" if message.message.is_some_and(|it| it.level == "error") => {
                return false;
            }
            _ => {}
        }
    }
    compiled
}

/// A source file that looks changed to cargo while this lives: macros are expanded again although nothing changed.
/// Afterwards its time is put back, so that other builds need not compile it once more.
struct Touched {
    path: PathBuf,
    before: SystemTime,
    touched: SystemTime,
}

impl Touched {
    fn now(path: &Path) -> Result<Self> {
        let file = File::options()
            .write(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let before = file.metadata()?.modified()?;
        file.set_times(FileTimes::new().set_modified(SystemTime::now()))?;
        Ok(Self {
            path: path.to_owned(),
            before,
            touched: file.metadata()?.modified()?,
        })
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        let Ok(file) = File::options().write(true).open(&self.path) else {
            return;
        };
        // Somebody may have edited the file meanwhile; that must stay visible.
        let unchanged = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified == self.touched);
        if unchanged {
            let _ = file.set_times(FileTimes::new().set_modified(self.before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_crate_above_the_store_does_not_matter() {
        let artifact =
            r#"{"reason":"compiler-artifact","target":{"src_path":"/x/crates/store/src/lib.rs"}}"#;
        let above = r#"{"reason":"compiler-message","target":{"src_path":"/x/crates/engine/src/lib.rs"},"message":{"level":"error"}}"#;
        let within = r#"{"reason":"compiler-message","target":{"src_path":"/x/crates/store/tests/a.rs"},"message":{"level":"error"}}"#;
        let end = r#"{"reason":"build-finished","success":false}"#;
        assert!(crate_compiled(&[artifact, above, end].join("\n")));
        assert!(!crate_compiled(&[artifact, within, end].join("\n")));
        assert!(!crate_compiled(end));
    }

    #[test]
    fn a_touched_file_gets_its_time_back_unless_it_was_edited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.rs");
        std::fs::write(&path, "old").unwrap();
        let modified = || path.metadata().unwrap().modified().unwrap();
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();

        drop(Touched::now(&path).unwrap());
        assert_eq!(modified(), old);

        let touched = Touched::now(&path).unwrap();
        let edited = old + std::time::Duration::from_secs(5);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(edited)
            .unwrap();
        drop(touched);
        assert_eq!(modified(), edited);
    }
}
