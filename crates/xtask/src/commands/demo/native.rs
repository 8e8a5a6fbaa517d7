//! The native lane: eight teams on one state, with the real terraform each.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::narrator::Narrator;
use crate::kl::{Kl, PATIENCE};
use crate::stack::Stack;
use crate::terraform::{BACKEND, Directory, Outcome, Terraform};

/// As many teams as apply at once.
const TEAMS: usize = 8;

const NETWORK: &str = "resource \"terraform_data\" \"network\" {\n  input = \"10.0.0.0/16\"\n}\n";

struct Scene<'a> {
    narrator: &'a mut Narrator,
    directory: Directory,
    kl: Kl,
}

pub(crate) async fn tell(
    narrator: &mut Narrator,
    terraform: &Terraform,
    stack: &Stack,
    kl: &Path,
) -> Result<()> {
    let backend = stack.tenancy.writes(stack.url(), "platform");
    let directory = terraform.directory(Some(backend.clone()))?;
    directory.write("backend.tf", BACKEND)?;
    directory.write("network.tf", NETWORK)?;
    let mut scene = Scene {
        narrator,
        directory,
        kl: Kl {
            program: kl.to_owned(),
            backend,
        },
    };
    scene.one_team().await?;
    scene.eight_teams().await?;
    scene.a_failing_apply().await?;
    scene.a_dead_runner().await?;
    scene.saved_plans().await?;
    scene.an_unproven_scope().await
}

fn team(name: &str, command: &str) -> String {
    format!(
        "resource \"terraform_data\" \"{name}\" {{\n  input = \"{name} in ${{terraform_data.network.output}}\"\n  provisioner \"local-exec\" {{\n    command = \"{command}\"\n  }}\n}}\n"
    )
}

impl Scene<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = self.kl.command(&self.directory, line);
        command.env("USER", "ann");
        command
    }

    async fn kl(&self, line: &str) -> Result<Outcome> {
        self.kl.run(&self.directory, line).await
    }

    /// Runs and shows a command that must end as expected: what kl says about it, then the result.
    async fn shows(&self, line: &str, code: u8) -> Result<Outcome> {
        let ended = self.kl(line).await?;
        ensure!(
            ended.code == code,
            "`kl {line}` ended with {} instead of {code}:\n{}{}",
            ended.code,
            ended.stdout,
            ended.stderr
        );
        let said = format!("{}{}", ended.stdout, ended.stderr);
        self.narrator
            .command(&format!("kl {line}   # exit {code}"), &said);
        Ok(ended)
    }

    async fn one_team(&mut self) -> Result<()> {
        self.narrator
            .chapter("kl plans a file with the real terraform, on a slice of the state");
        self.shows("apply -f network.tf --auto-approve", 0).await?;
        self.directory.write("team0.tf", &team("team0", "true"))?;
        self.shows("plan -f team0.tf", 0).await?;
        self.narrator
            .say("Nothing was written to the directory: no .terraform, no lock, no state.");
        let hidden = self.directory.path().join(".terraform");
        ensure!(!hidden.exists(), "kl left a data directory behind");
        Ok(())
    }

    async fn eight_teams(&mut self) -> Result<()> {
        self.narrator
            .chapter("Eight teams apply at once, and plain terraform is told who is at work");
        for number in 0..TEAMS {
            let name = format!("team{number}");
            self.directory
                .write(&format!("{name}.tf"), &team(&name, "sleep 5"))?;
        }
        let started = Instant::now();
        let mut running = Vec::new();
        for number in 0..TEAMS {
            running.push(
                self.command(&format!("apply -f team{number}.tf --auto-approve"))
                    .spawn()?,
            );
        }
        self.narrator
            .say("kl apply -f team0.tf … team7.tf, each with five seconds of work:");
        self.until_runs(TEAMS).await?;
        self.directory.run_ok(&["init"]).await?;
        let refused = self.directory.run(&["plan"]).await?;
        ensure!(
            refused.code != 0,
            "plain terraform planned beside native runs"
        );
        self.narrator.refusal("terraform plan", &refused.stderr);
        ensure!(
            refused.stderr.contains("kl apply -f team"),
            "terraform does not say which run is in its way"
        );
        for child in running {
            let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await??;
            ensure!(
                output.status.success(),
                "an apply failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let all = started.elapsed().as_secs_f64();
        self.narrator.say(&format!(
            "All eight landed within {all:.1} s. Each is an entry of its own:"
        ));
        self.shows("history --limit 9", 0).await?;
        std::fs::remove_dir_all(self.directory.path().join(".terraform"))?;
        Ok(())
    }

    async fn a_failing_apply(&mut self) -> Result<()> {
        self.narrator
            .chapter("An apply that fails half-way keeps what it built");
        let two = format!("{}{}", team("first", "true"), team("second", "exit 3"));
        let two = two.replace(
            "second in ${terraform_data.network",
            "second on ${terraform_data.first",
        );
        self.directory.write("two.tf", &two)?;
        self.shows("apply -f two.tf --auto-approve", 1).await?;
        let listed = self.kl("state list --json").await?.stdout;
        ensure!(
            listed.contains("terraform_data.first"),
            "the first resource is not on record"
        );
        self.directory.remove("two.tf")?;
        self.shows("apply -f two.tf --auto-approve --confirm-scope", 0)
            .await?;
        self.narrator
            .say("The file is gone, so what was last written from it was destroyed.");
        Ok(())
    }

    async fn a_dead_runner(&mut self) -> Result<()> {
        self.narrator
            .chapter("kill -9 of kl: terraform goes on, and what it builds is on record");
        self.directory.write(
            "slow.tf",
            &team("slow", "while [ ! -e go ]; do sleep 0.1; done"),
        )?;
        let mut apply = self.command("apply -f slow.tf --auto-approve").spawn()?;
        self.until_runs(1).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        apply.kill().await?;
        self.narrator
            .command("kill -9 %1   # kl apply -f slow.tf", "");
        let status = self.shows("status", 0).await?;
        let run = status
            .stdout
            .split_whitespace()
            .find(|word| word.starts_with("run_"))
            .context("kl status names no run")?
            .to_owned();
        self.directory.write("go", "")?;
        self.until_recorded("terraform_data.slow").await?;
        self.narrator
            .say("Terraform came to its end without kl, and its upload was committed. The scope frees itself with the lease, or now:");
        self.shows(&format!("apply abort {run}"), 0).await?;
        self.narrator
            .say("Whoever comes next is told that the run did not say its last word:");
        self.shows("apply -f slow.tf --auto-approve", 0).await?;
        Ok(())
    }

    async fn saved_plans(&mut self) -> Result<()> {
        self.narrator.chapter(
            "A saved plan outlives what others do elsewhere, and nothing done to its own slice",
        );
        self.directory.write("team1.tf", &team("team1b", "true"))?;
        self.shows("plan -f team1.tf -o one.plan", 0).await?;
        self.directory.write("team2.tf", &team("team2b", "true"))?;
        self.kl("apply -f team2.tf --auto-approve --confirm-scope")
            .await?;
        self.shows("apply one.plan --confirm-scope", 0).await?;
        self.directory.write("team1.tf", &team("team1c", "true"))?;
        self.kl("plan -f team1.tf -o two.plan").await?;
        self.kl("apply -f team1.tf --auto-approve --confirm-scope")
            .await?;
        self.shows("apply two.plan --confirm-scope", 1).await?;
        Ok(())
    }

    async fn an_unproven_scope(&mut self) -> Result<()> {
        self.narrator
            .chapter("Where a scope cannot be proven, kl says why, and is plain terraform if that is allowed");
        self.directory.write(
            "unknown.tf.json",
            "{\"module\": {\"m\": {\"source\": \"${var.nowhere}\"}}, \"variable\": {\"nowhere\": {\"default\": \"./x\"}}}",
        )?;
        self.shows("plan -f team3.tf --fallback never", 4).await?;
        self.directory.remove("unknown.tf.json")?;
        self.shows("apply -f team3.tf --protocol http --auto-approve", 0)
            .await?;
        Ok(())
    }

    async fn until_runs(&self, count: usize) -> Result<()> {
        self.until("runs under way", |status| {
            status["runs"]
                .as_array()
                .is_some_and(|runs| runs.len() >= count)
        })
        .await
    }

    async fn until_recorded(&self, address: &str) -> Result<()> {
        self.until(address, |status| {
            status["runs"].to_string().contains("\"changed\"")
        })
        .await
    }

    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let status = self.kl("status --json").await?;
            if serde_json::from_str(&status.stdout).is_ok_and(|status| holds(&status)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("{what}: not within {} s", PATIENCE.as_secs())
    }
}
