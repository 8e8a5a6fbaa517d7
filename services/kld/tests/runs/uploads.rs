//! What an upload may change, what is left out of it, and what is kept.

use protocol::Code;
use serde_json::json;

use super::stage::{Native, alone, next_serial, refused, scope, set_value, value_of, with_state};
use crate::lane::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_only_read_is_left_out_and_a_surprise_is_kept() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann
        .apply("prod", scope(&["a"], &[("a", &["b"]), ("b", &[])]))
        .await;
    run.lock("tf").await.ok();
    // Terraform refreshed what it read.
    run.change("tf", |slice| {
        set_value(&set_value(&slice, "a", "new"), "b", "drifted")
    })
    .await
    .ok();
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("new"));
    assert_eq!(value_of(&ann, "prod", "b").await.as_deref(), Some("start"));
    // Nothing but refreshed attributes: no version.
    run.change("tf", |slice| set_value(&slice, "b", "drifted more"))
        .await
        .ok();
    assert_eq!(ann.versions("prod").await.len(), 2);

    // Another object in its place.
    let reply = run
        .change("tf", |slice| {
            slice.replace("\"id\": \"id-b\"", "\"id\": \"id-other\"")
        })
        .await;
    let problem = refused(reply, Code::OutsideScope);
    assert_eq!(problem["addresses"], json!(["terraform_data.b"]));
    assert_eq!(ann.versions("prod").await.len(), 2);
    let kept = ann.status("prod").await.kept;
    assert_eq!(kept.len(), 1);
    let body = ann
        .read(&format!("prod/kept/{}", kept[0].id))
        .await
        .ok()
        .body;
    assert!(String::from_utf8(body).unwrap().contains("id-other"));
    let now = run.now().await;
    assert_eq!(now.kept_count, 1);
    assert_eq!(now.unsettled[0].address, "terraform_data.b");
    // The next upload of the same lock holds the one before.
    let reply = run.change("tf", |slice| {
        slice.replace("\"id\": \"id-b\"", "\"id\": \"id-third\"")
    });
    refused(reply.await, Code::OutsideScope);
    let kept = ann.status("prod").await.kept;
    assert_eq!(kept.len(), 1);
    let body = ann
        .read(&format!("prod/kept/{}", kept[0].id))
        .await
        .ok()
        .body;
    assert!(String::from_utf8(body).unwrap().contains("id-third"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_outside_the_claims_must_not_vanish_or_become_tainted() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann
        .apply("prod", scope(&["a"], &[("a", &["b"]), ("b", &[])]))
        .await;
    run.lock("tf").await.ok();
    let tainted = |slice: String| {
        let at = slice.find("\"name\": \"b\"").unwrap();
        let (before, after) = slice.split_at(at);
        let after = after.replacen(
            "{\n          \"schema_version\"",
            "{\n          \"status\": \"tainted\",\n          \"schema_version\"",
            1,
        );
        format!("{before}{after}")
    };
    refused(run.change("tf", tainted).await, Code::OutsideScope);
    let gone = |slice: String| {
        let mut document: serde_json::Value = serde_json::from_str(&slice).unwrap();
        document["resources"].as_array_mut().unwrap().truncate(1);
        serde_json::to_string_pretty(&document).unwrap()
    };
    refused(run.change("tf", gone).await, Code::OutsideScope);
    assert_eq!(ann.versions("prod").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_commit_as_they_come_and_late_duplicates_undo_nothing() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a", "b"])).await;
    run.lock("tf").await.ok();
    let slice = String::from_utf8(run.read().await.ok().body).unwrap();
    let first = next_serial(&set_value(&slice, "a", "1"));
    let second = next_serial(
        &String::from_utf8(next_serial(&set_value(
            &set_value(&slice, "a", "1"),
            "b",
            "2",
        )))
        .unwrap(),
    );
    run.upload("tf", first.clone()).await.ok();
    // The answer was lost: the same again.
    run.upload("tf", first.clone()).await.ok();
    assert_eq!(ann.versions("prod").await.len(), 2);
    run.upload("tf", second.clone()).await.ok();
    assert_eq!(ann.versions("prod").await.len(), 3);
    // One that was delayed on its way.
    refused(run.upload("tf", first).await, Code::VersionConflict);
    run.upload("tf", second).await.ok();
    assert_eq!(value_of(&ann, "prod", "b").await.as_deref(), Some("2"));
    assert_eq!(ann.status("prod").await.kept.len(), 0);
    assert_eq!(run.now().await.versions.len(), 2);
    assert_eq!(run.now().await.versions[1].changed, ["terraform_data.b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_terraform_at_a_time_works_on_a_run() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("one").await.ok();
    run.lock("one").await.ok();
    let held = run.lock("two").await.refused(Code::StateLocked);
    assert!(held["ID"].as_str().unwrap().starts_with("one "));
    refused(
        run.change("two", |slice| set_value(&slice, "a", "x")).await,
        Code::LockIdMismatch,
    );
    run.unlock("two").await.refused(Code::LockIdMismatch);
    run.unlock("one").await.ok();
    run.lock("two").await.ok();
    let empty = run.request("UNLOCK", "");
    crate::lane::stage::Reply::of(empty).await.ok();
    run.lock("three").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_only_plans_takes_no_apply_and_no_upload() {
    let stage = Stage::start().await;
    let ann = stage.client(protocol::Role::Reader).await;
    let writer = stage.writer().await;
    with_state(&writer, "prod", &["a"]).await;
    let run = ann.plan("prod", alone(&["a"])).await;
    assert!(run.run.reservation.is_none());
    let told = run.lock("tf").await.refused(Code::RunIsReadOnly);
    assert!(told["ID"].as_str().unwrap().contains("only plans"));
    run.lock_for("tf", "OperationTypePlan").await.ok();
    refused(
        run.change("tf", |slice| set_value(&slice, "a", "x")).await,
        Code::RunIsReadOnly,
    );
    run.unlock("tf").await.ok();
    run.finish("succeeded").await.ok();
    ann.ask("prod", "apply", alone(&["a"]))
        .await
        .refused(Code::Forbidden);
}

/// Fifty clients whose run was taken from them: every body comes back byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn no_late_upload_is_lost() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    for n in 0..50 {
        let run = ann.apply("prod", alone(&["a"])).await;
        run.lock("tf").await.ok();
        let slice = String::from_utf8(run.read().await.ok().body).unwrap();
        run.post("/abort", json!({ "reason": "test" })).await.ok();
        let late = next_serial(&set_value(&slice, "a", &format!("late{n}")));
        let problem = refused(run.upload("tf", late.clone()).await, Code::LeaseLost);
        assert_eq!(problem["kept"], true);
        refused(run.renew().await, Code::LeaseLost);
        let newest = &ann.status("prod").await.kept[0];
        let body = ann
            .read(&format!("prod/kept/{}", newest.id))
            .await
            .ok()
            .body;
        assert_eq!(body, late, "{n}");
    }
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("start"));
    // Whoever comes next is told that the record may be wrong.
    let next = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(next.run.unsettled.len(), 50);
    let untouched = ann.apply("prod", alone(&["b"])).await;
    assert!(untouched.run.unsettled.is_empty());
    // An apply that refreshes it settles it.
    next.set("a", "refreshed").await;
    let after: Native<'_> = ann.apply("prod", alone(&["a"])).await;
    assert!(after.run.unsettled.is_empty());
}
