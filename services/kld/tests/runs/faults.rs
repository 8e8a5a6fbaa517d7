//! Uploads whose answer is lost, and states of every form.

use std::time::Duration;

use protocol::Code;
use serde_json::json;
use store::testing::{TestDatabase, Wire};

use super::stage::{alone, next_serial, set_value, value_of, with_state};
use crate::harness::{Setup, TestApp};
use crate::lane::documents::Doc;
use crate::lane::stage::Stage;

/// The connection to the database breaks at every moment of a commit. Whoever sends the same again until it is answered has
/// committed once.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_answer_was_lost_is_committed_once() {
    let wire = Wire::start().await;
    let setup = Setup {
        database_address: Some(wire.address),
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    };
    let app = TestApp::start_with(TestDatabase::create().await, setup).await;
    let stage = Stage::on(app).await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    let mut slice = String::from_utf8(run.read().await.ok().body).unwrap();
    for n in 0..25_u64 {
        let value = format!("v{n}");
        let upload = next_serial(&set_value(&slice, "a", &value));
        let (answer, ()) = tokio::join!(run.upload("tf", upload.clone()), async {
            tokio::time::sleep(Duration::from_millis(n)).await;
            wire.cut();
            // Only the last state of a wire is seen: it has to last until the connections have broken.
            tokio::time::sleep(Duration::from_millis(20)).await;
            wire.mend();
        });
        let mut status = answer.status;
        for _ in 0..20 {
            if status == 200 {
                break;
            }
            assert_eq!(
                status, 503,
                "nothing but the weather keeps it from being answered"
            );
            status = run.upload("tf", upload.clone()).await.status;
        }
        assert_eq!(status, 200);
        slice = String::from_utf8(upload).unwrap();
    }
    assert_eq!(value_of(&ann, "prod", "a").await.as_deref(), Some("v24"));
    assert_eq!(ann.versions("prod").await.len(), 26);
    assert_eq!(ann.status("prod").await.kept.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_in_a_form_of_its_own_goes_on_in_that_of_terraform() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let document = Doc::new(1);
    let compact: String = String::from_utf8(document.bytes())
        .unwrap()
        .split_whitespace()
        .collect();
    ann.write_locked("prod", compact.clone()).await;
    assert_eq!(ann.read("prod").await.ok().body, compact.as_bytes());
    ann.apply("prod", alone(&["a"])).await.set("a", "new").await;
    let expected = document.with("a", "new").with_serial(2);
    assert_eq!(
        ann.read("prod").await.ok().json(),
        serde_json::from_slice::<serde_json::Value>(&expected.bytes()).unwrap()
    );
    // The first version is still what was posted.
    assert_eq!(ann.version("prod", 1).await, compact.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_only_reads_keeps_plain_terraform_out() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b"]).await;
    let mut reads = alone(&["a"]);
    reads["write"] = json!([]);
    reads["read"] = json!(["terraform_data.a"]);
    let reader = ann.apply("prod", reads.clone()).await;
    let claims = &reader.run.reservation.as_ref().unwrap().claims;
    assert!(
        claims
            .iter()
            .all(|claim| claim.mode == protocol::scope::ClaimMode::Read)
    );
    bob.apply("prod", reads)
        .await
        .finish("succeeded")
        .await
        .ok();
    bob.apply("prod", alone(&["b"]))
        .await
        .finish("succeeded")
        .await
        .ok();
    bob.ask("prod", "apply", alone(&["a"]))
        .await
        .refused(Code::ReservationConflict);
    bob.lock("prod", "bob").await.refused(Code::StateLocked);
    assert_eq!(bob.write("prod", Doc::new(9).bytes()).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_state_names_what_is_unsettled_and_whose_uploads_are_kept() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    assert_eq!(
        ann.status("prod").await.holders[0].operation,
        "kl apply -f x"
    );
    run.post("/abort", json!({})).await.ok();
    run.change_late("tf", "a", "late")
        .await
        .refused(Code::LeaseLost);
    let status = ann.status("prod").await;
    assert_eq!(status.kept[0].run, Some(run.run.id));
    assert_eq!(status.unsettled[0].address, "terraform_data.a");
    assert_eq!(status.unsettled[0].run, Some(run.run.id));
}
