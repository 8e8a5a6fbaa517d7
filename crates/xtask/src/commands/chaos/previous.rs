//! The service as an earlier revision has it, to run beside the present one as during a deployment.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::stage::PROGRAM;
use crate::host::foreground;
use crate::host::workspace::Workspace;

/// Builds the replicas of a revision, with their switches; answers the directory that they are in.
pub(super) async fn build(workspace: &Workspace, revision: &str) -> Result<PathBuf> {
    let place = workspace.target().join("chaos").join("previous");
    let (checkout, target) = (place.join("checkout"), place.join("target"));
    if checkout.exists() {
        std::fs::remove_dir_all(&checkout)?;
    }
    std::fs::create_dir_all(&checkout)?;
    // Not a work tree: nothing is to be left in the repository.
    let packed = place.join("checkout.tar");
    let mut archive = Command::new("git");
    archive
        .current_dir(workspace.root())
        .args(["archive", "-o"]);
    archive.arg(&packed).arg(revision);
    foreground::run_checked(archive).await?;
    let unpacked = Command::new("tar")
        .arg("-xf")
        .arg(&packed)
        .arg("-C")
        .arg(&checkout)
        .stdin(Stdio::null())
        .status()
        .await
        .context("cannot run tar")?;
    ensure!(unpacked.success(), "tar ended with {unpacked}");
    let mut build = workspace.cargo();
    build
        .current_dir(&checkout)
        .env("CARGO_TARGET_DIR", &target)
        .args(["build", "--workspace", "--features", "kld/faults"])
        .args(["--bin", PROGRAM]);
    foreground::run_checked(build).await?;
    Ok(target.join("debug"))
}
