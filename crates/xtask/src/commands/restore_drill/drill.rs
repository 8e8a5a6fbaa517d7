//! The drill, step by step.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::actor::{Actor, Answer};
use crate::checks::Checks;
use crate::stack::Stack;

/// Replicas notice at their next heartbeat, every five seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// What clients were told before the disaster, and the backup knows only in part.
struct Told {
    seqs: BTreeSet<i64>,
    newest_token: i64,
}

/// Runs the drill on a stack of two replicas.
pub(super) async fn run(stack: &mut Stack, checks: &mut Checks) -> Result<()> {
    let services: Vec<String> = stack.replica_urls().map(str::to_owned).collect();
    let actors: Vec<Actor> = services
        .iter()
        .map(|service| Actor::new(stack, service, "prod"))
        .collect();
    let [first, second] = actors.as_slice() else {
        bail!("the drill is for two replicas");
    };

    first.write_locked("one", &document()).await?;
    // A plain Terraform that is at work all the time.
    let plain = Actor::new(stack, &services[0], "plain");
    plain.write_locked("two", &document()).await?;
    plain.lock("held").await?.ok()?;
    let before = first.begin("before", "terraform_data.a").await?;
    before.lock().await?;
    let mut slice = before.read().await?;
    slice = changed(&slice, "in the backup");
    before.upload(&slice).await?.ok()?;
    let in_backup = seqs(first).await?;

    let scratch = &stack.databases.scratch;
    let backup = stack.databases.postgres.back_up(scratch, "backup").await?;
    checks.say(&format!(
        "a backup was taken: versions {in_backup:?}, one run under way"
    ));

    slice = changed(&slice, "after the backup");
    before.upload(&slice).await?.ok()?;
    let after = second.begin("after", "terraform_data.b").await?;
    after.lock().await?;
    let other = changed(&after.read().await?, "after the backup");
    after.upload(&other).await?.ok()?;
    let told = Told {
        seqs: seqs(first).await?,
        newest_token: after.token,
    };
    // The heart must beat on, or the backup looks as young as what was lost. So few are the hardest: a restored heart has
    // caught up with them soon.
    wait_for_beats(stack, 2).await?;
    checks.say(&format!(
        "then versions {:?} and token {} were given out, and the database was lost",
        told.seqs, told.newest_token
    ));

    let databases = &mut stack.databases;
    databases
        .postgres
        .restore(&databases.scratch, &backup)
        .await?;
    for (number, actor) in actors.iter().enumerate() {
        let refused = until(actor, "lost", |answer| answer.is(503, "history_lost")).await;
        checks.check(
            refused.is_ok(),
            &format!("replica {} writes no more: 503 history_lost", number + 1),
        );
    }
    checks.check(
        first.get("").await?.status.is_success(),
        "reads go on, from what the backup has",
    );
    let refused = before.upload(&changed(&slice, "meanwhile")).await?;
    checks.check(
        !refused.status.is_success(),
        "a run of before writes nothing in the meantime",
    );

    let said = stack.kld(&["restore-finish"]).await?;
    checks.say(&format!("kld restore-finish: {}", said.trim()));
    for (number, actor) in actors.iter().enumerate() {
        let granted = until(actor, "back", |answer| answer.status.is_success()).await;
        checks.check(
            granted.is_ok(),
            &format!("replica {} grants again, without a restart", number + 1),
        );
    }

    let renewed = before.renew().await?;
    checks.check(
        renewed.is(409, "lease_lost"),
        "a run of the backup is told at its next renewal: 409 lease_lost",
    );
    let late = before.upload(&changed(&slice, "late")).await?;
    checks.check(
        late.is(409, "lease_lost") && late.body["kept"] == true,
        "and what it uploads is kept",
    );
    let late = after.upload(&changed(&other, "late")).await?;
    checks.check(
        late.status.is_client_error(),
        &format!(
            "a run that the backup does not know is refused for good: {}",
            late.status
        ),
    );
    let mut late = document();
    late["serial"] = json!(7);
    let late = plain.write("held", &late).await?;
    checks.check(
        late.status.as_u16() == 409,
        "so is a plain Terraform that held the lock",
    );
    let kept = plain.get("/status").await?.ok()?;
    checks.check(
        kept["kept"].as_array().is_some_and(|kept| kept.len() == 1),
        "whose state is kept",
    );
    let status = first.get("/status").await?.ok()?;
    checks.check(
        status["unsettled"]
            .as_array()
            .is_some_and(|marks| !marks.is_empty()),
        "what the run of before claimed is marked as unsettled",
    );
    let next = first.begin("next", "terraform_data.a").await?;
    checks.check(next.unsettled > 0, "the next run over it is told");
    checks.check(
        next.token > told.newest_token,
        &format!("its token {} was never given out before", next.token),
    );
    next.lock().await?;
    let slice = changed(&next.read().await?, "after the restore");
    next.upload(&slice).await?.ok()?;
    let now = seqs(first).await?;
    let new: Vec<i64> = now.difference(&in_backup).copied().collect();
    checks.check(
        !new.is_empty() && new.iter().all(|seq| !told.seqs.contains(seq)),
        &format!("the new versions {new:?} have numbers that were never given out"),
    );
    checks.check(
        in_backup.is_subset(&now),
        "every version of the backup is still there",
    );
    let audit = stack.kld(&["audit", "verify"]).await;
    checks.check(
        audit.is_ok(),
        "the audit chain of the restored database is whole",
    );
    Ok(())
}

/// Two resources that depend on nothing.
fn document() -> Value {
    let resource = |name: &str| {
        json!({
            "mode": "managed", "type": "terraform_data", "name": name,
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{
                "schema_version": 0, "attributes": { "id": name, "input": "as it was" }, "sensitive_attributes": [],
            }],
        })
    };
    json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1,
        "lineage": "3f0c5a1e-0000-4000-8000-00000000d111", "outputs": {},
        "resources": [resource("a"), resource("b")], "check_results": null,
    })
}

/// The slice as Terraform uploads it when it has changed its one resource.
fn changed(slice: &Value, input: &str) -> Value {
    let mut slice = slice.clone();
    slice["serial"] = json!(slice["serial"].as_u64().unwrap_or_default() + 1);
    slice["resources"][0]["instances"][0]["attributes"]["input"] = json!(input);
    slice
}

/// The numbers of all versions.
async fn seqs(actor: &Actor) -> Result<BTreeSet<i64>> {
    let versions = actor.get("/versions").await?.ok()?;
    let versions = versions["versions"]
        .as_array()
        .context("no list of versions")?;
    Ok(versions
        .iter()
        .filter_map(|version| version["seq"].as_i64())
        .collect())
}

/// Locks and unlocks a state of its own until that is answered as wanted.
async fn until(actor: &Actor, id: &str, wanted: impl Fn(&Answer) -> bool) -> Result<()> {
    let started = Instant::now();
    for number in 0.. {
        let id = format!("{id}-{number}");
        let answer = actor.lock_other(&id).await?;
        if wanted(&answer) {
            return Ok(());
        }
        if started.elapsed() > NOTICED_WITHIN {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("not within {} s", NOTICED_WITHIN.as_secs())
}

/// Waits until the service's heart has beaten so many times more.
async fn wait_for_beats(stack: &Stack, beats: i64) -> Result<()> {
    let postgres = &stack.databases.postgres;
    let number = async || -> Result<i64> {
        let number = postgres
            .sql(
                crate::stack::kld::DATABASE,
                "select beat_no from lock_service",
            )
            .await?;
        Ok(number.parse()?)
    };
    let begun = number().await?;
    let started = Instant::now();
    while number().await? < begun + beats {
        if started.elapsed() > NOTICED_WITHIN {
            bail!("the service has no heartbeat");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
