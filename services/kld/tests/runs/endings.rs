//! Ending a run while its Terraform is still at work, or is gone without a word.

use protocol::Code;
use serde_json::json;

use super::stage::{alone, next_serial, set_value, with_state};
use crate::lane::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_does_not_succeed_while_a_terraform_holds_its_lock() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    run.finish("succeeded").await.refused(Code::StateLocked);
    run.change("tf", |slice| set_value(&slice, "a", "done"))
        .await
        .ok();
    run.unlock("tf").await.ok();
    run.finish("succeeded").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terraform_that_is_gone_without_a_word_leaves_marks_and_may_still_upload() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let slice = String::from_utf8(run.read().await.ok().body).unwrap();
    run.lock("tf").await.ok();
    run.finish("failed").await.ok();
    assert_eq!(json!(run.now().await.status), "failed");
    let late = run
        .upload("tf", next_serial(&set_value(&slice, "a", "late")))
        .await;
    assert_eq!(late.refused(Code::LeaseLost)["kept"], true);

    // The next one is told, and settles it even where there is nothing to change.
    let next = ann.apply("prod", alone(&["a"])).await;
    assert!(!next.run.unsettled.is_empty());
    next.finish("succeeded").await.ok();
    let after = ann.apply("prod", alone(&["a"])).await;
    assert!(after.run.unsettled.is_empty(), "{:?}", after.run.unsettled);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_did_not_look_settles_nothing() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let lost = ann.apply("prod", alone(&["a"])).await;
    lost.lock("tf").await.ok();
    lost.post("/abort", json!({})).await.ok();

    let blind = ann.apply("prod", alone(&["a"])).await;
    blind.lock("tf").await.ok();
    blind
        .change("tf", |slice| set_value(&slice, "a", "blind"))
        .await
        .ok();
    blind.unlock("tf").await.ok();
    let finish = json!({ "outcome": "succeeded", "checked": true, "refreshed": false });
    blind.post("/finish", finish).await.ok();
    let marks = ann.status("prod").await.unsettled;
    assert_eq!(marks[0].run, Some(lost.run.id));

    ann.apply("prod", alone(&["a"]))
        .await
        .set("a", "seen")
        .await;
    assert!(ann.status("prod").await.unsettled.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn force_unlock_says_of_a_run_that_it_is_not_broken_this_way() {
    let stage = Stage::start().await;
    let (ann, boss) = (
        stage.writer().await,
        stage.client(protocol::Role::Maintainer).await,
    );
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let said = boss.force_unlock("prod").await.refused(Code::StateLocked);
    let detail = said["detail"].as_str().unwrap();
    let id = run.run.id.to_string();
    for expected in [&id, "kl apply abort", "kl unlock", "ann@laptop"] {
        assert!(detail.contains(expected), "{detail}");
    }
    assert!(said["ID"].as_str().unwrap().starts_with(&id), "{said:?}");
    boss.send_json("POST", "prod/force-unlock", json!({}))
        .await
        .refused(Code::StateLocked);
    run.renew().await.ok();
    run.finish("failed").await.ok();
    boss.force_unlock("prod").await.ok();
}
