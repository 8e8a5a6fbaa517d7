//! Locks while many ask at once, or again and again.

use std::time::Duration;

use futures::future::join_all;
use protocol::Code;

use super::documents::Doc;
use super::locks::names_the_holder;
use super::stage::{Reply, Stage, lock_info};
use crate::harness::Setup;

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// S03, without the client's waiting: however many poll, each is told "locked", and the holder is not slowed down.
#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_are_all_told_that_the_state_is_locked() {
    let stage = Stage::start_with(Setup {
        acquire_timeout: Duration::from_secs(10),
        ..Setup::default()
    })
    .await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    ann.lock("prod", A).await.ok();
    for _ in 0..3 {
        let polls = (0..50).map(|n| {
            let bob = bob.clone();
            async move { bob.lock("prod", &format!("waiter-{n}")).await }
        });
        let (replies, write) = tokio::join!(
            join_all(polls),
            ann.write_under("prod", A, Doc::new(1).bytes())
        );
        write.ok();
        for reply in replies {
            names_the_holder(reply, A);
        }
    }
    ann.unlock("prod", A).await.ok();
    // Each gets its turn, in the order in which they came: that is theirs alone to know.
    let mut waiters: Vec<String> = (0..50).map(|n| format!("waiter-{n}")).collect();
    while !waiters.is_empty() {
        let before = waiters.len();
        let mut refused = Vec::new();
        for id in waiters {
            let reply = bob.lock("prod", &id).await;
            if reply.status == 423 {
                refused.push(id);
                continue;
            }
            reply.ok();
            bob.unlock("prod", &id).await.ok();
        }
        waiters = refused;
        assert!(
            waiters.len() < before,
            "nobody's turn, though nobody holds it"
        );
    }
}

/// S04.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_or_held_state_blocks_no_other() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let workspace = stage.app.workspace("other").await;
    let environment = workspace.environment("prod").await;
    let elsewhere = |method: &str, name: &str| {
        let path = format!("/v1/states/{}/{environment}/{name}", workspace.id);
        stage
            .app
            .request(method, &path)
            .bearer_auth(&workspace.token)
    };
    ann.lock("default", A).await.ok();
    Reply::of(elsewhere("LOCK", "default").json(&lock_info(A)))
        .await
        .ok();

    // Somebody creates a state and does not come to an end.
    let mut paused = stage.app.database.owner().begin().await.unwrap();
    sqlx::query("INSERT INTO states (workspace_id, id, environment_id, name) VALUES ($1, gen_random_uuid(), $2, 'new')")
        .bind(&stage.workspace)
        .bind(&stage.environment)
        .execute(&mut *paused)
        .await
        .unwrap();
    let rest = async {
        ann.lock("other", B).await.ok();
        Reply::of(elsewhere("LOCK", "any").json(&lock_info(B)))
            .await
            .ok();
        Reply::of(elsewhere("POST", "new").body(Doc::new(1).bytes()))
            .await
            .ok();
    };
    tokio::time::timeout(Duration::from_secs(20), rest)
        .await
        .expect("nothing waits for the paused creation");
    paused.rollback().await.unwrap();
    ann.lock("new", A).await.ok();
}

/// S07, with fewer rounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_race_for_a_lock_has_exactly_one_winner() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        acquire_timeout: Duration::from_secs(20),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    for round in 0..4 {
        let racers = (0..100).map(|n| {
            let ann = ann.on(n % 2);
            async move {
                (
                    format!("r{round}-{n}"),
                    ann.lock("prod", &format!("r{round}-{n}")).await,
                )
            }
        });
        let (won, lost): (Vec<_>, Vec<_>) = join_all(racers)
            .await
            .into_iter()
            .partition(|(_, reply)| reply.status == 200);
        let [(winner, _)] = &won[..] else {
            panic!("{} winners in round {round}", won.len());
        };
        for (_, reply) in lost {
            names_the_holder(reply, winner);
        }
        ann.unlock("prod", winner).await.ok();
    }
    let rising = stage.count(
        "SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY created_at) AS before FROM reservations) t WHERE token <= before",
    );
    assert_eq!(rising.await, 0, "tokens rise with every grant");
}

/// Traps 3 and 4: what Terraform re-sends when an answer was lost.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_sent_again_is_done_once() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    for _ in 0..3 {
        ann.lock("prod", A).await.ok();
    }
    for _ in 0..3 {
        ann.write_under("prod", A, Doc::new(1).bytes()).await.ok();
    }
    // The same ID from somebody else is not the same lock.
    names_the_holder(bob.lock("prod", A).await, A);
    for _ in 0..3 {
        ann.unlock("prod", A).await.ok();
    }
    assert_eq!(ann.versions("prod").await.len(), 1);
    assert_eq!(stage.count("SELECT count(*) FROM reservations").await, 1);
    // A LOCK that was under way while its lock ended is a delayed duplicate, whoever sends it.
    ann.lock("prod", A).await.refused(Code::LockEnded);
    bob.lock("prod", A).await.refused(Code::LockEnded);
    bob.lock("prod", B).await.ok();
    ann.unlock("prod", "never-seen")
        .await
        .refused(Code::LockIdMismatch);
    let readable = lock_info(&format!("{B} OperationTypeApply by bob@ci"));
    bob.send_json("UNLOCK", "prod", readable).await.ok();
    assert!(bob.status("prod").await.holders.is_empty());
}
