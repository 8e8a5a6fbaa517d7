//! The temporary directory of a stack: data, logs, the pid file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Removed when dropped, unless [`Scratch::keep_logs`] was called.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    pub(crate) fn create() -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("klstack.")
            // Postgres runs as another user when we are root and must reach its directory below.
            .permissions(std::fs::Permissions::from_mode(0o711))
            .tempdir()
            .context("cannot create a temporary directory")?;
        Ok(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn pids_file(&self) -> PathBuf {
        self.path().join("pids")
    }

    /// Creates a directory for one service's data.
    pub(crate) fn data_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.path().join("data").join(name);
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// From now on only the data goes away in the end: logs and configuration stay.
    pub(crate) fn keep_logs(&mut self) {
        self.dir.disable_cleanup(true);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path().join("data"));
    }
}
