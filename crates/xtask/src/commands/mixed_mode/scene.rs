//! One state, one configuration, and who works on it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Child;

use crate::actor::Actor;
use crate::kl::{Kl, PATIENCE};
use crate::stack::Stack;
use crate::terraform::{BACKEND, Directory, Terraform};

/// `net` is read by `a` and `c`; `b` has nothing to do with either.
pub(super) const NET: &str =
    "resource \"terraform_data\" \"net\" {\n  input = \"10.0.0.0/16\"\n}\n";

pub(super) struct Scene<'a> {
    pub(super) terraform: &'a Terraform,
    pub(super) stack: &'a Stack,
    pub(super) kl: Kl,
    /// Where `kl` and terraform of one person work; the other has a copy.
    pub(super) ann: Directory,
    pub(super) bob: Directory,
    pub(super) actor: Actor,
    state: String,
}

impl<'a> Scene<'a> {
    /// A state with four resources, and two people who have its configuration.
    pub(super) async fn set(
        terraform: &'a Terraform,
        stack: &'a Stack,
        kl: &Path,
        state: &str,
    ) -> Result<Self> {
        let backend = stack.tenancy.writes(stack.url(), state);
        let ann = terraform.directory(Some(backend.clone()))?;
        let bob = terraform.directory(Some(backend.clone()))?;
        let scene = Self {
            terraform,
            stack,
            kl: Kl {
                program: kl.to_owned(),
                backend,
            },
            ann,
            bob,
            actor: Actor::new(stack, stack.url(), state),
            state: state.to_owned(),
        };
        for directory in [&scene.ann, &scene.bob] {
            directory.write("backend.tf", BACKEND)?;
            directory.write("net.tf", NET)?;
            for name in ["a", "b", "c"] {
                write_team(directory, name, "first", None)?;
            }
            directory.run_ok(&["init"]).await?;
        }
        scene.ann.run_ok(&["apply", "-auto-approve"]).await?;
        Ok(scene)
    }

    /// The state's full name, as bodies have it.
    pub(super) fn full_name(&self) -> String {
        let tenancy = &self.stack.tenancy;
        format!(
            "{}/{}/{}",
            tenancy.workspace, tenancy.environment, self.state
        )
    }

    /// What `kl status --json` says.
    pub(super) async fn status(&self) -> Result<Value> {
        let status = self.kl.run(&self.bob, "status --json").await?;
        serde_json::from_str(&status.stdout).context("`kl status --json` printed no JSON")
    }

    /// Ann's terraform or `kl` at work: an apply of `a` whose provisioner waits until [`At::finish`] lets it go on.
    pub(super) async fn at_work(&self, with: Tool) -> Result<At<'_>> {
        write_team(&self.ann, "a", &unique(), Some("go"))?;
        let child = match with {
            Tool::Kl => self
                .kl
                .command(&self.ann, "apply -f a.tf --auto-approve --confirm-scope")
                .spawn()?,
            Tool::Terraform => self
                .ann
                .command(&["apply", "-auto-approve"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?,
        };
        let at = At { scene: self, child };
        until("the provisioner runs", async || {
            Ok(self.ann.path().join("go.waiting").exists())
        })
        .await?;
        Ok(at)
    }
}

/// Which program somebody works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Terraform,
    Kl,
}

/// An apply that is under way.
pub(super) struct At<'a> {
    scene: &'a Scene<'a>,
    child: Child,
}

impl At<'_> {
    /// Lets the provisioner go on and waits for the end.
    pub(super) async fn finish(self) -> Result<()> {
        let directory = &self.scene.ann;
        directory.write("go", "")?;
        let output = tokio::time::timeout(PATIENCE, self.child.wait_with_output()).await??;
        directory.remove("go")?;
        directory.remove("go.waiting")?;
        write_team(directory, "a", "done", None)?;
        ensure!(
            output.status.success(),
            "the holder's own apply failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// Somebody's file: one resource that is replaced whenever `value` is another one.
pub(super) fn write_team(
    directory: &Directory,
    name: &str,
    value: &str,
    waits_for: Option<&str>,
) -> Result<()> {
    let network = if name == "b" {
        "none"
    } else {
        "${terraform_data.net.output}"
    };
    let provisioner = waits_for.map_or_else(String::new, |file| {
        format!(
            "  provisioner \"local-exec\" {{\n    command = \"touch {file}.waiting; while [ ! -e {file} ]; do sleep 0.1; done\"\n  }}\n"
        )
    });
    directory.write(
        &format!("{name}.tf"),
        &format!(
            "resource \"terraform_data\" \"{name}\" {{\n  input            = \"{network}\"\n  triggers_replace = \"{value}\"\n{provisioner}}}\n"
        ),
    )
}

/// A value that was never written before.
pub(super) fn unique() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Waits until something holds.
pub(super) async fn until(what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if holds().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("{what}: not within {} s", PATIENCE.as_secs())
}
