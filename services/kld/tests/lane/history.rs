//! History, rolling back, deleting and bringing back.

use futures::future::join_all;
use protocol::{Code, Role};
use serde_json::json;

use super::documents::{Doc, case, with_serial};
use super::stage::{Reply, Stage};
use crate::harness::Setup;

/// S42.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_document_has_the_next_serial_and_nothing_else_of_its_own() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    let at = |serial: u64| Doc::new(serial).with("a", &serial.to_string());
    for serial in 1..=9 {
        boss.write_locked("prod", at(serial).bytes()).await;
    }
    boss.roll_back("prod", 9)
        .await
        .refused(Code::InvalidRequest);
    let answer = boss.roll_back("prod", 5).await.ok().json();
    assert_eq!(
        (
            &answer["serial"],
            &answer["to"]["serial"],
            &answer["from"]["serial"]
        ),
        (&json!(10), &json!(5), &json!(9))
    );
    assert!(boss.read("prod").await.ok().body == at(5).with_serial(10).bytes());
    // The apply that follows.
    boss.write("prod", at(11).bytes()).await.ok();
    boss.roll_back("prod", 1).await.ok();
    boss.roll_back("prod", 10).await.ok();
    assert!(boss.read("prod").await.ok().body == at(5).with_serial(13).bytes());
    // An old file brought in is judged as a write is.
    Reply::of(boss.request("POST", "prod/import").body(at(3).bytes()))
        .await
        .refused(Code::StaleSerial);
    let versions = boss.versions("prod").await;
    let serials: Vec<_> = versions
        .iter()
        .map(|version| version.serial.unwrap())
        .collect();
    assert_eq!(serials, (1..=13).collect::<Vec<_>>());
    for serial in 1..=9 {
        assert!(boss.version("prod", i64::try_from(serial).unwrap()).await == at(serial).bytes());
    }
}

/// S42: bytes that rendering does not give, another lineage in between, the end of the range of serials.
#[tokio::test(flavor = "multi_thread")]
async fn rolling_back_keeps_odd_bytes_lineages_and_large_serials() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    let odd = case("odd-bytes.json");
    boss.write_locked("odd", odd.clone()).await;
    let serial = boss.versions("odd").await[0].serial.unwrap();
    boss.write_locked("odd", Doc::new(serial + 1).with_lineage("other").bytes())
        .await;
    boss.roll_back("odd", 1).await.ok();
    assert!(boss.read("odd").await.ok().body == with_serial(&odd, serial + 2));
    boss.roll_back("odd", 2).await.ok();
    assert!(boss.read("odd").await.ok().body == Doc::new(serial + 3).with_lineage("other").bytes());

    // An encrypted version in between leaves the rows as they were.
    boss.write_locked("odd", case("encrypted-envelope.json"))
        .await;
    boss.roll_back("odd", 4).await.ok();
    let body = boss.read("odd").await.ok().body;
    assert!(
        body == Doc::new(serial + 4).with_lineage("other").bytes(),
        "{}",
        String::from_utf8_lossy(&body)
    );

    boss.write("end", Doc::new(1).bytes()).await.ok();
    boss.write("end", Doc::new(u64::MAX).bytes()).await.ok();
    boss.roll_back("end", 1).await.ok();
    assert!(boss.read("end").await.ok().body == Doc::new(u64::MAX).bytes());
}

/// S43.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_says_what_it_did_or_why_it_did_nothing() {
    let stage = Stage::start_with(Setup {
        replicas: 2,
        ..Setup::default()
    })
    .await;
    let boss = stage.client(Role::Maintainer).await;
    let writer = stage.writer().await;
    for serial in 1..=4 {
        boss.write_locked(
            "prod",
            Doc::new(serial).with("a", &serial.to_string()).bytes(),
        )
        .await;
    }
    boss.lock("prod", "held").await.ok();
    let refused = boss.roll_back("prod", 3).await.refused(Code::StateLocked);
    assert!(refused["ID"].as_str().unwrap().starts_with("held"));
    boss.unlock("prod", "held").await.ok();
    writer.roll_back("prod", 3).await.refused(Code::Forbidden);
    boss.roll_back("prod", 99)
        .await
        .refused(Code::VersionNotFound);
    boss.roll_back("absent", 1)
        .await
        .refused(Code::StateNotFound);

    // Twice at the same moment: both have seen version 4 when one of them gets to act.
    let mut gate = stage.app.database.owner().begin().await.unwrap();
    sqlx::query("SELECT FROM lock_heads FOR UPDATE")
        .execute(&mut *gate)
        .await
        .unwrap();
    let both = async {
        join_all([0, 1].map(|replica| {
            let boss = boss.on(replica);
            async move {
                loop {
                    // A lock is waited for only so long; whoever gave up before the other came asks again.
                    let reply = boss.roll_back("prod", 3).await;
                    if reply.status != 503 {
                        return reply;
                    }
                }
            }
        }))
        .await
    };
    let opened = async {
        loop {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            if stage.count(waiting).await == 2 {
                gate.rollback().await.unwrap();
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let rolled_back = async { tokio::join!(both, opened) };
    let (replies, ()) = tokio::time::timeout(std::time::Duration::from_secs(60), rolled_back)
        .await
        .expect("both wait at the same time");
    let mut statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{replies:?}");
    let answer = replies
        .into_iter()
        .find(|reply| reply.status == 200)
        .unwrap()
        .json();
    assert_eq!(
        (&answer["from"]["serial"], &answer["serial"], &answer["by"]),
        (&json!(4), &json!(5), &json!(boss.name))
    );
    assert_eq!(boss.versions("prod").await.len(), 5);
    assert_eq!(stage.audited("state.roll_back").await.len(), 1);
}

/// A deleted state frees its name, keeps its history, and comes back whole.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_comes_back_and_a_name_has_one_state() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for serial in 1..=3 {
        ann.write("prod", Doc::new(serial).bytes()).await.ok();
    }
    ann.lock("prod", "mine").await.ok();
    ann.send("DELETE", "prod").await.refused(Code::StateLocked);
    ann.send("DELETE", "prod?ID=mine").await.ok();
    ann.unlock("prod", "mine").await.ok();
    assert_eq!(ann.read("prod").await.status, 404);

    // Locked but never written: the name gives way.
    ann.lock("prod", "next").await.ok();
    ann.send_json("POST", "prod/undelete", json!({}))
        .await
        .refused(Code::NameTaken);
    ann.unlock("prod", "next").await.ok();
    ann.send_json("POST", "prod/undelete", json!({})).await.ok();
    assert!(ann.read("prod").await.ok().body == Doc::new(3).bytes());
    assert_eq!(ann.versions("prod").await.len(), 3);

    ann.send("DELETE", "prod").await.ok();
    ann.write("prod", Doc::new(1).with("a", "new").bytes())
        .await
        .ok();
    ann.send_json("POST", "prod/undelete", json!({}))
        .await
        .refused(Code::NameTaken);
    ann.send("DELETE", "prod").await.ok();
    // Two lie beneath the name; whoever brings them back at once, one of them gets it.
    let path = format!(
        "/v1/deleted-states/{}/{}",
        stage.workspace, stage.environment
    );
    let list = Reply::of(stage.app.request("GET", &path).bearer_auth(&ann.token))
        .await
        .ok()
        .json();
    let ids: Vec<_> = list["states"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|state| state["head_seq"].is_number())
        .map(|state| state["id"].clone())
        .collect();
    assert_eq!(ids.len(), 2);
    let back = ids
        .iter()
        .map(|id| ann.send_json("POST", "prod/undelete", json!({ "state_id": id })));
    let mut statuses: Vec<_> = join_all(back)
        .await
        .into_iter()
        .map(|reply| reply.status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    ann.read("prod").await.ok();
}

/// S31 on the http lane: an empty block stays as it is while nothing touches it.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_resource_block_is_taken_as_it_is() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    let last = case("last-instance.json");
    let text = String::from_utf8(last.clone()).unwrap();
    let open = text.find("\"instances\": [").unwrap() + "\"instances\": [".len();
    let close = open + text[open..].find("\n      ]").unwrap() + "\n      ]".len() - 1;
    let shell = with_serial(
        format!("{}{}", &text[..open], &text[close..]).as_bytes(),
        90,
    );
    boss.write_locked("prod", last.clone()).await;
    boss.write_locked("prod", shell.clone()).await;
    assert!(boss.read("prod").await.ok().body == shell);
    let counts: Vec<_> = boss
        .versions("prod")
        .await
        .iter()
        .map(|version| version.instance_count)
        .collect();
    assert_eq!(counts, [2, 1]);
    boss.roll_back("prod", 1).await.ok();
    assert!(boss.read("prod").await.ok().body == with_serial(&last, 91));
    boss.roll_back("prod", 2).await.ok();
    assert!(boss.read("prod").await.ok().body == with_serial(&shell, 92));
}
