//! Kept uploads: looked at, taken over, let go.

use protocol::Code;
use serde_json::{Value, json};

use super::stage::{alone, next_serial, refused, set_value, value_of, with_state};
use crate::lane::documents::Doc;
use crate::lane::stage::{Client, Reply, Stage};

/// A run on `a` and `b` that is aborted after its apply began, and uploads late.
async fn late_upload(ann: &Client<'_>) -> String {
    let run = ann.apply("prod", alone(&["a", "b"])).await;
    run.lock("tf").await.ok();
    let slice = String::from_utf8(run.read().await.ok().body).unwrap();
    run.post("/abort", json!({})).await.ok();
    let late = next_serial(&set_value(&set_value(&slice, "a", "late"), "b", "late"));
    refused(run.upload("tf", late).await, Code::LeaseLost);
    ann.status("prod").await.kept[0].id.to_string()
}

async fn compare(ann: &Client<'_>, kept: &str) -> Value {
    ann.read(&format!("prod/kept/{kept}/comparison"))
        .await
        .ok()
        .json()["addresses"]
        .clone()
}

async fn adopt(ann: &Client<'_>, kept: &str, choice: Value) -> Reply {
    let mut body = json!({ "key": uuid::Uuid::now_v7().to_string() });
    for (key, value) in choice.as_object().unwrap() {
        body[key] = value.clone();
    }
    ann.send_json("POST", &format!("prod/kept/{kept}/adopt"), body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_state_left_alone_is_adopted_and_settles_everything() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let kept = late_upload(&ann).await;
    assert_eq!(
        compare(&ann, &kept).await,
        json!([
            { "address": "terraform_data.a", "kept": "changed", "state": "unchanged" },
            { "address": "terraform_data.b", "kept": "changed", "state": "unchanged" },
        ])
    );
    let run = adopt(&ann, &kept, json!({})).await.ok().json();
    assert_eq!(run["status"], "succeeded");
    assert_eq!(
        run["versions"][0]["changed"],
        json!(["terraform_data.a", "terraform_data.b"])
    );
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("late"));
    assert!(ann.status("prod").await.kept[0].settled);
    assert!(
        ann.apply("prod", alone(&["a"]))
            .await
            .run
            .unsettled
            .is_empty()
    );
    refused(adopt(&ann, &kept, json!({})).await, Code::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_on_both_sides_is_for_a_person_to_decide() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let kept = late_upload(&ann).await;
    ann.apply("prod", alone(&["b"]))
        .await
        .set("b", "theirs")
        .await;
    let problem = refused(adopt(&ann, &kept, json!({})).await, Code::VersionConflict);
    assert_eq!(problem["addresses"], json!(["terraform_data.b"]));
    assert_eq!(compare(&ann, &kept).await[1]["state"], "changed");
    // Somebody holds a part of it.
    let holder = ann.apply("prod", alone(&["a"])).await;
    let choice = json!({ "prefer_state": ["terraform_data.b"] });
    refused(
        adopt(&ann, &kept, choice.clone()).await,
        Code::ReservationConflict,
    );
    holder.finish("failed").await.ok();
    adopt(&ann, &kept, choice).await.ok();
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("late"));
    assert_eq!(value_of(&ann, "prod", "b").await.as_deref(), Some("theirs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_of_plain_terraform_is_recovered_in_the_same_way() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let boss = stage.client(protocol::Role::Maintainer).await;
    with_state(&ann, "prod", &["a", "b"]).await;
    ann.lock("prod", "late").await.ok();
    boss.force_unlock("prod").await.ok();
    let late = Doc::new(2)
        .without_resources()
        .with("a", "late")
        .with("d", "new");
    ann.write_under("prod", "late", late.bytes())
        .await
        .refused(Code::LockEnded);
    let kept = ann.status("prod").await.kept[0].id.to_string();
    let changes: Vec<_> = compare(&ann, &kept)
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["address"].clone(), one["kept"].clone()))
        .collect();
    assert_eq!(
        changes,
        [
            ("terraform_data.a", "changed"),
            ("terraform_data.b", "removed"),
            ("terraform_data.d", "added")
        ]
        .map(|(address, change)| (json!(address), json!(change)))
    );
    adopt(&ann, &kept, json!({ "prefer_kept": [] })).await.ok();
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("late"));
    assert_eq!(value_of(&ann, "prod", "b").await, None);
    assert_eq!(value_of(&ann, "prod", "d").await.as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_discarded_stays_readable_and_clears_its_marks() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let kept = late_upload(&ann).await;
    let marked = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(marked.run.unsettled.len(), 1);
    marked.finish("failed").await.ok();
    ann.send("POST", &format!("prod/kept/{kept}/discard"))
        .await
        .ok();
    ann.send("POST", &format!("prod/kept/{kept}/discard"))
        .await
        .ok();
    ann.read(&format!("prod/kept/{kept}")).await.ok();
    assert!(
        ann.apply("prod", alone(&["a"]))
            .await
            .run
            .unsettled
            .is_empty()
    );
    assert_eq!(stage.audited("kept.settle").await.len(), 1);
    assert_eq!(ann.versions("prod").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_for_what_was_not_changed_is_refused() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let kept = late_upload(&ann).await;
    let (known, unknown) = ("terraform_data.a", "terraform_data.x");
    for choice in [
        json!({ "prefer_kept": [unknown] }),
        json!({ "prefer_state": [known, unknown] }),
        json!({ "prefer_kept": [known], "prefer_state": [known] }),
    ] {
        refused(adopt(&ann, &kept, choice).await, Code::InvalidRequest);
    }
    assert!(!ann.status("prod").await.kept[0].settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stood_beside_the_slice_all_along_was_not_added_since() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    // A Terraform that was given no targets makes a second `b`.
    let slice = run.read().await.ok().json();
    let lineage = slice["lineage"].as_str().unwrap();
    let both = Doc::new(9)
        .without_resources()
        .with("a", "start")
        .with("b", "again")
        .with_lineage(lineage);
    refused(run.upload("tf", both.bytes()).await, Code::OutsideScope);
    run.unlock("tf").await.ok();
    run.finish("failed").await.ok();
    let kept = ann.status("prod").await.kept[0].id.to_string();
    assert_eq!(
        compare(&ann, &kept).await,
        json!([{ "address": "terraform_data.b", "kept": "changed", "state": "unchanged", "outside": true }])
    );
    let problem = refused(adopt(&ann, &kept, json!({})).await, Code::VersionConflict);
    assert_eq!(problem["addresses"], json!(["terraform_data.b"]));
    let choice = json!({ "prefer_kept": ["terraform_data.b"] });
    adopt(&ann, &kept, choice).await.ok();
    assert_eq!(value_of(&ann, "prod", "b").await.as_deref(), Some("again"));
}
