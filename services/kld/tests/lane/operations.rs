//! Several replicas, a database that comes and goes, strangers that scan. (S48, Redis changing its primary, cannot happen:
//! there is no Redis on this lane.)

use std::time::{Duration, Instant};

use futures::future::join_all;
use protocol::{Code, Role};
use serde_json::json;
use store::testing::Wire;

use super::documents::Doc;
use super::stage::{Client, Reply, Stage};
use crate::harness::{Setup, assert_closed_series};

/// Sends until the answer is no 503, as clients do; anything else that is no success fails.
async fn persist<F: Future<Output = Reply>>(mut send: impl FnMut() -> F) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = send().await;
        if reply.status != 503 {
            return reply;
        }
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
        assert!(Instant::now() < deadline, "still {reply:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// S50: many states at once while connections are killed.
#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_lose_nothing_and_double_nothing() {
    const ROUNDS: u64 = 8;
    let stage = Stage::start_with(Setup {
        acquire_timeout: Duration::from_secs(5),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    let work = (0..8).map(|n| {
        let ann = ann.clone();
        async move {
            let name = format!("s{n}");
            for round in 1..=ROUNDS {
                let id = format!("{n}-{round}");
                persist(|| ann.lock(&name, &id)).await.ok();
                persist(|| ann.write_under(&name, &id, Doc::new(round).bytes()))
                    .await
                    .ok();
                persist(|| ann.unlock(&name, &id)).await.ok();
            }
        }
    });
    let mut killed = 0;
    let mut work = std::pin::pin!(join_all(work));
    loop {
        tokio::select! {
            _ = &mut work => break,
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                killed += stage
                    .count("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'kld' ORDER BY random() LIMIT 1) victim")
                    .await;
            }
        }
    }
    assert!(killed > 0, "nothing was killed");
    for n in 0..8 {
        let name = format!("s{n}");
        let serials: Vec<_> = ann
            .versions(&name)
            .await
            .iter()
            .map(|version| version.serial.unwrap())
            .collect();
        assert_eq!(serials, (1..=ROUNDS).collect::<Vec<_>>(), "{name}");
        assert!(ann.status(&name).await.holders.is_empty());
    }
}

/// S50: everybody writes the next serial of one state.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_unlocked_writes_of_one_serial_one_wins() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        acquire_timeout: Duration::from_secs(20),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    for serial in 2..5 {
        let writes = (0..50).map(|n| {
            let ann = ann.on(n % 2);
            async move {
                ann.write("prod", Doc::new(serial).with("a", &n.to_string()).bytes())
                    .await
            }
        });
        let replies = join_all(writes).await;
        let won = replies.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(won, 1);
        for reply in replies.into_iter().filter(|reply| reply.status != 200) {
            reply.refused(Code::StaleSerial);
        }
    }
    assert_eq!(ann.versions("prod").await.len(), 4);
    // The first version of a state, too.
    let firsts = (0..20).map(|n| {
        let ann = ann.on(n % 2);
        async move {
            ann.write("new", Doc::new(1).with("a", &n.to_string()).bytes())
                .await
                .status
        }
    });
    let mut statuses = join_all(firsts).await;
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[1], statuses[19]), (200, 409, 409));
}

/// S50: the connection breaks again and again, also between a commit and its answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_whenever_the_wire_was_cut() {
    let wire = Wire::start().await;
    let stage = Stage::start_with(Setup {
        database_address: Some(wire.address),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    for serial in 2..14_u64 {
        let document = Doc::new(serial).with("a", &serial.to_string()).bytes();
        let cut = async {
            tokio::time::sleep(Duration::from_millis(serial * 2 % 23)).await;
            wire.cut();
            tokio::time::sleep(Duration::from_millis(20)).await;
            wire.mend();
        };
        let (reply, ()) = tokio::join!(persist(|| ann.write("prod", document.clone())), cut);
        reply.ok();
        assert!(persist(|| ann.read("prod")).await.ok().body == document);
    }
    let serials: Vec<_> = ann
        .versions("prod")
        .await
        .iter()
        .map(|version| version.serial.unwrap())
        .collect();
    assert_eq!(serials, (1..14).collect::<Vec<_>>());
}

/// S51, with a twentieth of the requests.
#[tokio::test(flavor = "multi_thread")]
async fn no_label_is_made_of_what_a_request_says() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked("prod", Doc::new(1).bytes()).await;
    for batch in 0..10 {
        let scan = (0..100).map(|n| {
            let marked = format!("canary{batch}x{n}");
            let ws = format!("ws_{:012x}", batch * 1000 + n);
            let (method, path) = match n % 8 {
                0 => ("GET", format!("/{marked}/../etc/passwd")),
                1 => ("GET", ann.path(&marked)),
                2 => ("POST", format!("{}?ID={marked}", ann.path("prod"))),
                3 => ("GET", format!("/v1/states/{ws}/{}/x", stage.environment)),
                4 => ("LOCK", format!("/v1/{marked}")),
                5 => ("CANARYMETHOD", ann.path(&marked)),
                6 => ("UNLOCK", ann.path(&marked)),
                _ => ("GET", format!("/v1/states/{ws}/%ff%00/{marked}")),
            };
            let request = stage.app.request(method, &path);
            let request = request.bearer_auth(&ann.token).header("user-agent", marked);
            async move { request.send().await.unwrap().status().as_u16() }
        });
        for status in join_all(scan).await {
            assert!(status < 500, "{status}");
        }
    }
    let started = Instant::now();
    let text = stage.app.metrics().await;
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_closed_series(&text);
    assert!(text.len() < 1_000_000);
    for secret in [
        "canary",
        "CANARY",
        "prod",
        stage.workspace.as_str(),
        stage.environment.as_str(),
        ann.token.as_str(),
        ann.principal.as_str(),
    ] {
        assert!(!text.contains(secret), "{secret} is in a label");
    }
    let public = Reply::of(stage.app.request("GET", "/metrics").bearer_auth(&ann.token)).await;
    assert_eq!(public.status, 404);
}

/// S52.
#[tokio::test(flavor = "multi_thread")]
async fn it_does_not_matter_which_replica_answers() {
    let stage = Stage::start_with(Setup {
        replicas: 3,
        ..Setup::default()
    })
    .await;
    let boss = stage.client(Role::Maintainer).await;
    let mut turn = 0;
    let mut next = || -> Client<'_> {
        turn += 1;
        boss.on(turn % 3)
    };
    for serial in 1..=10 {
        let id = format!("run-{serial}");
        let document = Doc::new(serial).with("a", &serial.to_string()).bytes();
        next().lock("prod", &id).await.ok();
        next()
            .lock("prod", &format!("other-{serial}"))
            .await
            .refused(Code::StateLocked);
        next().write_under("prod", &id, document.clone()).await.ok();
        for _ in 0..3 {
            assert!(next().read("prod").await.ok().body == document);
        }
        next().unlock("prod", &id).await.ok();
        next().lock("prod", &id).await.refused(Code::LockEnded);
        assert!(next().status("prod").await.holders.is_empty());
    }
    next().roll_back("prod", 3).await.ok();
    let expected = Doc::new(11).with("a", "3").bytes();
    for _ in 0..3 {
        assert!(next().read("prod").await.ok().body == expected);
    }
    // Kept bytes are sealed with a key that one replica made.
    next()
        .write("odd", [expected.as_slice(), b"\n"].concat())
        .await
        .ok();
    for _ in 0..3 {
        assert!(next().read("odd").await.ok().body == [expected.as_slice(), b"\n"].concat());
    }
    // What an environment demands counts on all at once.
    stage.configure(json!({ "require_locks": true })).await;
    for _ in 0..3 {
        next()
            .write("prod", Doc::new(12).bytes())
            .await
            .refused(Code::LockRequired);
    }
    next()
        .send("DELETE", "odd")
        .await
        .refused(Code::LockRequired);
    // So does a revoked token, for what is asked five seconds later.
    let rest = format!("/tokens/{}", boss.token_id);
    Reply::of(stage.admin_request("DELETE", &rest)).await.ok();
    let deadline = Instant::now() + Duration::from_secs(5);
    for replica in 0..3 {
        loop {
            let asked = Instant::now();
            if boss.on(replica).read("prod").await.status == 401 {
                break;
            }
            assert!(asked < deadline);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
