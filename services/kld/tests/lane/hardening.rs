//! Faults that were found by trying to break the service, each with its right outcome.

use protocol::{Code, Role};

use super::documents::Doc;
use super::stage::{Reply, Stage};
use crate::harness::Setup;

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// Characters that Postgres cannot compress away.
fn random_text(length: usize) -> String {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..length)
        .map(|_| char::from(alphabet[usize::from(rand::random::<u8>()) % alphabet.len()]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_races_a_delete_is_still_the_only_one() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        ..Setup::default()
    })
    .await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    for round in 0..20 {
        let name = format!("raced-{round}");
        ann.write(&name, Doc::new(1).bytes()).await.ok();
        let mine = format!("{A}-{round}");
        let other = bob.on(1);
        let (_, locked) = tokio::join!(other.send("DELETE", &name), ann.lock(&name, &mine));
        if locked.status != 200 {
            continue;
        }
        let second = bob.lock(&name, &format!("{B}-{round}")).await;
        second.refused(Code::StateLocked);
        ann.write_under(&name, &mine, Doc::new(2).bytes())
            .await
            .ok();
        ann.unlock(&name, &mine).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_was_delayed_does_not_undo_the_write_after_it() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.lock("prod", A).await.ok();
    for serial in 1..=3 {
        ann.write_under("prod", A, Doc::new(serial).bytes())
            .await
            .ok();
    }
    ann.write_under("prod", A, Doc::new(2).bytes())
        .await
        .refused(Code::VersionConflict);
    ann.write_under("prod", A, Doc::new(3).bytes()).await.ok();
    assert_eq!(ann.read("prod").await.ok().body, Doc::new(3).bytes());
    assert_eq!(ann.versions("prod").await.len(), 3);
    // Under another lock the same bytes are a decision: somebody pushes an old file by force.
    ann.unlock("prod", A).await.ok();
    ann.lock("prod", B).await.ok();
    ann.write_under("prod", B, Doc::new(2).bytes()).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_no_index_holds_is_kept_with_its_document() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for (name, place) in [
        ("key", "index_key"),
        ("module", "module"),
        ("output", "output"),
    ] {
        let long = random_text(9_000);
        let document = Doc::new(1).bytes();
        let text = String::from_utf8(document).unwrap();
        let text = match place {
            "index_key" => text.replacen(
                "\"schema_version\"",
                &format!("\"index_key\": \"{long}\",\n          \"schema_version\""),
                1,
            ),
            "module" => text.replacen(
                "\"mode\"",
                &format!("\"module\": \"module.m[\\\"{long}\\\"]\",\n      \"mode\""),
                1,
            ),
            _ => text.replacen("\"oa\"", &format!("\"{long}\""), 1),
        };
        ann.write(name, text.clone()).await.ok();
        assert_eq!(ann.read(name).await.ok().body, text.as_bytes());
        ann.send("GET", &format!("{name}/resources"))
            .await
            .refused(Code::UnsupportedState);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_parameter_is_the_callers_mistake() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.lock("prod", A).await.ok();
    let document = Doc::new(1).bytes();
    for path in ["prod?ID=%00", "prod/import?ID=%00"] {
        let reply = Reply::of(ann.request("POST", path).body(document.clone())).await;
        reply.refused(Code::InvalidRequest);
    }
    let admin = stage.client(Role::Admin).await;
    let listed = Reply::of(admin.request("GET", "prod/versions?cursor=%00")).await;
    assert_eq!(listed.status, 400);
    let members = Reply::of(stage.admin_request("GET", "/members?cursor=%00")).await;
    assert_eq!(members.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelled_state_address_is_never_a_state_that_does_not_exist() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let right = ann.path("prod");
    let escaped = right.replacen(
        &format!("{}/", stage.workspace),
        &format!("{}%2F", stage.workspace),
        1,
    );
    for path in [
        format!("/{right}"),
        right.to_uppercase(),
        escaped,
        format!("{right}/"),
        right.replace("/v1", ""),
    ] {
        let request = stage.app.request("GET", &path).bearer_auth(&ann.token);
        let status = Reply::of(request).await.status;
        assert!(
            (400..500).contains(&status) && status != 404,
            "{path}: {status}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_kept_also_when_the_state_was_deleted_since() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let boss = stage.client(Role::Maintainer).await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    ann.lock("prod", A).await.ok();
    boss.force_unlock("prod").await.ok();
    boss.send("DELETE", "prod").await.ok();
    let refused = ann
        .write_under("prod", A, Doc::new(2).bytes())
        .await
        .refused(Code::LockEnded);
    assert_eq!(refused["kept"], true);
    ann.lock("prod", A).await.refused(Code::LockEnded);
    assert_eq!(stage.count("SELECT count(*) FROM kept_results").await, 1);
}
