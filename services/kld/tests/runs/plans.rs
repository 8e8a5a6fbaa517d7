//! Plans in files: a run sleeps over one, and wakes once, if what the plan was made on still stands.

use protocol::Code;
use serde_json::{Value, json};

use super::stage::{Native, alone, refused, scope, set_value, value_of, with_state};
use crate::lane::stage::{Client, Reply, Stage};

const PLAN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A run that planned, and sleeps.
async fn planned<'a>(ann: &'a Client<'a>, scope: Value) -> Native<'a> {
    planned_with(ann, scope, json!({})).await
}

async fn planned_with<'a>(ann: &'a Client<'a>, scope: Value, more: Value) -> Native<'a> {
    let run = ann.plan("prod", scope).await;
    run.lock_for("plan", "OperationTypePlan").await.ok();
    run.read().await.ok();
    run.unlock("plan").await.ok();
    let mut finish = json!({ "outcome": "planned", "plan_sha256": PLAN, "checked": true });
    for (key, value) in more.as_object().unwrap() {
        finish[key] = value.clone();
    }
    run.post("/finish", finish.clone()).await.ok();
    // The answer was lost.
    run.post("/finish", finish).await.ok();
    run
}

async fn reopen(ann: &Client<'_>, key: &str) -> Reply {
    let body = json!({
        "state": ann.full_name("prod"), "plan_sha256": PLAN, "key": key, "command": "kl apply plan.out",
        "who": "bob@ci",
    });
    ann.post("/v1/runs/reopen", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_sleeps_and_is_woken_by_whoever_applies_it() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let plan = planned(&ann, scope(&["a"], &[("a", &["b"]), ("b", &[])])).await;
    let before = plan.read().await;
    assert_eq!(before.status, 409, "{before:?}");
    // What happens outside of the slice does not matter.
    ann.apply("prod", alone(&["c"]))
        .await
        .set("c", "other")
        .await;

    let woken = Native::of(&bob, reopen(&bob, "k").await);
    assert_eq!(woken.run.id, plan.run.id);
    assert_eq!(woken.run.command, "kl apply plan.out");
    assert_eq!(woken.run.base_seq, 2);
    assert_eq!(
        Native::of(&bob, reopen(&bob, "k").await).fencing_token(),
        woken.fencing_token()
    );
    refused(reopen(&bob, "other").await, Code::Conflict);
    // The plan carries the token that it was made with.
    let with_plan = Native {
        client: bob.clone(),
        run: woken.run.clone(),
        token: plan.token.clone(),
    };
    with_plan.lock("tf").await.ok();
    with_plan
        .change("tf", |slice| set_value(&slice, "a", "applied"))
        .await
        .ok();
    with_plan.unlock("tf").await.ok();
    woken.finish("succeeded").await.ok();
    assert_eq!(
        value_of(&ann, "prod", "a").await.as_deref(),
        Some("applied")
    );
    assert_eq!(value_of(&ann, "prod", "c").await.as_deref(), Some("other"));
    refused(reopen(&bob, "again").await, Code::PlanSpent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_spent_when_its_apply_begins_even_if_nothing_was_uploaded() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let plan = planned(&ann, alone(&["a"])).await;
    // Woken and not applied: it may be woken again, and the token in the plan with it.
    let run = Native::of(&ann, reopen(&ann, "one").await);
    run.finish("failed").await.ok();
    assert_eq!(plan.lock("tf").await.status, 409);
    let run = Native::of(&ann, reopen(&ann, "two").await);
    plan.lock("tf").await.ok();
    run.post("/abort", json!({})).await.ok();
    refused(reopen(&ann, "three").await, Code::PlanSpent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_inside_the_slice_makes_a_plan_stale_and_terraform_sees_it_too() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let plan = planned(&ann, scope(&["a"], &[("a", &["b"]), ("b", &[])])).await;
    ann.apply("prod", alone(&["b"]))
        .await
        .set("b", "moved")
        .await;
    let problem = refused(reopen(&ann, "k").await, Code::PlanStale);
    assert_eq!(problem["address"], "terraform_data.b");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("run_") && detail.contains(&ann.name),
        "{detail}"
    );
    assert_eq!(
        stage
            .count("SELECT serial::bigint FROM run_documents ORDER BY run_id LIMIT 1")
            .await,
        2
    );
    assert_eq!(
        stage
            .count("SELECT count(*) FROM reservations WHERE status = 'active'")
            .await,
        0
    );
    drop(plan);

    refused(
        ann.post("/v1/runs/reopen", json!({
            "state": ann.full_name("prod"), "plan_sha256": PLAN.replace('a', "b"), "key": "k", "command": "c", "who": "w",
        })).await,
        Code::PlanUnknown,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsettled_mark_inside_the_slice_makes_a_plan_stale() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    planned(&ann, alone(&["a"])).await;
    let lost = ann.apply("prod", alone(&["a"])).await;
    lost.lock("tf").await.ok();
    lost.post("/abort", json!({})).await.ok();
    let problem = refused(reopen(&ann, "k").await, Code::PlanStale);
    assert!(problem["detail"].as_str().unwrap().contains("unsettled"));
}

/// A run on `a` that ends without its holder's release.
async fn leave_mark(ann: &Client<'_>) {
    let lost = ann.apply("prod", alone(&["a"])).await;
    lost.lock("tf").await.ok();
    lost.post("/abort", json!({})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_looked_at_what_was_unsettled_is_applied_and_settles_it() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    leave_mark(&ann).await;
    // A plan is told, although it claims nothing; one elsewhere is not.
    let elsewhere = ann.plan("prod", alone(&["b"])).await;
    assert!(elsewhere.run.unsettled.is_empty());
    let plan = planned(&ann, alone(&["a"])).await;
    assert_eq!(plan.run.unsettled[0].address, "terraform_data.a");
    assert_eq!(plan.run.unsettled[0].who, "ann@laptop");

    let woken = Native::of(&ann, reopen(&ann, "k").await);
    woken.lock("tf").await.ok();
    woken
        .change("tf", |slice| set_value(&slice, "a", "applied"))
        .await
        .ok();
    woken.unlock("tf").await.ok();
    woken.finish("succeeded").await.ok();
    assert!(ann.status("prod").await.unsettled.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_did_not_look_is_stale_where_something_is_unsettled() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    leave_mark(&ann).await;
    planned_with(&ann, alone(&["a"]), json!({ "refreshed": false })).await;
    let problem = refused(reopen(&ann, "k").await, Code::PlanStale);
    assert_eq!(problem["address"], "terraform_data.a");
    assert_eq!(ann.status("prod").await.unsettled.len(), 1);
}
