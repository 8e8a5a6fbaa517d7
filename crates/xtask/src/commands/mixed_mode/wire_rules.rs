//! What a plain client does on the wire, and what it must be answered.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::scene::{Scene, Tool, unique, until, write_team};
use crate::checks::Checks;
use crate::terraform::Backend;

pub(super) async fn check(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    checks.say("what a plain client does on the wire");
    repeated_locks(scene, checks).await?;
    a_place_in_the_queue(scene, checks).await?;
    repeated_writes(scene, checks).await?;
    force_unlock(scene, checks).await?;
    a_refused_write(scene, checks).await
}

async fn repeated_locks(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    let actor = &scene.actor;
    let id = unique();
    let first = actor.lock(&id).await?;
    let second = actor.lock(&id).await?;
    checks.check(
        first.status == 200 && second.status == 200,
        "1. a LOCK sent again with its ID is the same grant",
    );
    let status = scene.status().await?;
    let lock = &status["holders"][0];
    checks.check(
        lock["lock_id"] == id && lock["expires_at"].is_null(),
        "5. a Terraform lock has no lease, and its holder is shown",
    );
    actor.unlock(&id).await?.ok()?;
    let late = actor.lock(&id).await?;
    checks.check(
        late.status == 409,
        "2. a LOCK bearing an ID that has ended is a delayed duplicate: 409",
    );
    Ok(())
}

async fn a_place_in_the_queue(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    let work = scene.at_work(Tool::Kl).await?;
    let waiting = scene
        .bob
        .command(&["plan", "-lock-timeout=100s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    until("terraform waits in the queue", async || {
        let status = scene.status().await?;
        Ok(status["waiting"]
            .as_array()
            .is_some_and(|waiting| !waiting.is_empty()))
    })
    .await?;
    checks.check(
        true,
        "2. a Terraform that waits has a place in the queue and is shown there",
    );
    write_team(&scene.bob, "c", &unique(), None)?;
    let line = "apply -f c.tf --auto-approve --confirm-scope --wait 0";
    let passed = scene.kl.run(&scene.bob, line).await?;
    checks.check(
        passed.code == 3,
        "   and is not overtaken by a kl that does not collide with the holder",
    );
    work.finish().await?;
    let plan = waiting.wait_with_output().await?;
    checks.check(
        plan.status.success(),
        "   and gets its turn when the kl apply ends",
    );
    Ok(())
}

async fn repeated_writes(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    let actor = &scene.actor;
    let id = unique();
    let mut document: Value =
        serde_json::from_str(&scene.bob.run_ok(&["state", "pull"]).await?.stdout)?;
    document["serial"] = json!(document["serial"].as_u64().context("no serial")? + 1);
    document["outputs"]["twice"] = json!({ "value": unique(), "type": "string" });
    actor.lock(&id).await?.ok()?;
    let first = actor.write(&id, &document).await?;
    let head = scene.status().await?["head"]["seq"].clone();
    let second = actor.write(&id, &document).await?;
    let same = scene.status().await?["head"]["seq"].clone();
    actor.unlock(&id).await?.ok()?;
    checks.check(
        first.status == 200 && second.status == 200 && head == same && head.is_number(),
        "3. a write sent again with the same bytes is 200, and makes no second version",
    );
    Ok(())
}

async fn force_unlock(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    let tenancy = &scene.stack.tenancy;
    let mut boss = scene.terraform.directory(Some(Backend {
        token: tenancy.admin_token.clone(),
        address: scene.actor.address().to_owned(),
    }))?;
    boss.use_backend(Backend {
        token: tenancy.admin_token.clone(),
        address: scene.actor.address().to_owned(),
    });
    boss.write("backend.tf", crate::terraform::BACKEND)?;
    boss.run_ok(&["init"]).await?;

    let work = scene.at_work(Tool::Kl).await?;
    let _ = boss.run(&["force-unlock", "-force", "whatever"]).await?;
    let status = scene.status().await?;
    checks.check(
        status["runs"]
            .as_array()
            .is_some_and(|runs| !runs.is_empty()),
        "4. terraform force-unlock breaks no native run",
    );
    work.finish().await?;

    let id = unique();
    scene.actor.lock(&id).await?.ok()?;
    let broken = boss.run(&["force-unlock", "-force", &id]).await?;
    let status = scene.status().await?;
    checks.check(
        broken.code == 0 && status["holders"] == json!([]),
        "4. and breaks a Terraform lock, for whoever may",
    );
    Ok(())
}

async fn a_refused_write(scene: &Scene<'_>, checks: &mut Checks) -> Result<()> {
    let before = scene.status().await?;
    let kept = |status: &Value| status["kept"].as_array().map_or(0, Vec::len);
    let work = scene.at_work(Tool::Terraform).await?;
    let lock = scene.status().await?["holders"][0]["lock_id"]
        .as_str()
        .context("terraform holds no lock")?
        .to_owned();
    let admin = scene
        .actor
        .as_somebody_else(&scene.stack.tenancy.admin_token);
    admin.force_unlock().await?.ok()?;
    let ended = work.finish().await;
    checks.check(
        ended.is_err(),
        &format!("6. a Terraform whose lock {lock} was broken fails at its write"),
    );
    checks.check(
        scene.ann.path().join("errored.tfstate").exists(),
        "   and saves errored.tfstate",
    );
    checks.check(
        kept(&scene.status().await?) == kept(&before) + 1,
        "   and what it sent is kept by the service, too",
    );
    let shown = scene.kl.run(&scene.ann, "recover").await?;
    checks.check(
        format!("{}{}", shown.stdout, shown.stderr).contains("terraform_data.a"),
        "   where `kl recover` shows it address by address",
    );
    Ok(())
}
