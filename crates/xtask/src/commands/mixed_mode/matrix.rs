//! Who holds, and who asks meanwhile: the matrix of the two lanes.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::scene::{NET, Scene, Tool, unique, write_team};
use crate::checks::Checks;

/// Somebody who holds claims on the state.
#[derive(Clone, Copy, Debug)]
enum Holder {
    Nobody,
    /// Plans take no claims, so only an API client can hold read claims alone.
    NativeReader,
    NativeWriter,
    NativeWhole,
    Terraform,
}

impl Holder {
    const ALL: [Self; 5] = [
        Self::Nobody,
        Self::NativeReader,
        Self::NativeWriter,
        Self::NativeWhole,
        Self::Terraform,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::NativeReader => "a native run that reads `net`",
            Self::NativeWriter => "kl apply of `a`, which reads `net`",
            Self::NativeWhole => "a native run on the whole state",
            Self::Terraform => "terraform apply",
        }
    }

    /// Whether the cell says yes.
    fn lets(self, asker: Asker) -> bool {
        match asker {
            Asker::Read => true,
            Asker::Disjoint | Asker::ReadOverRead => {
                matches!(self, Self::Nobody | Self::NativeReader | Self::NativeWriter)
            }
            Asker::Overlap | Asker::Lock | Asker::WriteWithoutLock => {
                matches!(self, Self::Nobody)
            }
        }
    }
}

/// What somebody else tries meanwhile.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Read,
    Disjoint,
    ReadOverRead,
    Overlap,
    Lock,
    WriteWithoutLock,
}

impl Asker {
    const ALL: [Self; 6] = [
        Self::Read,
        Self::Disjoint,
        Self::ReadOverRead,
        Self::Overlap,
        Self::Lock,
        Self::WriteWithoutLock,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Read => "terraform state pull, kl pull",
            Self::Disjoint => "kl apply of `b`",
            Self::ReadOverRead => "kl apply of `c`, which reads `net`",
            Self::Overlap => "kl apply of what is held",
            Self::Lock => "terraform plan",
            Self::WriteWithoutLock => "terraform state push -lock=false",
        }
    }
}

pub(super) async fn check(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    for holder in Holder::ALL {
        checks.say(&format!("held by {}", holder.words()));
        match holder {
            Holder::Nobody => row(scene, checks, holder).await?,
            Holder::NativeReader => {
                let run = hold(scene, "terraform_data.net", "read").await?;
                row(scene, checks, holder).await?;
                release(scene, &run).await?;
            }
            Holder::NativeWhole => {
                let run = hold(scene, "*", "write").await?;
                row(scene, checks, holder).await?;
                release(scene, &run).await?;
            }
            Holder::NativeWriter | Holder::Terraform => {
                let tool = if matches!(holder, Holder::Terraform) {
                    Tool::Terraform
                } else {
                    Tool::Kl
                };
                let work = scene.at_work(tool).await?;
                row(scene, checks, holder).await?;
                work.finish().await?;
            }
        }
    }
    Ok(())
}

/// Reserves an address by the state engine's primitives; answers the run.
async fn hold(scene: &Scene<'_>, address: &str, mode: &str) -> Result<String> {
    let state = scene.full_name();
    let begun = json!({ "state": state, "actor": "mixed-mode", "source_serial": 0 });
    let run = scene
        .actor
        .state_engine("apply-runs/begin", &begun)
        .await?
        .ok()?;
    let run = run["ID"]
        .as_str()
        .or_else(|| run["id"].as_str())
        .with_context(|| format!("a run without an id: {run}"))?
        .to_owned();
    let wanted = json!({
        "state": state, "apply_id": run, "want": [{ "address_glob": address, "mode": mode }],
    });
    scene
        .actor
        .state_engine("reservations/acquire", &wanted)
        .await?
        .ok()?;
    Ok(run)
}

async fn release(scene: &Scene<'_>, run: &str) -> Result<()> {
    let path = format!("reservations/{run}/release");
    scene
        .actor
        .state_engine(&path, &json!({}))
        .await?
        .ok()
        .map(drop)
}

async fn row(scene: &Scene<'_>, checks: &mut Checks, holder: Holder) -> Result<()> {
    for asker in Asker::ALL {
        let (succeeded, said) = ask(scene, holder, asker).await?;
        let expected = holder.lets(asker);
        let word = if expected { "goes on" } else { "is refused" };
        let mut claim = format!("{} {word}", asker.words());
        if succeeded != expected {
            claim = format!("{claim}; it said: {}", said.trim());
        }
        checks.check(succeeded == expected, &claim);
    }
    Ok(())
}

/// Tries; answers whether it was let, and what was said.
async fn ask(scene: &Scene<'_>, holder: Holder, asker: Asker) -> Result<(bool, String)> {
    let bob = &scene.bob;
    let apply = async |name: &str| -> Result<(bool, String)> {
        write_team(bob, name, &unique(), None)?;
        let line = format!("apply -f {name}.tf --auto-approve --confirm-scope --wait 0");
        let outcome = scene.kl.run(bob, &line).await?;
        // 3: somebody else holds it. Any other failure is not what was asked about.
        anyhow::ensure!(
            [0, 3].contains(&outcome.code),
            "`kl {line}` ended with {}: {}",
            outcome.code,
            outcome.stderr
        );
        Ok((outcome.code == 0, outcome.stderr))
    };
    match asker {
        Asker::Read => {
            let pulled = bob.run_ok(&["state", "pull"]).await?;
            let other = scene.kl.run(bob, "pull").await?;
            // Terraform prints what it read in its own form.
            let same = parsed(&pulled.stdout)? == parsed(&other.stdout)?;
            Ok((same, other.stderr))
        }
        Asker::Disjoint => apply("b").await,
        Asker::ReadOverRead => apply("c").await,
        Asker::Overlap => match holder {
            Holder::NativeReader => {
                bob.write(
                    "net.tf",
                    "resource \"terraform_data\" \"net\" {\n  input = \"10.1.0.0/16\"\n}\n",
                )?;
                let line = "apply -f net.tf --auto-approve --confirm-scope --wait 0";
                let outcome = scene.kl.run(bob, line).await?;
                bob.write("net.tf", NET)?;
                Ok((outcome.code == 0, outcome.stderr))
            }
            _ => apply("a").await,
        },
        Asker::Lock => {
            let plan = bob.run(&["plan"]).await?;
            let names_it = plan.stderr.contains("Error acquiring the state lock");
            anyhow::ensure!(
                plan.code == 0 || names_it,
                "terraform plan failed otherwise: {}",
                plan.stderr
            );
            Ok((plan.code == 0, plan.stderr))
        }
        Asker::WriteWithoutLock => {
            let pulled = bob.run_ok(&["state", "pull"]).await?.stdout;
            let mut document = parsed(&pulled)?;
            let serial = document["serial"].as_u64().context("no serial")?;
            document["serial"] = json!(serial + 1);
            document["outputs"]["pushed"] = json!({ "value": unique(), "type": "string" });
            bob.write("pushed.tfstate", &serde_json::to_string_pretty(&document)?)?;
            let push = bob
                .run(&["state", "push", "-lock=false", "pushed.tfstate"])
                .await?;
            bob.remove("pushed.tfstate")?;
            anyhow::ensure!(
                push.code == 0 || ["409", "423"].iter().any(|code| push.stderr.contains(code)),
                "terraform state push failed otherwise: {}",
                push.stderr
            );
            Ok((push.code == 0, push.stderr))
        }
    }
}

fn parsed(document: &str) -> Result<serde_json::Value> {
    serde_json::from_str(document).context("a state that is no JSON")
}
