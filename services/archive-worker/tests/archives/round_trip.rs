//! What goes out comes back: bytes, numbers, sources, authors, times, tags, head.

use archive::{Frame, Policy, Verified, verify};
use protocol::archives::{ImportedState, TagList};
use serde_json::json;

use crate::documents::{corpus, document};
use crate::world::{Backend, World, read};

fn checked(bytes: &[u8]) -> Verified {
    verify(bytes, &Policy::any_origin(u64::MAX)).unwrap()
}

/// Imports an archive of one deployment into another, and holds one against the other and both against a second export.
async fn moved(from: &World, name: &str, to: &World, new_name: &str) -> ImportedState {
    let bytes = from.export(name).await;
    let first = checked(&bytes);
    let mut request = World::import_request(&bytes, new_name);
    request["allow_foreign"] = json!(true);
    request["state_id"] = json!(first.info.state.id);
    let job = to.import(&bytes, &request).await;
    let imported = job.imported.unwrap_or_else(|| panic!("{:?}", job.error));

    let (left, right) = (from.versions(name).await, to.versions(new_name).await);
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(&right) {
        let facts = |version: &protocol::states::Version| {
            (
                version.seq,
                version.serial,
                version.lineage.clone(),
                version.terraform_version.clone(),
                version.source,
                version.created_at,
                version.created_by.clone(),
                (version.forced, version.unlocked, version.instance_count),
                version.sha256.clone(),
            )
        };
        let (mut left, right) = (facts(left), facts(right));
        // A document that nobody had read yet had no digest before the export.
        left.8 = left.8.or_else(|| right.8.clone());
        assert_eq!(left, right, "{name}");
    }
    let tags = async |world: &World, name: &str| -> TagList {
        let path = world.state(&format!("{name}/tags"));
        read(world.request("GET", &path).send().await.unwrap()).await
    };
    assert_eq!(tags(from, name).await.tags, tags(to, new_name).await.tags);
    let again = checked(&to.export(new_name).await);
    assert_eq!(first.content_sha256, again.content_sha256, "{name}");
    assert_eq!(imported.content_sha256, first.content_sha256.to_string());
    imported
}

async fn history(world: &World) {
    world.write("prod", document(1, 40, 40)).await;
    for serial in 2..=9 {
        world.write_locked("prod", document(serial, 40, 3)).await;
    }
    // Compact: kept as it is. Then an encrypted one, and a state again.
    let compact: serde_json::Value = serde_json::from_slice(&document(10, 5, 2)).unwrap();
    world
        .write_locked("prod", compact.to_string().into_bytes())
        .await;
    let sealed = br#"{"serial":11,"lineage":"x","meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}"#;
    world.write_locked("prod", sealed.to_vec()).await;
    world.write_locked("prod", document(12, 41, 1)).await;
    world.write_locked("prod", document(13, 0, 0)).await;
    let rollback = json!({ "to": "4" });
    let path = world.state("prod/rollback");
    let done = world.request("POST", &path).json(&rollback).send().await;
    crate::world::ok(done.unwrap()).await;
    world.write_locked("prod", document(20, 40, 2)).await;
    world.tag("prod", "first", "1").await;
    world.tag("prod", "before-the-move", "6").await;
    world.tag("prod", "rolled-back", "14").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_moves_between_deployments_that_share_nothing() {
    for backends in [
        (Backend::Folder, Backend::S3),
        (Backend::S3, Backend::Folder),
    ] {
        let from = World::start(backends.0).await;
        let to = World::start(backends.1).await;
        history(&from).await;
        let imported = moved(&from, "prod", &to, "prod").await;
        assert_eq!((imported.versions, imported.tags), (15, 3));
        assert_eq!(imported.origin, "foreign");
        assert_eq!(imported.remapped, [], "ids are kept where they are free");
        for version in ["1", "first", "7", "10", "11", "14", "head"] {
            assert_eq!(
                from.document("prod", version).await,
                to.document("prod", version).await,
                "{version}"
            );
        }
        // Life goes on: the restored state takes writes, and their rows compare with the restored ones.
        to.write_locked("prod", document(21, 40, 1)).await;
        assert_eq!(to.document("prod", "head").await, document(21, 40, 1));
        // Again beside itself: ids are taken now, and the mapping says so.
        let again = moved(&to, "prod", &to, "copy").await;
        assert_eq!(again.remapped.len(), 17);
        // And a history that was imported travels on.
        moved(&to, "copy", &from, "back").await;
        from.cleaned().await;
        to.cleaned().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_that_made_versions_travel_as_text_and_travel_on() {
    let from = World::start(Backend::Folder).await;
    let (to, beyond) = (
        World::start(Backend::Folder).await,
        World::start(Backend::S3).await,
    );
    from.write("prod", document(1, 3, 1)).await;
    let long = from.change_by_run("prod", 0, &[7, 8]).await;
    from.write_locked("prod", document(9, 3, 1)).await;
    let short = from.change_by_run("prod", 2, &[9]).await;

    let bytes = from.export("prod").await;
    let first = checked(&bytes);
    let told: Vec<_> = first
        .runs
        .iter()
        .map(|run| (&*run.id, &*run.versions, &*run.actor, &*run.status))
        .collect();
    assert_eq!(
        told,
        [
            (&*long, &[2, 3][..], "ann@laptop", "succeeded"),
            (&*short, &[5][..], "ann@laptop", "succeeded"),
        ]
    );
    assert!(
        first
            .runs
            .iter()
            .all(|run| run.kind == "apply" && run.finished_at.is_some())
    );
    let makers: Vec<_> = first
        .versions
        .iter()
        .map(|entry| entry.meta.run.as_deref())
        .collect();
    let (long, short) = (Some(&*long), Some(&*short));
    assert_eq!(makers, [None, long, long, None, short]);

    moved(&from, "prod", &to, "copy").await;
    // What arrives is text beside the version: no run, nobody's token, nothing to look up here.
    assert_eq!(to.count("SELECT count(*) FROM runs").await, 0);
    assert_eq!(
        to.count("SELECT count(*) FROM state_versions WHERE run_id IS NOT NULL")
            .await,
        0
    );
    let actors =
        "SELECT count(*) FROM state_versions WHERE provenance #>> '{run,actor}' = 'ann@laptop'";
    assert_eq!(to.count(actors).await, 3);
    let second = checked(&to.export("copy").await);
    assert_eq!(second.runs, first.runs);

    // Here a run goes on with it, and the next archive tells of all three.
    let third = to.change_by_run("copy", 1, &[5]).await;
    moved(&to, "copy", &beyond, "far").await;
    let last = checked(&beyond.export("far").await);
    let mut ids: Vec<_> = last.runs.iter().map(|run| &*run.id).collect();
    let mut expected = [long.unwrap(), short.unwrap(), &*third];
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_of_the_corpus_survives_the_journey() {
    let (from, to) = (
        World::start(Backend::Folder).await,
        World::start(Backend::S3).await,
    );
    let documents = corpus();
    assert!(documents.len() > 70);
    for (_, document) in &documents {
        from.write_locked("all", document.clone()).await;
    }
    moved(&from, "all", &to, "all").await;
    for (index, (name, document)) in documents.iter().enumerate() {
        let version = (index + 1).to_string();
        assert!(to.document("all", &version).await == *document, "{name}");
    }
    // Alone, a document is first and head at once; a few of each kind will do.
    for (name, document) in documents.iter().step_by(6) {
        let state = format!("s{}", &name[..3]);
        from.write(&state, document.clone()).await;
        moved(&from, &state, &to, &state).await;
        assert!(to.document(&state, "head").await == *document, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_versions_survive_the_journey() {
    let (from, to) = (
        World::start(Backend::S3).await,
        World::start(Backend::Folder).await,
    );
    for serial in 1..=500 {
        from.write("long", document(serial, 60, 1 + (serial % 7) as usize))
            .await;
    }
    let imported = moved(&from, "long", &to, "long").await;
    assert_eq!(imported.versions, 500);
    for version in ["1", "99", "100", "101", "250", "500"] {
        assert_eq!(
            from.document("long", version).await,
            to.document("long", version).await
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_with_a_large_new_output_is_written_whole() {
    let world = World::start(Backend::Folder).await;
    for (serial, letter) in (1..=4).zip(["a", "b", "c", "c"]) {
        let output = |name: &str, text: String| {
            format!(
                "    \"{name}\": {{\n      \"value\": \"{text}\",\n      \"type\": \"string\"\n    }},\n"
            )
        };
        // The steady one keeps a delta smaller than the document, so that it would not be too large for that reason.
        let steady = output("a_steady", "x".repeat(1 << 20));
        let long = output("b_long", letter.repeat(17 << 20));
        let begin = "\"outputs\": {\n";
        let text = String::from_utf8(document(serial, 4, 1)).unwrap();
        let changed = text.replacen(begin, &format!("{begin}{steady}{long}"), 1);
        assert_ne!(changed, text);
        world.write("prod", changed.into_bytes()).await;
    }
    let verified = checked(&world.export("prod").await);
    assert!(verified.versions.iter().all(|entry| !entry.meta.verbatim));
    let frames: Vec<Frame> = verified.versions.iter().map(|entry| entry.frame).collect();
    // The first and the head always are; the second and third bring more than a delta may.
    assert_eq!(frames, [Frame::Key; 4]);
}
