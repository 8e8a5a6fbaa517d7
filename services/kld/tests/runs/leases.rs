//! Leases: kept by renewing, lost by silence, extended at once or not at all, broken by those who may.

use protocol::{Code, Role};
use serde_json::json;

use super::stage::{Native, alone, refused, set_value, value_of, with_state};
use crate::lane::stage::Stage;

/// Makes every lease so old that the lock delay has passed, too.
pub(super) async fn let_leases_run_out(stage: &Stage) {
    stage
        .tamper("UPDATE reservations SET expires_at = clock_timestamp() - interval '1 hour' WHERE status = 'active'")
        .await;
    stage
        .tamper("UPDATE lock_service SET last_beat = clock_timestamp(), grace_until = '-infinity'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_lease_lives_until_somebody_needs_the_place() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    let_leases_run_out(&stage).await;
    // Nobody ended it: it may be renewed, and each upload renews it.
    run.renew().await.ok();
    let_leases_run_out(&stage).await;
    run.change("tf", |slice| set_value(&slice, "a", "one"))
        .await
        .ok();
    bob.ask("prod", "apply", alone(&["a"]))
        .await
        .refused(Code::ReservationConflict);

    let_leases_run_out(&stage).await;
    let heir = bob.apply("prod", alone(&["a"])).await;
    assert!(heir.fencing_token() > run.fencing_token());
    assert_eq!(heir.run.unsettled[0].address, "terraform_data.a");
    assert_eq!(heir.run.unsettled[0].run, Some(run.run.id));
    refused(run.renew().await, Code::LeaseLost);
    let problem = refused(run.change_late("tf", "a", "late").await, Code::LeaseLost);
    assert_eq!(problem["kept"], true);
    assert_eq!(run.now().await.status, protocol::runs::RunStatus::Expired);
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("one"));
}

/// Renewals that come together are written together, and each is answered for itself.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_at_once_are_answered_each_for_itself() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let names: Vec<String> = (0..12).map(|number| format!("r{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    with_state(&ann, "prod", &names).await;
    let mut runs = Vec::new();
    for name in &names {
        runs.push(ann.apply("prod", alone(&[name])).await);
    }
    runs[3].finish("succeeded").await.ok();
    let wrong = json!({ "token": runs[5].fencing_token() });
    // One with its token, one with another's, for the same reservation and at the same moment.
    let (renewed, mistaken) = tokio::join!(
        futures::future::join_all(runs.iter().map(Native::renew)),
        runs[4].post("/renew", wrong)
    );
    refused(mistaken, Code::LeaseLost);
    for (number, reply) in renewed.into_iter().enumerate() {
        if number == 3 {
            assert_eq!(reply.status, 409);
            continue;
        }
        let lease = reply.ok().json();
        assert_eq!(lease["lease_seconds"], 60);
        let due: chrono::DateTime<chrono::Utc> =
            lease["expires_at"].as_str().unwrap().parse().unwrap();
        let told = runs[number].run.reservation.as_ref().unwrap().expires_at;
        assert!(due > told, "{due} is not after {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_is_on_its_way_is_waited_for() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let_leases_run_out(&stage).await;
    // What an upload does to the lease, between its statement and its commit.
    let mut renewal = stage.app.database.owner().begin().await.unwrap();
    sqlx::query("UPDATE reservations SET expires_at = clock_timestamp() + interval '1 minute' WHERE status = 'active'")
        .execute(&mut *renewal)
        .await
        .unwrap();
    let (asked, ()) = tokio::join!(bob.ask("prod", "apply", alone(&["a"])), async {
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        renewal.commit().await.unwrap();
    });
    asked.refused(Code::ReservationConflict);
    run.renew().await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_loses_a_lease_while_the_service_was_away() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let_leases_run_out(&stage).await;
    stage
        .tamper("UPDATE lock_service SET grace_until = clock_timestamp() + interval '1 minute'")
        .await;
    bob.ask("prod", "apply", alone(&["a"]))
        .await
        .refused(Code::ReservationConflict);
    bob.lock("prod", "bob").await.refused(Code::StateLocked);
    run.renew().await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_granted_at_once_or_refused() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let other = bob.apply("prod", alone(&["b"])).await;
    let extend =
        |address: &str| {
            run.post("/extend", json!({
            "token": run.fencing_token(), "claims": [{ "address": address, "mode": "write" }],
        }))
        };
    let problem = refused(extend("terraform_data.b").await, Code::ExtendConflict);
    assert_eq!(problem["conflicts"][0]["run"], json!(other.run.id));
    other.set("b", "theirs").await;
    let wider = extend("terraform_data.b").await.ok().json();
    assert_eq!(wider["reservation"]["claims"].as_array().unwrap().len(), 2);
    bob.ask("prod", "apply", alone(&["b"]))
        .await
        .refused(Code::ReservationConflict);
    extend("nonsense!").await.refused(Code::InvalidRequest);
    // What it had before is still its own.
    run.set("a", "mine").await;
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_broken_by_its_own_id_and_by_those_who_may() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    let boss = stage.client(Role::Maintainer).await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    let body = json!({ "lock_id": run.run.id.to_string() });
    bob.send_json("POST", "prod/force-unlock", body.clone())
        .await
        .refused(Code::Forbidden);
    bob.post(&run.path("/abort"), json!({}))
        .await
        .refused(Code::Forbidden);
    let broken = boss
        .send_json("POST", "prod/force-unlock", body)
        .await
        .ok()
        .json();
    assert_eq!(broken["broken"]["lane"], "native");
    let problem = refused(run.renew().await, Code::LeaseLost);
    assert!(problem["detail"].as_str().unwrap().contains(&boss.name));
    refused(run.change_late("tf", "a", "late").await, Code::LeaseLost);
    bob.lock("prod", "bob").await.ok();
    bob.unlock("prod", "bob").await.ok();
    let next: Native<'_> = bob.apply("prod", alone(&["a"])).await;
    assert_eq!(next.run.unsettled.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_before_its_apply_began_leaves_no_marks() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock_for("tf", "OperationTypePlan").await.ok();
    run.post("/abort", json!({})).await.ok();
    assert!(
        ann.apply("prod", alone(&["a"]))
            .await
            .run
            .unsettled
            .is_empty()
    );
}
