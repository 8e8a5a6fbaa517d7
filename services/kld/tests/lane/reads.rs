//! Reads: an error never looks like "no state yet", and headers fit the bytes.

use std::io::Read as _;
use std::time::Duration;

use protocol::{Code, Role};
use serde_json::json;
use store::testing::Wire;

use super::documents::{Doc, case, shared};
use super::stage::{Client, Reply, Stage};
use crate::harness::Setup;

/// A read that Terraform must not take for "no state": neither 404 nor 204, and no success.
#[track_caller]
fn stops_terraform(reply: &Reply) {
    assert!(!matches!(reply.status, 404 | 204 | 200), "{reply:?}");
}

/// S22: the database is away.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_a_read_is_a_503() {
    let wire = Wire::start().await;
    let stage = Stage::start_with(Setup {
        database_address: Some(wire.address),
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    // Also what is in memory: whether it is the newest is not known.
    ann.read("prod").await.ok();
    wire.cut();
    for name in ["prod", "absent"] {
        for reply in [
            ann.read(name).await,
            ann.send("HEAD", name).await,
            ann.lock(name, "x").await,
        ] {
            assert_eq!(reply.status, 503, "{reply:?}");
            assert!(reply.header("retry-after").unwrap().parse::<u32>().is_ok());
        }
    }
    wire.mend();
    assert!(ann.read("prod").await.ok().body == Doc::new(1).bytes());
    assert_eq!(ann.read("absent").await.status, 404);
}

/// Reads a body that may break off; `None` when it does.
async fn read_whole(client: &Client<'_>, name: &str) -> Option<(u16, Vec<u8>)> {
    let response = client.request("GET", name).send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.ok()?;
    Some((status, body.to_vec()))
}

/// Copies the rows of all states, for [`restore`].
async fn remember(stage: &Stage) {
    stage
        .tamper("CREATE TABLE sound_instances AS TABLE instances")
        .await;
    stage
        .tamper("CREATE TABLE sound_outputs AS TABLE outputs")
        .await;
    stage
        .tamper("CREATE TABLE sound_versions AS SELECT id, header FROM state_versions")
        .await;
}

/// Puts the rows back as they were.
async fn restore(stage: &Stage) {
    for statement in [
        "DELETE FROM instances",
        "INSERT INTO instances SELECT * FROM sound_instances",
        "DELETE FROM outputs",
        "INSERT INTO outputs SELECT * FROM sound_outputs",
        "UPDATE state_versions v SET header = s.header FROM sound_versions s WHERE s.id = v.id",
    ] {
        stage.tamper(statement).await;
    }
}

/// S22: rows are lost or damaged behind the service's back.
#[tokio::test(flavor = "multi_thread")]
async fn lost_or_damaged_rows_break_the_read() {
    // Each replica remembers small documents, so each damage is looked at through a fresh one.
    let damages = [
        "DELETE FROM instances WHERE address = 'terraform_data.r00007'",
        "UPDATE instances SET body = convert_to(replace(convert_from(body, 'UTF8'), 'start', 'stArt'), 'UTF8') WHERE address = 'terraform_data.r00007'",
        "DELETE FROM instances",
        "DELETE FROM outputs",
        "UPDATE instances SET born_seq = born_seq + 1 WHERE address = 'terraform_data.r00003'",
        "UPDATE instances SET ord = '\\xff'::bytea || ord WHERE address = 'terraform_data.r00000'",
        "UPDATE state_versions SET header = '\\x00'",
    ];
    for (size, document) in [
        ("small", Doc::of_size(1, 20)),
        ("large", Doc::of_size(1, 1_500)),
    ] {
        let stage = Stage::start_with(Setup {
            replicas: damages.len() + 1,
            ..Setup::default()
        })
        .await;
        let ann = stage.writer().await;
        ann.write_locked("prod", document.bytes()).await;
        remember(&stage).await;
        for (replica, damage) in damages.iter().enumerate() {
            assert!(stage.tamper(damage).await > 0, "{damage}");
            let found = read_whole(&ann.on(replica), "prod").await;
            let broken = found.is_none_or(|(status, _)| status == 500);
            assert!(broken, "{size}: {damage}");
            restore(&stage).await;
        }
        let sound = read_whole(&ann.on(damages.len()), "prod").await.unwrap();
        assert!(sound == (200, document.bytes()));
    }
}

/// S22: a version that was born of rows has no digest of its bytes before it is read for the first time; a row damaged until
/// then must not become the truth.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_damaged_before_its_version_was_ever_read_is_noticed() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    boss.write_locked("prod", Doc::new(1).bytes()).await;
    boss.write_locked("prod", Doc::new(2).with("a", "other").bytes())
        .await;
    boss.roll_back("prod", 1).await.ok();
    remember(&stage).await;
    for damage in [
        "UPDATE instances SET body = convert_to(replace(convert_from(body, 'UTF8'), 'id-b', 'id-x'), 'UTF8') WHERE name = 'b'",
        "UPDATE instances SET block = convert_to(replace(convert_from(block, 'UTF8'), 'managed', 'data'), 'UTF8') WHERE name = 'b'",
        "UPDATE outputs SET body = convert_to(replace(convert_from(body, 'UTF8'), '1', '7'), 'UTF8')",
    ] {
        assert!(stage.tamper(damage).await > 0, "{damage}");
        let found = read_whole(&boss, "prod").await;
        assert!(found.is_none_or(|(status, _)| status == 500), "{damage}");
        restore(&stage).await;
    }
    assert!(boss.read("prod").await.ok().body == Doc::new(3).bytes());

    let checks = shared("corpus/states/092-eks-checks-only.tfstate");
    boss.write("checks", checks.clone()).await.ok();
    boss.write_locked("checks", Doc::new(400).bytes()).await;
    boss.roll_back("checks", 1).await.ok();
    let damage = "UPDATE header_parts SET body = convert_to(replace(convert_from(body, 'UTF8'), 'unknown', 'unknowm'), 'UTF8')";
    assert!(stage.tamper(damage).await > 0);
    let found = read_whole(&boss, "checks").await;
    assert!(found.is_none_or(|(status, _)| status == 500));
}

/// S22: the kept bytes of a version are gone, altered, or another version's.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_altered_kept_document_is_a_500() {
    let damages = [
        "UPDATE version_documents SET body = set_byte(body, octet_length(body) - 1, get_byte(body, octet_length(body) - 1) # 1)",
        "UPDATE version_documents d SET body = o.body FROM version_documents o WHERE o.seq = 1 AND d.seq = 2",
        "UPDATE version_documents SET body = ''",
        "DELETE FROM version_documents",
    ];
    let stage = Stage::start_with(Setup {
        replicas: damages.len(),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write_locked("prod", case("odd-bytes.json")).await;
    ann.write_locked("prod", case("encrypted-envelope.json"))
        .await;
    for (replica, damage) in damages.into_iter().enumerate() {
        assert!(stage.tamper(damage).await > 0);
        ann.on(replica)
            .read("prod")
            .await
            .refused(Code::StateDamaged);
    }
}

/// S22: who may not read, learns nothing, and least of all "no state".
#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_or_a_valid_token_existing_and_made_up_names_look_alike() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let viewer = stage.client(Role::Viewer).await;
    let revoked = stage.client(Role::Reader).await;
    let expired = stage.client(Role::Reader).await;
    let rest = format!("/tokens/{}", revoked.token_id);
    Reply::of(stage.admin_request("DELETE", &rest)).await.ok();
    sqlx::query("UPDATE credentials SET created_at = created_at - interval '2 days', expires_at = clock_timestamp() - interval '1 second' WHERE token_id = $1")
        .bind(&expired.token_id)
        .execute(stage.app.database.owner())
        .await
        .unwrap();
    let stranger = stage.app.workspace("strangers").await;
    let stranger = Client {
        token: stranger.token.clone(),
        ..viewer.clone()
    };
    for (who, status) in [
        (&viewer, 403),
        (&stranger, 403),
        (&revoked, 401),
        (&expired, 401),
    ] {
        let mut bodies = Vec::new();
        for name in ["prod", "made-up", "PROD"] {
            let reply = who.read(name).await;
            assert_eq!(reply.status, status, "{reply:?}");
            let mut body = reply.json();
            body["request_id"].take();
            bodies.push(body);
            stops_terraform(&who.send("HEAD", name).await);
        }
        assert!(
            bodies.windows(2).all(|pair| pair[0] == pair[1]),
            "{bodies:?}"
        );
    }

    // Another spelling is a mistake and not another state.
    for name in ["PROD", "Prod"] {
        ann.read(name).await.refused(Code::NameCase);
        ann.lock(name, "x").await.refused(Code::NameCase);
        ann.write(name, Doc::new(9).bytes())
            .await
            .refused(Code::NameCase);
        ann.send("DELETE", name).await.refused(Code::NameCase);
        ann.unlock(name, "x").await.refused(Code::NameCase);
    }
    // Names that cannot be, and addresses beneath no route.
    for name in [
        "a%2Fb",
        "a%00b",
        "%ff",
        "..%2fprod",
        "a/b/c/d",
        "-x",
        &"x".repeat(200),
    ] {
        stops_terraform(&ann.read(name).await);
    }
    // Nothing was ever written here, and the caller may know: the one 404.
    assert_eq!(ann.read("made-up").await.status, 404);
    ann.lock("only-locked", "x").await.ok();
    assert_eq!(ann.read("only-locked").await.status, 404);

    let suspend = stage
        .app
        .request("PATCH", &format!("/v1/workspaces/{}", stage.workspace));
    Reply::of(
        suspend
            .bearer_auth(&stage.app.operator)
            .json(&json!({ "lifecycle": "suspended" })),
    )
    .await
    .ok();
    for name in ["prod", "made-up"] {
        ann.read(name).await.refused(Code::WorkspaceSuspended);
    }
}

/// S23.
#[tokio::test(flavor = "multi_thread")]
async fn headers_fit_the_bytes_after_whatever_made_the_version() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    let mut tags = Vec::new();
    for size in [20, 1_200] {
        let name = format!("s{size}");
        boss.write_locked(&name, Doc::of_size(1, size).bytes())
            .await;
        boss.write_locked(&name, Doc::of_size(2, size).with("r00001", "x").bytes())
            .await;
        boss.roll_back(&name, 1).await.ok();
        // The first read of a rolled-back version has no size to announce yet.
        let expected = Doc::of_size(3, size).bytes();
        for round in 0..2 {
            let plain = boss.read(&name).await.ok();
            assert!(plain.body == expected);
            let length = plain
                .header("content-length")
                .map(|length| length.parse().unwrap());
            assert!(
                length == Some(expected.len()) || round == 0 && length.is_none(),
                "{length:?}"
            );
            assert_eq!(plain.header("cache-control"), Some("no-store"));
            assert_eq!(plain.header("content-type"), Some("application/json"));
            assert_eq!(plain.header("content-md5"), None);
            let tag = plain.header("etag").unwrap().to_owned();
            for coding in ["zstd", "identity", "br;q=1.0", "gzip;q=0"] {
                let reply = Reply::of(boss.request("GET", &name).header("accept-encoding", coding))
                    .await
                    .ok();
                assert!(reply.body == expected && reply.header("content-encoding").is_none());
                assert_eq!(reply.header("etag"), Some(tag.as_str()));
            }
            for coding in ["gzip", "identity;q=0, gzip"] {
                let reply = Reply::of(boss.request("GET", &name).header("accept-encoding", coding))
                    .await
                    .ok();
                assert_eq!(reply.header("content-encoding"), Some("gzip"));
                assert_ne!(reply.header("etag"), Some(tag.as_str()));
                let mut inflated = Vec::new();
                flate2::read::GzDecoder::new(&reply.body[..])
                    .read_to_end(&mut inflated)
                    .unwrap();
                assert!(inflated == expected);
            }
            let refused = Reply::of(
                boss.request("GET", &name)
                    .header("accept-encoding", "identity;q=0"),
            )
            .await;
            assert!(
                refused.body == expected || refused.status == 406,
                "{refused:?}"
            );
            let ranged = Reply::of(boss.request("GET", &name).header("range", "bytes=0-9"))
                .await
                .ok();
            assert!(ranged.status == 200 && ranged.body == expected);
            let same = Reply::of(boss.request("GET", &name).header("if-none-match", &tag)).await;
            assert!(same.status == 304 && same.body.is_empty());
            assert_eq!(same.header("etag"), Some(tag.as_str()));
            let old = Reply::of(
                boss.request("GET", &name)
                    .header("if-none-match", "\"old\""),
            )
            .await;
            assert_eq!(old.status, 200);
            let head = boss.send("HEAD", &name).await.ok();
            assert!(head.body.is_empty());
            assert_eq!(head.header("etag"), Some(tag.as_str()));
            let length = head
                .header("content-length")
                .map(|length| length.parse().unwrap());
            assert!(
                length.is_none() || length == Some(expected.len()),
                "HEAD announces {length:?}"
            );
            tags.push(tag);
        }
        // The next write makes another tag, a repeat does not.
        boss.write_locked(&name, Doc::of_size(4, size).bytes())
            .await;
        let tag = boss.read(&name).await.header("etag").unwrap().to_owned();
        assert!(!tags.contains(&tag));
        boss.write_locked(&name, Doc::of_size(4, size).bytes())
            .await;
        assert_eq!(boss.read(&name).await.header("etag"), Some(tag.as_str()));
    }
}

/// `outputs` reads a document with nothing in it but outputs.
#[tokio::test(flavor = "multi_thread")]
async fn the_role_outputs_reads_outputs_and_no_resource() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let remote = stage.client(Role::Outputs).await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let reply = remote.read("prod").await.ok();
    assert!(
        reply.body == {
            let mut only = Doc::new(1);
            only.resources.clear();
            only.bytes()
        }
    );
    assert_eq!(remote.read("absent").await.status, 404);
    remote.read("PROD").await.refused(Code::NameCase);
    remote
        .read("prod/versions/1/document")
        .await
        .refused(Code::Forbidden);
    ann.write("opaque", case("encrypted-envelope.json"))
        .await
        .ok();
    stops_terraform(&remote.read("opaque").await);
}

/// A reader that takes its time holds no database connection.
#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_of_large_states_starve_nobody() {
    let stage = Stage::start_with(Setup {
        pool: 2,
        // Eight render ahead at first and take turns at two connections. One that was kept would be waited for in vain.
        acquire_timeout: Duration::from_secs(20),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    let large = Doc::of_size(1, 12_000).bytes();
    ann.write_locked("large", large.clone()).await;
    ann.write("small", Doc::new(1).bytes()).await.ok();
    let mut readers = Vec::new();
    for _ in 0..8 {
        readers.push(ann.request("GET", "large").send().await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..10 {
        ann.read("small").await.ok();
    }
    for reader in readers {
        assert!(reader.bytes().await.unwrap() == large);
    }
}
