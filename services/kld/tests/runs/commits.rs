//! What a commit of a part makes of the state.

use futures::future::join_all;
use serde_json::json;

use super::stage::{alone, set_value, value_of, with_state};
use crate::harness::Setup;
use crate::lane::documents::{Doc, with_serial};
use crate::lane::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_the_document_that_terraform_would_have_written() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let before = String::from_utf8(ann.read("prod").await.ok().body).unwrap();
    let run = ann.apply("prod", alone(&["b"])).await;
    run.set("b", "changed").await;

    let expected = with_serial(set_value(&before, "b", "changed").as_bytes(), 2);
    let found = ann.read("prod").await.ok().body;
    assert_eq!(
        String::from_utf8_lossy(&found),
        String::from_utf8_lossy(&expected)
    );
    // The first version stays as it was; the second is proven, and the same for ever.
    assert_eq!(ann.version("prod", 1).await, before.as_bytes());
    assert_eq!(ann.version("prod", 2).await, expected);
    let versions = ann.versions("prod").await;
    assert_eq!(versions.len(), 2);
    assert_eq!(versions[1].serial, Some(2));
    assert_eq!(versions[1].rows_changed, 1);
    assert_eq!(versions[1].run, Some(run.run.id));
    assert_eq!(versions[1].command.as_deref(), Some("kl apply -f x"));
    assert!(versions[1].sha256.is_some());
    // Plain Terraform goes on from there, and the native lane from what that wrote.
    let next = with_serial(set_value(&before, "a", "plain").as_bytes(), 3);
    ann.write_locked("prod", next.clone()).await;
    assert_eq!(ann.read("prod").await.ok().body, next);
    ann.apply("prod", alone(&["c"]))
        .await
        .set("c", "again")
        .await;
    assert_eq!(value_of(&ann, "prod", "c").await.as_deref(), Some("again"));
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("plain"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_disjoint_runs_at_once_all_land() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        acquire_timeout: std::time::Duration::from_secs(30),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    let names: Vec<String> = (0..16).map(|n| format!("r{n:05}")).collect();
    let document = Doc::of_size(1, 16).without_outputs();
    ann.write_locked("prod", document.bytes()).await;
    let runs = names.iter().enumerate().map(|(n, name)| {
        let client = ann.on(n % 2);
        async move {
            let run = client.apply("prod", alone(&[name])).await;
            run.set(name, &format!("by{n}")).await;
            run.fencing_token()
        }
    });
    let mut tokens = join_all(runs).await;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 16, "each grant has a token of its own");
    let mut expected = document.with_serial(17);
    for (n, name) in names.iter().enumerate() {
        expected = expected.with(name, &format!("by{n}"));
    }
    assert_eq!(
        String::from_utf8_lossy(&ann.read("prod").await.ok().body),
        String::from_utf8_lossy(&expected.bytes())
    );
    assert_eq!(ann.versions("prod").await.len(), 17);
    assert_eq!(
        stage.count("SELECT count(*) FROM reservation_nodes").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_of_a_state_makes_its_first_version() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let mut scope = alone(&["a"]);
    scope["undeployed"] = json!(["terraform_data.a"]);
    let run = ann.apply("new", scope.clone()).await;
    let empty = run.read().await.ok().json();
    assert_eq!(empty["resources"], json!([]));
    let lineage = empty["lineage"].as_str().unwrap().to_owned();
    let other = ann.plan("new", alone(&["b"])).await;
    assert_eq!(other.read().await.ok().json()["lineage"], lineage.as_str());
    ann.read("new").await.refused(protocol::Code::StateNotFound);
    let first = Doc::new(1)
        .without_resources()
        .with("a", "1")
        .with_lineage(&lineage);
    run.lock("tf").await.ok();
    run.upload("tf", first.bytes()).await.ok();
    assert_eq!(ann.read("new").await.ok().body, first.bytes());
}
