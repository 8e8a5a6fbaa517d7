//! A day of plain terraform on Kilolock.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use serde_json::Value;
use tokio::process::Command;

use super::narrator::Narrator;
use crate::host::foreground::{self, Foreground};
use crate::stack::Stack;
use crate::terraform::{BACKEND, Backend, Directory, Terraform};
use crate::witness::{Exchange, Witness};

/// One state and everybody who works on it.
struct Scene<'a> {
    narrator: &'a mut Narrator,
    terraform: &'a Terraform,
    /// Sees every request of terraform on its way to the balancer, and keeps what was posted.
    witness: Witness,
    /// The state as terraform sees it, through the witness.
    watched: Backend,
    /// The same state, straight at the balancer.
    direct: Backend,
    kl: &'a Path,
}

const MODULE: &str = r#"
variable "size" {
  default = "small"
}

resource "terraform_data" "network" {
  input = "10.0.0.0/16"
}

resource "terraform_data" "server" {
  count = 3
  input = "${var.size} in ${terraform_data.network.output}"
}

output "servers" {
  value = terraform_data.server[*].output
}
"#;

/// Takes long enough to be caught in the act.
const SLOW: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "sleep 60"
  }
}
"#;

pub(crate) async fn tell(
    narrator: &mut Narrator,
    terraform: &Terraform,
    stack: &Stack,
    kl: &Path,
) -> Result<()> {
    let witness = Witness::start(stack.url()).await?;
    let mut scene = Scene {
        watched: stack.tenancy.writes(witness.url(), "network"),
        direct: stack.tenancy.writes(stack.url(), "network"),
        narrator,
        terraform,
        witness,
        kl,
    };
    scene.narrator.chapter("Plain terraform, nothing installed");
    scene
        .narrator
        .say("Two replicas of kld behind HAProxy; terraform knows an http backend and a token:");
    scene.narrator.command("cat backend.tf", BACKEND);
    let ann = scene.plain_terraform().await?;
    scene.second_terraform_waits(&ann).await?;
    scene.history().await
}

impl Scene<'_> {
    fn directory(&self) -> Result<Directory> {
        let directory = self.terraform.directory(Some(self.watched.clone()))?;
        directory.write("backend.tf", BACKEND)?;
        directory.write("main.tf", MODULE)?;
        Ok(directory)
    }

    /// Runs and shows a command that must work.
    async fn shows(&self, directory: &Directory, line: &str) -> Result<()> {
        let outcome = directory
            .run_ok(&line.split(' ').collect::<Vec<_>>())
            .await?;
        self.narrator
            .command(&format!("terraform {line}"), &outcome.stdout);
        Ok(())
    }

    async fn plain_terraform(&mut self) -> Result<Directory> {
        let ann = self.directory()?;
        self.shows(&ann, "init").await?;
        self.shows(&ann, "apply -auto-approve").await?;
        self.shows(&ann, "plan").await?;
        self.shows(&ann, "apply -auto-approve -var=size=large")
            .await?;
        self.shows(&ann, "state mv terraform_data.network terraform_data.net")
            .await?;
        ann.write(
            "main.tf",
            &MODULE
                .replace("terraform_data.network", "terraform_data.net")
                .replace("\"network\"", "\"net\""),
        )?;
        self.shows(&ann, "plan -var=size=large").await?;

        let pulled = ann.run_ok(&["state", "pull"]).await?.stdout;
        let mut document: Value = serde_json::from_str(&pulled)?;
        let serial = document["serial"]
            .as_u64()
            .context("a state without a serial")?;
        document["serial"] = Value::from(serial + 10);
        ann.write("edited.tfstate", &serde_json::to_string_pretty(&document)?)?;
        self.shows(&ann, "state push edited.tfstate").await?;
        Ok(ann)
    }

    async fn second_terraform_waits(&mut self, ann: &Directory) -> Result<()> {
        self.narrator
            .chapter("A second terraform is told who holds the lock");
        ann.write("slow.tf", SLOW)?;
        self.narrator
            .say("Ann applies something slow, through the balancer:");
        self.narrator
            .command("terraform apply -auto-approve -var=size=large &", "");
        let mut apply = ann.command(&["apply", "-auto-approve", "-var=size=large"]);
        apply
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let applying = Foreground::spawn_in_group(apply)?;
        let lock_id = self.wait_for_lock().await?;

        let bob = self.directory()?;
        bob.run_ok(&["init"]).await?;
        let refused = bob.run(&["plan"]).await?;
        ensure!(
            refused.code != 0,
            "a second terraform could plan under Ann's lock"
        );
        self.narrator
            .refusal("terraform plan   # Bob", &refused.stderr);
        ensure!(
            refused.stderr.contains(&lock_id),
            "terraform does not say which lock is in its way"
        );
        self.shows_kl(&["status"]).await?;

        self.narrator
            .chapter("Ann's laptop dies, and the lock outlives it");
        applying.kill().await?;
        self.narrator.command("kill -9 %1   # Ann's terraform", "");
        let refused = bob.run(&["plan"]).await?;
        ensure!(refused.code != 0, "a lock went away with its holder");
        self.narrator
            .refusal("terraform plan   # Bob", &refused.stderr);
        self.narrator
            .say("Nobody may take over by accident: the state is still locked, until Bob decides.");
        self.shows(&bob, &format!("force-unlock -force {lock_id}"))
            .await?;
        bob.write(
            "main.tf",
            &std::fs::read_to_string(ann.path().join("main.tf"))?,
        )?;
        self.shows(&bob, "apply -auto-approve -var=size=large")
            .await?;
        self.shows(&bob, "destroy -auto-approve").await
    }

    /// The lock's id as its holder knows it, once somebody holds the state.
    async fn wait_for_lock(&self) -> Result<String> {
        let client = reqwest::Client::new();
        let url = format!("{}/status", self.direct.address);
        for _ in 0..200 {
            let status: Value = client
                .get(&url)
                .bearer_auth(&self.direct.token)
                .send()
                .await?
                .json()
                .await?;
            if let Some(id) = status.pointer("/holders/0/lock_id").and_then(Value::as_str) {
                return Ok(id.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("terraform took no lock within 20 s")
    }

    async fn shows_kl(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.kl);
        command
            .args(arguments)
            .env("KL_STATE_URL", &self.direct.address)
            .env("KL_TOKEN", &self.direct.token)
            .env("NO_COLOR", "1");
        let output = String::from_utf8(foreground::output(command).await?)?;
        self.narrator
            .command(&format!("kl {}", arguments.join(" ")), &output);
        Ok(())
    }

    async fn history(&mut self) -> Result<()> {
        self.narrator
            .chapter("Every version is there, byte for byte");
        self.shows_kl(&["history"]).await?;
        let written: Vec<Bytes> = self
            .witness
            .take()
            .into_iter()
            .filter_map(Exchange::into_written)
            .collect();
        let client = reqwest::Client::new();
        for (document, seq) in written.iter().zip(1..) {
            let url = format!("{}/versions/{seq}/document", self.direct.address);
            let stored = client
                .get(&url)
                .bearer_auth(&self.direct.token)
                .send()
                .await?
                .error_for_status()?
                .bytes()
                .await?;
            ensure!(
                stored == *document,
                "version {seq} is not what terraform posted ({} bytes against {})",
                stored.len(),
                document.len()
            );
        }
        self.narrator.say(&format!(
            "All {} documents that terraform posted came back unchanged, compared byte by byte.",
            written.len()
        ));
        Ok(())
    }
}
