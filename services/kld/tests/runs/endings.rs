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
