//! Writes: serial, lineage, and what documents are taken.

use protocol::Code;

use super::documents::{Doc, case, with_serial};
use super::stage::{Reply, Stage};

/// S09.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_serial_with_other_content_never_replaces_silently() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let (first, other, third) = (
        Doc::new(1).bytes(),
        Doc::new(1).with("a", "changed").bytes(),
        Doc::new(1).with("a", "again").bytes(),
    );
    ann.lock("prod", "one").await.ok();
    ann.write_under("prod", "one", first.clone()).await.ok();
    ann.write_under("prod", "one", other.clone()).await.ok();
    ann.unlock("prod", "one").await.ok();
    ann.write_locked("prod", third.clone()).await;

    let versions = ann.versions("prod").await;
    let marks: Vec<_> = versions
        .iter()
        .map(|v| (v.seq, v.serial, v.forced))
        .collect();
    assert_eq!(
        marks,
        [(1, Some(1), false), (2, Some(1), true), (3, Some(1), true)]
    );
    for (seq, bytes) in [(1, &first), (2, &other), (3, &third)] {
        assert!(ann.version("prod", seq).await == *bytes, "version {seq}");
    }
    let forced = stage.audited("state.write").await;
    assert_eq!(
        forced
            .iter()
            .filter(|entry| entry["after"]["forced"] == true)
            .count(),
        2
    );

    let problem = ann
        .write("prod", Doc::new(1).with("a", "c").bytes())
        .await
        .refused(Code::StaleSerial);
    let current = &problem["current"];
    assert_eq!(current["serial"], "1");
    assert_eq!(current["lineage"], super::documents::LINEAGE);
    assert_eq!(current["sha256"].as_str(), versions[2].sha256.as_deref());
    assert_eq!(ann.versions("prod").await.len(), 3);
}

/// S10.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_serial_is_refused_without_a_lock_and_a_forced_version_under_one() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for serial in 1..=7 {
        ann.write_locked(
            "prod",
            Doc::new(serial).with("a", &serial.to_string()).bytes(),
        )
        .await;
    }
    let old = Doc::new(3).with("a", "errored");
    ann.write("prod", old.bytes())
        .await
        .refused(Code::StaleSerial);
    let stranger = Doc::new(8).with_lineage("ffffffff-0000-4000-8000-000000000001");
    ann.write("prod", stranger.bytes())
        .await
        .refused(Code::LineageMismatch);
    assert_eq!(ann.versions("prod").await.len(), 7);

    // What `state push -force` of serial 3 sends, and then what the next apply sends.
    ann.write_locked("prod", old.clone().with_serial(4).bytes())
        .await;
    ann.write_locked("prod", old.with_serial(5).with("b", "applied").bytes())
        .await;
    ann.write_locked("prod", stranger.bytes()).await;
    let versions = ann.versions("prod").await;
    let marks: Vec<_> = versions
        .iter()
        .skip(7)
        .map(|v| (v.serial, v.forced))
        .collect();
    assert_eq!(marks, [(Some(4), true), (Some(5), false), (Some(8), true)]);
    for serial in 1..=7 {
        let expected = Doc::new(serial).with("a", &serial.to_string()).bytes();
        assert!(ann.version("prod", i64::try_from(serial).unwrap()).await == expected);
    }
}

/// S11.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_state_over_a_full_one_shows_in_history_and_is_one_rollback_away() {
    let stage = Stage::start().await;
    let boss = stage.client(protocol::Role::Maintainer).await;
    let full = Doc::of_size(5, 40);
    boss.write_locked("prod", full.bytes()).await;
    boss.write_locked(
        "prod",
        full.clone().without_resources().with_serial(6).bytes(),
    )
    .await;
    let versions = boss.versions("prod").await;
    assert_eq!(
        (
            versions[1].previous_instance_count,
            versions[1].instance_count
        ),
        (Some(40), 0)
    );
    assert!(boss.version("prod", 1).await == full.bytes());

    let answer = boss.roll_back("prod", 1).await.ok().json();
    assert_eq!((&answer["serial"], &answer["seq"]), (&7.into(), &3.into()));
    assert!(boss.read("prod").await.ok().body == full.with_serial(7).bytes());
}

/// S19, the http lane's part.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_envelope_is_kept_whole() {
    let stage = Stage::start().await;
    let ann = stage.client(protocol::Role::Maintainer).await;
    let bare = case("encrypted-envelope.json");
    let with_serial = case("encrypted-envelope-with-serial.json");
    ann.lock("prod", "one").await.ok();
    for document in [&bare, &bare, &with_serial, &with_serial, &bare] {
        ann.write_under("prod", "one", document.clone()).await.ok();
        assert!(ann.read("prod").await.ok().body == *document);
    }
    ann.write_under("prod", "one", Doc::new(4).bytes())
        .await
        .ok();
    ann.unlock("prod", "one").await.ok();
    assert_eq!(ann.versions("prod").await.len(), 4);
    assert!(ann.version("prod", 1).await == bare && ann.version("prod", 2).await == with_serial);

    // Without a lock too: where a document shows no serial there is none to compare.
    ann.write("other", bare.clone()).await.ok();
    let second = [b"{ ", &bare[1..]].concat();
    ann.write("other", second.clone()).await.ok();
    assert!(ann.read("other").await.ok().body == second);
    for rest in ["resources", "outputs", "resource?address=terraform_data.a"] {
        let reply = ann.read(&format!("other/{rest}")).await;
        reply.refused(Code::UnsupportedState);
    }
    ann.roll_back("other", 1)
        .await
        .refused(Code::UnsupportedState);
    ann.roll_back("prod", 1)
        .await
        .refused(Code::UnsupportedState);
}

/// S20.
#[tokio::test(flavor = "multi_thread")]
async fn what_names_a_thing_twice_is_refused_or_read_one_way_everywhere() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    for (file, named) in [
        ("dup-address.json", "terraform_data"),
        ("dup-instance.json", "["),
    ] {
        let document = with_serial(&case(file), 2);
        for route in ["prod", "new", "prod/import"] {
            let problem = ann
                .write(route, document.clone())
                .await
                .refused(Code::DuplicateAddress);
            assert!(
                problem["detail"].as_str().unwrap().contains(named),
                "{problem:?}"
            );
        }
        ann.lock("prod", file).await.ok();
        ann.write_under("prod", file, document)
            .await
            .refused(Code::DuplicateAddress);
        ann.unlock("prod", file).await.ok();
    }
    assert_eq!(ann.read("new").await.status, 404);

    // Terraform reads the last one of a repeated key. The server reads the same where it does not judge by it.
    let twice = case("dup-json-key.json");
    ann.write("first", twice.clone()).await.ok();
    assert_eq!(ann.versions("first").await[0].serial, Some(9));
    assert!(ann.read("first").await.ok().body == twice);
    ann.write("prod", twice.clone())
        .await
        .refused(Code::DuplicateKey);
    assert!(ann.read("prod").await.ok().body == Doc::new(1).bytes());
    ann.write_locked("prod", twice.clone()).await;
    assert_eq!(ann.versions("prod").await[1].serial, Some(9));
    assert!(ann.read("prod").await.ok().body == twice);
    ann.write("prod", Doc::new(9).bytes())
        .await
        .refused(Code::StaleSerial);
    ann.write("prod", Doc::new(10).bytes()).await.ok();
}

/// Bodies that are no state at all, on every route that takes one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_state_is_refused_and_leaves_everything_as_it_was() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let etag = ann.read("prod").await.header("etag").unwrap().to_owned();
    let cut = Doc::new(2).bytes();
    let bodies: [(&[u8], u16); 9] = [
        (b"", 400),
        (b"  \n", 400),
        (b"<html></html>", 400),
        (b"[]", 400),
        (b"null", 400),
        (&cut[..cut.len() / 2], 400),
        (b"{\"version\":4,\"serial\":1} {}", 400),
        (b"{\"version\":4,\"serial\":18446744073709551616}", 422),
        (b"{\"version\":4,\"serial\":2,\"lineage\":\"\xff\"}", 400),
    ];
    for (body, status) in bodies {
        for route in ["prod", "prod/import", "absent"] {
            let reply = ann.write(route, body.to_vec()).await;
            assert_eq!(
                reply.status,
                status,
                "{route} {:?}: {reply:?}",
                String::from_utf8_lossy(body)
            );
            assert!(reply.json()["code"].is_string());
        }
    }
    let reply = Reply::of(ann.request("GET", "prod")).await;
    assert_eq!(reply.header("etag"), Some(etag.as_str()));
    assert_eq!(ann.versions("prod").await.len(), 1);
    assert_eq!(ann.read("absent").await.status, 404);
}
