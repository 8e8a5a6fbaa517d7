//! Eight people apply disjoint files of one state at once, and wait for their own work only.
//!
//! Each file has one resource whose provisioner takes five seconds, beside others that stay as they are. One apply by itself
//! is the yardstick; what eight cost more is what they wait for each other, and for the processors they share.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::Bench;
use super::report::{Report, Target, median};
use crate::host::workspace::Profile;
use crate::kl::Kl;
use crate::terraform::{BACKEND, Directory, Terraform};

pub(super) const NAMES: &[&str] = &["eight_disjoint_applies_to_one"];

const TEAMS: usize = 8;
/// Instances of a team that are not touched.
const OTHERS: usize = 24;
const ROUNDS: usize = 3;

struct Teams {
    directory: Directory,
    kl: Kl,
}

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let terraform = Terraform::find()?;
    let stack = bench.stack().await?;
    let backend = stack.tenancy.writes(stack.url(), "teams");
    let directory = terraform.directory(Some(backend.clone()))?;
    directory.write("backend.tf", BACKEND)?;
    let teams = Teams {
        directory,
        kl: Kl {
            program: bench.workspace.bin_dir(Profile::Release).join("kl"),
            backend,
        },
    };
    for team in 0..TEAMS {
        teams.write(team, 0, "true")?;
    }
    teams.directory.run_ok(&["init"]).await?;
    teams.directory.run_ok(&["apply", "-auto-approve"]).await?;
    let (mut one, mut all) = (Vec::new(), Vec::new());
    // In turns, so that the mood of the machine meets both alike.
    for round in 1..=ROUNDS {
        one.push(teams.apply(1, 2 * round).await?);
        all.push(teams.apply(TEAMS, 2 * round + 1).await?);
    }
    let (one, all) = (median(&one), median(&all));
    report.ratio(
        NAMES[0],
        all / one,
        Target::AtMost(1.25),
        &format!(
            "{all:.2} s for {TEAMS} `kl apply -f` at once ÷ {one:.2} s for one, 5 s of each a provisioner's, {} instances, medians of {ROUNDS}",
            TEAMS * (1 + OTHERS)
        ),
    );
    Ok(())
}

impl Teams {
    /// A team's file; its first resource is replaced in each round.
    fn write(&self, team: usize, round: usize, command: &str) -> Result<()> {
        let mut file = format!(
            "resource \"terraform_data\" \"team{team}\" {{\n  triggers_replace = \"{round}\"\n  provisioner \"local-exec\" {{\n    \
             command = \"{command}\"\n  }}\n}}\n"
        );
        for other in 0..OTHERS {
            let _ = write!(
                file,
                "\nresource \"terraform_data\" \"team{team}_{other}\" {{\n  input = \"{team}\"\n}}\n"
            );
        }
        self.directory.write(&format!("team{team}.tf"), &file)
    }

    /// So many teams apply at once; answers after how many seconds the last of them is done.
    async fn apply(&self, teams: usize, round: usize) -> Result<f64> {
        for team in 0..teams {
            self.write(team, round, "sleep 5")?;
        }
        let began = Instant::now();
        let mut running = Vec::new();
        for team in 0..teams {
            let line = format!("apply --auto-approve --confirm-scope -f team{team}.tf");
            let mut command = self.kl.command(&self.directory, &line);
            running.push(command.spawn().context("kl does not start")?);
        }
        for child in running {
            let output = child.wait_with_output().await?;
            ensure!(
                output.status.success(),
                "an apply failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(began.elapsed().as_secs_f64())
    }
}
