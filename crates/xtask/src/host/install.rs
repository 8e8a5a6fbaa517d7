//! What the machine must have, and how to get it.
//!
//! As root on a Debian-like system a missing service is installed by apt, without starting the package's own server.
//! Otherwise the error names the packages.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::foreground;

/// A program we need, and the Debian package that brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Postgres,
    Redis,
    Haproxy,
}

impl Tool {
    fn package(self) -> &'static str {
        match self {
            Self::Postgres => "postgresql",
            Self::Redis => "redis-server",
            Self::Haproxy => "haproxy",
        }
    }

    fn is_installed(self) -> bool {
        match self {
            Self::Postgres => postgres_bin_dir().is_some(),
            Self::Redis => find_on_path("redis-server").is_some(),
            Self::Haproxy => haproxy().is_some(),
        }
    }
}

/// Installs what is missing of `tools`, or says what to install.
pub(crate) async fn ensure(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&str> = tools
        .iter()
        .filter(|tool| !tool.is_installed())
        .map(|tool| tool.package())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || find_on_path("apt-get").is_none() {
        bail!(
            "this needs programs that are not installed; on Debian or Ubuntu: sudo apt-get install {}",
            missing.join(" ")
        );
    }
    eprintln!("xtask: installing {} with apt", missing.join(", "));
    let _guard = NoServiceStarts::set();
    if apt(&["install"], &missing).await.is_err() {
        // A fresh image carries no package lists, or old ones.
        apt(&["update"], &[]).await?;
        apt(&["install"], &missing).await?;
    }
    match tools.iter().find(|tool| !tool.is_installed()) {
        Some(tool) => bail!(
            "apt installed {} but its programs are not to be found",
            tool.package()
        ),
        None => Ok(()),
    }
}

async fn apt(action: &[&str], packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-y", "-o", "Dpkg::Use-Pty=0"])
        .args(action)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    foreground::output(command).await.map(drop)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The directory of Postgres's programs: the newest of Debian's versioned ones, or one on the path.
pub(crate) fn postgres_bin_dir() -> Option<PathBuf> {
    let is_complete = |dir: &PathBuf| {
        ["initdb", "postgres", "pg_isready", "psql"]
            .iter()
            .all(|program| dir.join(program).exists())
    };
    let versioned = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, bin)| is_complete(bin))
        .max();
    versioned.map(|(_, bin)| bin).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(is_complete)
    })
}

/// Debian keeps `haproxy` in `/usr/sbin`, which is not on every user's path.
pub(crate) fn haproxy() -> Option<PathBuf> {
    find_on_path("haproxy").or_else(|| {
        let sbin = PathBuf::from("/usr/sbin/haproxy");
        sbin.exists().then_some(sbin)
    })
}

pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

/// While it lives, package scripts start no servers (Debian's policy-rc.d convention). A policy of the machine's own
/// is left alone.
struct NoServiceStarts {
    created: bool,
}

impl NoServiceStarts {
    const FILE: &str = "/usr/sbin/policy-rc.d";

    fn set() -> Self {
        let created = !Path::new(Self::FILE).exists() && Self::create().is_ok();
        Self { created }
    }

    fn create() -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(Self::FILE, "#!/bin/sh\nexit 101\n").context(Self::FILE)?;
        std::fs::set_permissions(Self::FILE, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }
}

impl Drop for NoServiceStarts {
    fn drop(&mut self) {
        if self.created {
            let _ = std::fs::remove_file(Self::FILE);
        }
    }
}
