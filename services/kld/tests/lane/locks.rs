//! Locks: who holds, who is told what, and what ends a lock.

use protocol::{Code, Role};
use serde_json::json;

use super::documents::{Doc, case};
use super::stage::{Reply, Stage, lock_info};
use crate::harness::Setup;

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// What every client must find in a conflict, or it does not wait.
#[track_caller]
pub(super) fn names_the_holder(reply: Reply, id: &str) {
    assert_eq!(reply.header("content-type"), Some("application/json"));
    names_the_holder_on_any_lane(reply, id);
}

#[track_caller]
fn names_the_holder_on_any_lane(reply: Reply, id: &str) {
    let problem = reply.refused(Code::StateLocked);
    for key in [
        "ID",
        "Operation",
        "Info",
        "Who",
        "Version",
        "Created",
        "Path",
    ] {
        assert!(problem[key].is_string(), "{key} of {problem:?}");
    }
    let word = problem["ID"].as_str().unwrap().split(' ').next();
    assert_eq!(word, Some(id));
    let created = problem["Created"].as_str().unwrap();
    assert!(
        chrono::DateTime::parse_from_rfc3339(created).is_ok(),
        "{created}"
    );
}

/// S01.
#[tokio::test(flavor = "multi_thread")]
async fn force_unlock_with_an_empty_body_breaks_the_lock_for_those_who_may() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    let boss = stage.client(Role::Maintainer).await;
    let reader = stage.client(Role::Reader).await;
    let lock = case("lock-a.json");
    Reply::of(ann.request("LOCK", "prod").body(lock.clone()))
        .await
        .ok();

    bob.force_unlock("prod").await.refused(Code::Forbidden);
    reader.force_unlock("prod").await.refused(Code::Forbidden);
    names_the_holder(bob.lock("prod", B).await, A);

    boss.force_unlock("prod").await.ok();
    let [entry] = &stage.audited("lock.break").await[..] else {
        panic!("one entry");
    };
    let text = entry.to_string();
    for part in [A, &boss.principal, &ann.principal] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Nothing is held: the same again is a success.
    boss.force_unlock("prod").await.ok();
    assert_eq!(stage.audited("lock.break").await.len(), 1);

    // One's own lock needs no more than the right to unlock; the holder's own late UNLOCK is then a success, and the
    // write is refused.
    ann.lock("prod", B).await.ok();
    ann.force_unlock("prod").await.ok();
    ann.unlock("prod", B).await.ok();
    ann.write_under("prod", B, Doc::new(1).bytes())
        .await
        .refused(Code::LockEnded);
    // Nobody has ever locked this one.
    ann.force_unlock("other").await.ok();
}

/// S02.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_meets_a_lock_is_told_its_holder_on_every_replica() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        ..Setup::default()
    })
    .await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    let boss = stage.client(Role::Maintainer).await;
    ann.lock("prod", A).await.ok();
    for replica in [0, 1] {
        names_the_holder(bob.on(replica).lock("prod", B).await, A);
        names_the_holder(bob.on(replica).write("prod", Doc::new(1).bytes()).await, A);
    }
    let admin = boss.send_json(
        "POST",
        "frozen/admin-lock",
        json!({ "message": "no changes before the audit" }),
    );
    let id = admin.await.ok().json()["lock_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for replica in [0, 1] {
        let reply = bob.on(replica).lock("frozen", B).await;
        assert!(
            reply.json()["detail"]
                .as_str()
                .unwrap()
                .contains("no changes before the audit")
        );
        assert_eq!(reply.json()["Info"], "no changes before the audit");
        names_the_holder(reply, &id);
    }
}

/// S05, what is left when a client was killed.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_lock_stays_shows_its_age_and_can_be_broken() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    let boss = stage.client(Role::Maintainer).await;
    ann.lock("prod", A).await.ok();
    stage
        .tamper("UPDATE reservations SET created_at = created_at - interval '3 days', last_active_at = last_active_at - interval '2 days'")
        .await;
    names_the_holder(bob.lock("prod", B).await, A);
    let status = bob.status("prod").await;
    let [holder] = &status.holders[..] else {
        panic!("one holder: {status:?}");
    };
    assert_eq!(
        (holder.lock_id.as_str(), holder.who.as_str()),
        (A, format!("{A}@ci").as_str())
    );
    assert!(holder.age_seconds >= 3 * 86_400 && holder.expires_at.is_none());
    let listed = bob.read("").await;
    assert_ne!(listed.status, 200, "an empty name is no list");
    let list = stage.app.request(
        "GET",
        &format!("/v1/states/{}/{}", stage.workspace, stage.environment),
    );
    let list = Reply::of(list.bearer_auth(&bob.token)).await.ok().json();
    assert_eq!(list["states"][0]["locked"], true);

    let broken = boss
        .send_json("POST", "prod/force-unlock", json!({ "lock_id": A }))
        .await
        .ok()
        .json();
    assert_eq!(broken["broken"]["lock_id"], A);
    bob.lock("prod", B).await.ok();
    bob.write_under("prod", B, Doc::new(1).bytes()).await.ok();
}

/// S06, with the clock turned instead of waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_lock_does_not_vanish_and_a_limited_one_only_when_it_is_surely_dead() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    ann.lock("prod", A).await.ok();
    for _ in 0..3 {
        stage.tamper("UPDATE reservations SET created_at = created_at - interval '1 hour', last_active_at = last_active_at - interval '1 hour'").await;
        // Each time another client, which tries once: one that comes back would be the next to get the lock.
        let once = uuid::Uuid::now_v7().to_string();
        names_the_holder(bob.lock("prod", &once).await, A);
    }
    ann.write_under("prod", A, Doc::new(1).bytes()).await.ok();
    ann.unlock("prod", A).await.ok();

    stage
        .configure(json!({ "terraform_lock_ttl_seconds": 600 }))
        .await;
    let id = "limited";
    ann.lock("prod", id).await.ok();
    // Run out, but within the lock delay.
    stage.tamper("UPDATE reservations SET expires_at = clock_timestamp() - interval '5 seconds' WHERE status = 'active'").await;
    names_the_holder(bob.lock("prod", B).await, id);
    // A write counts as a sign of life: the limit starts anew.
    ann.write_under("prod", id, Doc::new(2).bytes()).await.ok();
    let expires = bob.status("prod").await.holders[0].expires_at.unwrap();
    assert!(
        expires > chrono::Utc::now() + chrono::TimeDelta::seconds(500),
        "{expires}"
    );

    // Run out for good, but the service was away or has only just come back.
    stage.tamper("UPDATE reservations SET expires_at = clock_timestamp() - interval '1 minute' WHERE status = 'active'").await;
    stage.tamper("UPDATE lock_service SET last_beat = clock_timestamp(), grace_until = clock_timestamp() + interval '1 minute'").await;
    names_the_holder(bob.lock("prod", B).await, id);
    stage.tamper("UPDATE lock_service SET last_beat = clock_timestamp(), grace_until = clock_timestamp() - interval '1 minute'").await;
    bob.lock("prod", B).await.ok();
    assert_eq!(stage.audited("lock.expire").await.len(), 1);

    // What the late holder made is kept, once, however often it is sent.
    for _ in 0..2 {
        let late = ann.write_under("prod", id, Doc::new(3).bytes()).await;
        assert_eq!(late.refused(Code::LockEnded)["kept"], true);
    }
    let kept = bob.status("prod").await.kept;
    assert_eq!(kept.len(), 1);
    let reply = bob.read(&format!("prod/kept/{}", kept[0].id)).await.ok();
    assert_eq!(reply.body, Doc::new(3).bytes());
    // The head as a late repeat is no news, and nothing to keep.
    ann.write_under("prod", id, Doc::new(2).bytes()).await.ok();
    ann.unlock("prod", id).await.ok();
    assert_eq!(bob.status("prod").await.holders[0].lock_id, B);
}

/// S08 on the http lane.
#[tokio::test(flavor = "multi_thread")]
async fn an_administrative_lock_outlasts_whatever_runs_try() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let (boss, other_boss) = (
        stage.client(Role::Maintainer).await,
        stage.client(Role::Maintainer).await,
    );
    ann.write_locked("prod", Doc::new(1).bytes()).await;
    ann.write_locked("prod", Doc::new(2).bytes()).await;
    let message = json!({ "message": "frozen for the migration" });
    let taken = boss
        .send_json("POST", "prod/admin-lock", message)
        .await
        .ok()
        .json();
    let id = taken["lock_id"].as_str().unwrap();

    let before = (
        ann.read("prod").await.ok().body,
        stage.count("SELECT max(gen) FROM lock_heads").await,
    );
    names_the_holder(ann.lock("prod", A).await, id);
    names_the_holder(ann.write("prod", Doc::new(3).bytes()).await, id);
    names_the_holder(ann.send("DELETE", "prod").await, id);
    names_the_holder_on_any_lane(ann.write("prod/import", Doc::new(3).bytes()).await, id);
    names_the_holder_on_any_lane(boss.roll_back("prod", 1).await, id);
    ann.write_under("prod", A, Doc::new(3).bytes())
        .await
        .refused(Code::LockIdMismatch);
    // Its ID is no secret: everybody who meets the lock is shown it.
    for who in [&ann, &boss] {
        who.write_under("prod", id, Doc::new(3).bytes())
            .await
            .refused(Code::LockIdMismatch);
        who.send("DELETE", &format!("prod?ID={id}"))
            .await
            .refused(Code::LockIdMismatch);
        who.unlock("prod", id).await.refused(Code::LockIdMismatch);
    }
    ann.unlock("prod", A).await.refused(Code::LockIdMismatch);
    ann.force_unlock("prod").await;
    other_boss.force_unlock("prod").await;
    let after = (
        ann.read("prod").await.ok().body,
        stage.count("SELECT max(gen) FROM lock_heads").await,
    );
    assert!(before == after, "state or lock changed");
    assert_eq!(ann.status("prod").await.holders[0].lock_id, id);

    ann.send("DELETE", "prod/admin-lock")
        .await
        .refused(Code::Forbidden);
    other_boss.send("DELETE", "prod/admin-lock").await.ok();
    ann.lock("prod", A).await.ok();
}

/// S12.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_with_exactly_its_id_writes() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    // Nobody holds it: above the head and of its lineage, with a gap.
    ann.write("prod", Doc::new(5).bytes()).await.ok();
    assert!(
        ann.versions("prod")
            .await
            .iter()
            .all(|version| version.unlocked && !version.forced)
    );
    ann.write_under("prod", A, Doc::new(6).bytes())
        .await
        .refused(Code::LockNotHeld);

    stage.configure(json!({ "require_locks": true })).await;
    ann.write("prod", Doc::new(6).bytes())
        .await
        .refused(Code::LockRequired);
    // A repeat of the head changes nothing and needs nothing.
    ann.write("prod", Doc::new(5).bytes()).await.ok();
    ann.send("DELETE", "prod").await.refused(Code::LockRequired);

    ann.lock("prod", A).await.ok();
    let six = || Doc::new(6).bytes();
    let refusals = [
        ("prod".to_owned(), Code::StateLocked),
        (format!("prod?ID={B}"), Code::LockIdMismatch),
        (format!("prod?id={A}"), Code::StateLocked),
        (format!("prod?ID={A}&ID={B}"), Code::LockIdMismatch),
        (format!("prod?ID={A}&ID={A}"), Code::LockIdMismatch),
        ("prod?ID=".to_owned(), Code::LockIdMismatch),
    ];
    for (path, code) in refusals {
        ann.write(&path, six()).await.refused(code);
    }
    // The ID is shown to whoever meets the lock, so it counts only with its principal.
    bob.write_under("prod", A, six())
        .await
        .refused(Code::LockIdMismatch);
    bob.send("DELETE", &format!("prod?ID={A}"))
        .await
        .refused(Code::LockIdMismatch);
    bob.unlock("prod", A).await.refused(Code::Forbidden);
    assert_eq!(ann.versions("prod").await.len(), 2);
    // Other parameters do not matter, nor their order.
    ann.write(&format!("prod?ID={A}&team=a"), six()).await.ok();
    assert!(!ann.versions("prod").await[2].unlocked);
}

/// The other forms of LOCK and UNLOCK, for edges that let only usual methods through.
#[tokio::test(flavor = "multi_thread")]
async fn locks_work_by_post_as_well() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let apart = stage.app.request(
        "POST",
        &ann.path("prod").replace("/v1/states/", "/v1/state-unlock/"),
    );
    let apart = apart.basic_auth("x", Some(&ann.token)).json(&lock_info(B));
    ann.send_json("POST", "prod/lock", lock_info(A)).await.ok();
    names_the_holder(ann.send_json("POST", "prod/lock", lock_info(B)).await, A);
    ann.send_json("POST", "prod/unlock", lock_info(A))
        .await
        .ok();
    ann.send_json("POST", "prod/lock", lock_info(B)).await.ok();
    Reply::of(apart).await.ok();
    assert!(ann.status("prod").await.holders.is_empty());
}

/// Bodies that are no lock information are refused, and never a 5xx: Terraform would try three times.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_body_that_cannot_be_read_is_a_400() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for method in ["LOCK", "UNLOCK"] {
        for body in [
            "[]",
            "{",
            "null",
            r#"{"ID":"a b c"}x"#,
            r#"{"ID":"\u0000"}"#,
            "\u{feff}{}",
        ] {
            let reply = Reply::of(ann.request(method, "prod").body(body)).await;
            assert_eq!(reply.status, 400, "{method} {body:?}: {reply:?}");
        }
    }
    let long = "x".repeat(300);
    for body in ["", "{}", &format!(r#"{{"ID":"{long}"}}"#)] {
        let reply = Reply::of(ann.request("LOCK", "prod").body(body.to_owned())).await;
        assert_eq!(reply.status, 400, "{body:?}: {reply:?}");
    }
    let odd =
        json!({ "ID": A, "Who": "a\u{0}b\u{ffff}", "Info": "x".repeat(10_000), "Created": "soon" });
    ann.send_json("LOCK", "prod", odd).await.ok();
    let bob = stage.writer().await;
    names_the_holder(bob.lock("prod", B).await, A);
    let whole = "x".repeat(70_000);
    let reply = Reply::of(
        ann.request("LOCK", "big")
            .body(format!(r#"{{"ID":"{A}","Info":"{whole}"}}"#)),
    )
    .await;
    reply.refused(Code::BodyTooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_whose_lock_is_broken_leaves_the_whole_state_unsettled() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked("prod", Doc::new(1).bytes()).await;
    let lock = async |id: &str, operation: &str| {
        let mut info = lock_info(id);
        info["Operation"] = operation.into();
        ann.send_json("LOCK", "prod", info).await.ok();
    };
    lock("plan", "OperationTypePlan").await;
    ann.force_unlock("prod").await.ok();
    assert!(ann.status("prod").await.unsettled.is_empty());
    ann.lock("prod", "released").await.ok();
    ann.unlock("prod", "released").await.ok();
    assert!(ann.status("prod").await.unsettled.is_empty());

    ann.lock("prod", "lost").await.ok();
    ann.force_unlock("prod").await.ok();
    let marks = ann.status("prod").await.unsettled;
    assert_eq!(marks.len(), 1);
    assert_eq!((marks[0].address.as_str(), &marks[0].run), ("*", &None));
    assert_eq!(marks[0].who, "lost@ci");
    assert!(marks[0].reason.starts_with("broken by"), "{marks:?}");
    // What does not look at the infrastructure settles nothing.
    lock("push", "state-push").await;
    ann.write_under("prod", "push", Doc::new(2).bytes())
        .await
        .ok();
    ann.unlock("prod", "push").await.ok();
    assert_eq!(ann.status("prod").await.unsettled.len(), 1);

    ann.lock("prod", "next").await.ok();
    assert_eq!(ann.status("prod").await.unsettled.len(), 1);
    ann.write_under("prod", "next", Doc::new(3).bytes())
        .await
        .ok();
    assert!(ann.status("prod").await.unsettled.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_whose_lock_expires_leaves_the_whole_state_unsettled() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked("prod", Doc::new(1).bytes()).await;
    stage
        .configure(json!({ "terraform_lock_ttl_seconds": 60 }))
        .await;
    ann.lock("prod", "lost").await.ok();
    stage.tamper("UPDATE reservations SET expires_at = clock_timestamp() - interval '1 minute' WHERE status = 'active'").await;
    stage.tamper("UPDATE lock_service SET last_beat = clock_timestamp(), grace_until = clock_timestamp() - interval '1 minute'").await;
    ann.lock("prod", "heir").await.ok();
    let marks = ann.status("prod").await.unsettled;
    assert_eq!(marks.len(), 1);
    assert_eq!(
        (marks[0].address.as_str(), marks[0].who.as_str()),
        ("*", "lost@ci")
    );
}
