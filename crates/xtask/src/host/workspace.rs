//! Where things are: the checkout, the build output, the shared inputs beside the checkout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The checkout that this xtask was built from, and cargo's output directory for it.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

/// Which of cargo's two standard profiles to build and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    pub(crate) fn from_release_flag(release: bool) -> Self {
        if release { Self::Release } else { Self::Debug }
    }
}

#[derive(Deserialize)]
struct CargoMetadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// Asks cargo, so that `CARGO_TARGET_DIR` and configuration files count.
    pub(crate) fn locate() -> Result<Self> {
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(own_manifest_dir())
            .output()
            .context("cannot run `cargo metadata`")?;
        ensure!(
            output.status.success(),
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let metadata: CargoMetadata = serde_json::from_slice(&output.stdout)
            .context("`cargo metadata` answered something else than its documented JSON")?;
        Ok(Self {
            root: metadata.workspace_root,
            target: metadata.target_directory,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A cargo command in this checkout, not yet started.
    pub(crate) fn cargo(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(cargo());
        command.current_dir(&self.root);
        forget_cargo_run(&mut command);
        command
    }

    /// The directory that holds the built programs of `profile`.
    pub(crate) fn bin_dir(&self, profile: Profile) -> PathBuf {
        self.target.join(match profile {
            Profile::Debug => "debug",
            Profile::Release => "release",
        })
    }

    /// Cargo's output directory, where what developer commands leave behind belongs too.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Inputs too large for the repository: `KL_SHARED_DIR`, else `../shared` beside the checkout.
    pub(crate) fn shared_dir(&self) -> PathBuf {
        std::env::var_os("KL_SHARED_DIR").map_or_else(
            || {
                let beside = self.root.join("../shared");
                beside.canonicalize().unwrap_or(beside)
            },
            PathBuf::from,
        )
    }
}

/// Where this package lies. What cargo says now comes before what it said when this was compiled: checkouts that share a
/// target directory share the program too.
fn own_manifest_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The cargo that runs us, so that a toolchain override stays in force.
fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Takes away what `cargo run` says about the xtask package. Build scripts watch these variables (ring's does), so a
/// cargo that inherited them would build such packages and all above them once more, and so would the next direct one.
pub(crate) fn forget_cargo_run(command: &mut tokio::process::Command) {
    let about_us = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| about_us(name)) {
        command.env_remove(name);
    }
}
