//! The database is restored from a backup, and what clients still remember is not in it.

use std::time::Duration;

use kld::commands::admin::Admin;
use kld::config::Source;
use protocol::Code;

use super::stage::{alone, next_serial, set_value, value_of, with_state};
use crate::lane::documents::Doc;
use crate::lane::stage::{Client, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_on_lost_history_until_the_restore_is_finished() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    run.lock("tf").await.ok();
    run.change("tf", |slice| set_value(&slice, "a", "committed"))
        .await
        .ok();
    let slice = String::from_utf8(run.read().await.ok().body).unwrap();
    let token = run.fencing_token();
    // An older database: its heart has beaten less often than the replica knows.
    until(&ann, "other", 200).await;
    stage.tamper("UPDATE lock_service SET beat_no = beat_no - 5, last_beat = clock_timestamp() - interval '5 seconds'").await;
    until(&ann, "another", 503).await;
    // The heart stands still, for others remember less, or have just been started.
    let mut looks = 0;
    while stage.count("SELECT beat_no FROM lock_service").await >= 0 {
        looks += 1;
        assert!(looks < 100, "the heart beats on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let refused = ann.lock("prod", "late").await.refused(Code::HistoryLost);
    assert_eq!(refused["title"], "Database lost history");
    assert_eq!(
        value_of(&ann, "prod", "a").await.as_deref(),
        Some("committed")
    );

    let admin = Admin::new(
        stage.app.database.db(),
        kld::config::pepper(&pepper_source()).unwrap(),
    );
    let said = admin.finish_restore().await.unwrap();
    assert!(
        said.contains("1 reservations ended") || said.contains("2 reservations ended"),
        "{said}"
    );
    until(&ann, "a third", 200).await;
    // Whoever held something lost it, and what it made is kept.
    run.renew().await.refused(Code::LeaseLost);
    let upload = next_serial(&set_value(&slice, "a", "late"));
    let late = run.upload("tf", upload).await;
    assert_eq!(late.refused(Code::LeaseLost)["kept"], true);
    // No number is given away twice, on either lane.
    let first = ann.apply("prod", alone(&["b"])).await;
    first.lock("tf").await.ok();
    first
        .change("tf", |slice| set_value(&slice, "b", "native"))
        .await
        .ok();
    first.unlock("tf").await.ok();
    first.finish("succeeded").await.ok();
    ann.write_locked("prod", Doc::new(50).with("a", "next").bytes())
        .await;
    let seqs: Vec<i64> = ann
        .versions("prod")
        .await
        .iter()
        .map(|version| version.seq)
        .collect();
    assert_eq!(seqs, [1, 2, 1_003, 1_004]);
    let next = ann.apply("prod", alone(&["a"])).await;
    assert!(next.fencing_token() > token + 1_000_000);
    assert!(
        !next.run.unsettled.is_empty(),
        "the scope of the lost run is marked"
    );
}

/// Locks and unlocks another state until that is answered so: the replica's heart beats every few seconds.
async fn until(client: &Client<'_>, name: &str, status: u16) {
    let name = name.replace(' ', "-");
    for n in 0..200 {
        let id = format!("{name}-{n}");
        let reply = client.lock(&name, &id).await;
        if reply.status == 200 {
            client.unlock(&name, &id).await;
        }
        if reply.status == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} was never answered {status}");
}

fn pepper_source() -> Source {
    let value = |key: &str| {
        (key == "KL_TOKEN_PEPPER")
            .then(|| "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=".to_owned())
    };
    Source::new(Box::new(value), None).unwrap()
}
