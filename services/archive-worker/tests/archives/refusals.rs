//! What is refused, with which code, and that nothing of it remains.

use archive::{Preface, Run, Signer, StateInfo, Tag, VersionMeta, VersionRange, Writer, bound_of};
use chrono::DateTime;
use protocol::archives::{Job, JobStatus};
use protocol::{Code, Role};
use serde_json::json;
use tfstate::Digest;

use crate::documents::document;
use crate::world::{Backend, World, ok, read, refused};

/// Nothing of an import is there: no state, no row, no name.
pub(crate) async fn nothing_of(world: &World, name: &str) {
    assert_eq!(world.status_of(name).await, 404, "{name}");
    for query in [
        "SELECT count(*) FROM states WHERE lifecycle = 'importing'",
        "SELECT count(*) FROM state_versions v WHERE NOT EXISTS (SELECT FROM states s WHERE s.id = v.state_id)",
        "SELECT count(*) FROM instances i WHERE NOT EXISTS (SELECT FROM states s WHERE s.id = i.state_id)",
    ] {
        assert_eq!(world.count(query).await, 0, "{query}");
    }
}

async fn archive_of_three(world: &World) -> Vec<u8> {
    for serial in 1..=3 {
        world.write("prod", document(serial, 20, 4)).await;
    }
    world.export("prod").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_name_is_refused_before_any_upload() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    let request = World::import_request(&bytes, "prod");
    refused(world.ask_import(&request).await, Code::StateExists).await;
    // In another spelling too.
    let request = World::import_request(&bytes, "PROD");
    refused(world.ask_import(&request).await, Code::StateExists).await;
    assert_eq!(
        world
            .count("SELECT count(*) FROM jobs WHERE kind = 'import'")
            .await,
        0
    );

    // A name that a lock was taken and given up on holds nothing, and gives way.
    let lock = json!({ "ID": "x", "Operation": "plan", "Info": "", "Who": "ann", "Version": "1", "Created": "2026-01-01T00:00:00Z", "Path": "" });
    let path = world.state("planned");
    ok(world
        .request("LOCK", &path)
        .json(&lock)
        .send()
        .await
        .unwrap())
    .await;
    let request = World::import_request(&bytes, "planned");
    refused(world.ask_import(&request).await, Code::StateExists).await;
    ok(world
        .request("UNLOCK", &path)
        .json(&lock)
        .send()
        .await
        .unwrap())
    .await;
    let job = world.import(&bytes, &request).await;
    assert_eq!(job.status, JobStatus::Done, "{job:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_imports_racing_for_a_name_one_gets_it() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    let request = World::import_request(&bytes, "copy");
    let (one, two) = tokio::join!(world.ask_import(&request), world.ask_import(&request));
    let (won, lost) = if one.status().is_success() {
        (one, two)
    } else {
        (two, one)
    };
    refused(lost, Code::StateExists).await;
    let job: Job = read(won).await;

    // While it is being restored, nobody sees it and nobody takes its name.
    let path = world.state("copy");
    refused(
        world.request("GET", &path).send().await.unwrap(),
        Code::Conflict,
    )
    .await;
    let write = world.request("POST", &path).body(document(1, 1, 1));
    refused(write.send().await.unwrap(), Code::Conflict).await;
    refused(
        world.request("DELETE", &path).send().await.unwrap(),
        Code::Conflict,
    )
    .await;
    let list: serde_json::Value = read(
        world
            .request("GET", &world.state("")[..world.state("").len() - 1])
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(list["states"].as_array().unwrap().len(), 1);

    world.upload(job.id, &bytes).await;
    read::<Job>(world.complete(job.id).await).await;
    world.done(job.id).await;
    assert_eq!(world.document("copy", "head").await, document(3, 20, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_signature_takes_an_admin_and_a_flag() {
    let (from, to) = (
        World::start(Backend::Folder).await,
        World::start(Backend::Folder).await,
    );
    let bytes = archive_of_three(&from).await;
    let job = to
        .import(&bytes, &World::import_request(&bytes, "prod"))
        .await;
    assert_eq!(job.error.unwrap().code, "signature_foreign");
    nothing_of(&to, "prod").await;

    let mut request = World::import_request(&bytes, "prod");
    request["allow_foreign"] = json!(true);
    let writer = to.member(Role::Maintainer).await;
    let path = to.place("/imports");
    let ask = to
        .app
        .request("POST", &path)
        .bearer_auth(&writer)
        .json(&request);
    refused(ask.send().await.unwrap(), Code::Forbidden).await;
    let job = to.import(&bytes, &request).await;
    assert_eq!(job.imported.unwrap().origin, "foreign");
    let marked = "SELECT count(*) FROM state_versions WHERE provenance ->> 'origin' = 'foreign'";
    assert_eq!(to.count(marked).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_trusted_is_as_good_as_ones_own() {
    let from = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&from).await;
    let keys: serde_json::Value = read(
        from.app
            .request("GET", "/v1/archive-keys")
            .send()
            .await
            .unwrap(),
    )
    .await;
    let mut to = World::without_worker(Backend::Folder).await;
    let key = keys["signing"].as_str().unwrap().to_owned();
    to.settings.push(("KL_TRUSTED_ARCHIVE_KEYS", key));
    to.start_worker();
    let job = to
        .import(&bytes, &World::import_request(&bytes, "prod"))
        .await;
    assert_eq!(job.imported.unwrap().origin, "trusted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_refused_whatever_byte_is_flipped_and_wherever_it_is_cut() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    // Every byte is flipped in the tests of the format; here, that the service refuses and removes what it finds.
    let flips = (0..bytes.len()).step_by(bytes.len() / 12);
    let mut damaged: Vec<Vec<u8>> = flips
        .map(|at| {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x40;
            flipped
        })
        .collect();
    damaged.push(bytes[..bytes.len() / 2].to_vec());
    damaged.push(bytes[..bytes.len() - 1].to_vec());
    damaged.push([&bytes[..], b"more"].concat());
    damaged.push(b"no archive at all".to_vec());
    for bytes in damaged {
        let job = world
            .import(&bytes, &World::import_request(&bytes, "bad"))
            .await;
        assert_eq!(job.status, JobStatus::Failed);
        let error = job.error.unwrap();
        assert!(
            archive_codes().contains(&error.code.as_str()),
            "{error:?} is a code of the format"
        );
        nothing_of(&world, "bad").await;
    }
    world.cleaned().await;
}

/// The codes that `docs/archive-format.md` lists.
fn archive_codes() -> Vec<&'static str> {
    let page = include_str!("../../../../docs/archive-format.md");
    page.split('`').skip(1).step_by(2).collect()
}

/// An archive that breaks what the service asks beyond the format. With an actor its version was made by a run.
fn odd(source: &str, tag: &str, actor: Option<&str>) -> Vec<u8> {
    let at = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
    let document = document(1, 2, 2);
    let meta = VersionMeta {
        seq: 1,
        id: "ver_0".to_owned(),
        serial: Some(1),
        lineage: Some("5b1a7f0e-0000-4000-8000-000000000001".to_owned()),
        terraform_version: Some("1.11.4".to_owned()),
        source: source.to_owned(),
        created_at: at,
        created_by: "ann".to_owned(),
        run: actor.map(|_| "run_1".to_owned()),
        forced: false,
        unlocked: false,
        verbatim: false,
        bytes: document.len() as u64,
        sha256: Digest::of(&document),
        provenance: None,
    };
    let preface = Preface {
        writer: "a test".to_owned(),
        exported_at: at,
        exported_by: "ann".to_owned(),
        state: StateInfo {
            workspace: "ws".to_owned(),
            environment: "env".to_owned(),
            name: "odd".to_owned(),
            id: "st".to_owned(),
            head_seq: 1,
            head_id: meta.id.clone(),
            serial: meta.serial,
            lineage: meta.lineage.clone(),
        },
        versions: VersionRange {
            count: 1,
            first: 1,
            last: 1,
        },
        has_runs: actor.is_some(),
        max_bytes: bound_of(1, meta.bytes),
    };
    let mut writer = Writer::start(Vec::new(), preface).unwrap();
    writer.document(&meta, &document).unwrap();
    let tag = Tag {
        name: tag.to_owned(),
        seq: 1,
        description: None,
        created_by: "ann".to_owned(),
        created_at: at,
    };
    let signer = Signer::from_seed(&[5; 32]);
    let mut closing = writer.tags(&[tag]).unwrap();
    if let Some(actor) = actor {
        let run = Run {
            id: "run_1".to_owned(),
            kind: "apply".to_owned(),
            status: "succeeded".to_owned(),
            actor: actor.to_owned(),
            base_seq: None,
            started_at: at,
            finished_at: None,
            versions: vec![1],
        };
        closing.runs(&[run]).unwrap();
    }
    closing.finish(Some(&signer)).unwrap().sink
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_format_allows_and_the_service_cannot_keep_has_codes_of_its_own() {
    let world = World::start(Backend::Folder).await;
    for (bytes, code) in [
        (odd("magic", "v1", None), "unknown_source"),
        (odd("terraform", "no tag!", None), "invalid_tag"),
        (odd("terraform", "head", None), "invalid_tag"),
        (
            odd("terraform", "v1", Some(&"a".repeat(1_025))),
            "invalid_run",
        ),
    ] {
        let mut request = World::import_request(&bytes, "odd");
        request["allow_foreign"] = json!(true);
        let job = world.import(&bytes, &request).await;
        assert_eq!(job.error.unwrap().code, code);
        nothing_of(&world, "odd").await;
    }
    let bytes = odd("terraform", "v1", Some(&"a".repeat(1_024)));
    let mut request = World::import_request(&bytes, "odd");
    request["allow_foreign"] = json!(true);
    assert_eq!(world.import(&bytes, &request).await.status, JobStatus::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn overwriting_takes_the_typed_name_and_is_in_the_audit_log() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    world.write("prod", document(9, 1, 1)).await;
    let mut request = World::import_request(&bytes, "prod");
    request["overwrite"] = json!("Prod");
    refused(world.ask_import(&request).await, Code::InvalidRequest).await;
    request["overwrite"] = json!("prod");
    let job: Job = read(world.ask_import(&request).await).await;
    // Until the end, the old one is there.
    assert_eq!(world.document("prod", "head").await, document(9, 1, 1));
    refused(world.ask_import(&request).await, Code::StateExists).await;
    world.upload(job.id, &bytes).await;
    read::<Job>(world.complete(job.id).await).await;
    let imported = world.done(job.id).await.imported.unwrap();
    assert!(imported.replaced.is_some());
    assert_eq!(world.document("prod", "head").await, document(3, 20, 4));
    let audited = world.audited().await;
    for action in [
        "archive.import",
        "archive.upload",
        "archive.uploaded",
        "archive.imported",
        "state.replace",
    ] {
        assert!(
            audited.iter().any(|done| done == action),
            "{action}: {audited:?}"
        );
    }
    // What was replaced can be brought back, once its name is free.
    assert_eq!(
        world
            .count("SELECT count(*) FROM states WHERE lifecycle = 'deleted'")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_locked_is_not_overwritten() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    let lock = json!({ "ID": "x", "Operation": "apply", "Info": "", "Who": "ann", "Version": "1", "Created": "2026-01-01T00:00:00Z", "Path": "" });
    let path = world.state("prod");
    ok(world
        .request("LOCK", &path)
        .json(&lock)
        .send()
        .await
        .unwrap())
    .await;
    let mut request = World::import_request(&bytes, "prod");
    request["overwrite"] = json!("prod");
    let job = world.import(&bytes, &request).await;
    assert_eq!(job.error.unwrap().code, "state_locked");
    assert_eq!(world.document("prod", "head").await, document(3, 20, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_copy_is_read_and_not_written() {
    let world = World::start(Backend::Folder).await;
    let bytes = archive_of_three(&world).await;
    let mut request = World::import_request(&bytes, "kept");
    request["archived"] = json!(true);
    let job = world.import(&bytes, &request).await;
    assert_eq!(job.status, JobStatus::Done, "{job:?}");
    let path = world.state("kept");
    assert_eq!(world.document("kept", "1").await, document(1, 20, 4));
    let write = world.request("POST", &path).body(document(9, 1, 1));
    refused(write.send().await.unwrap(), Code::Conflict).await;
    let lock = json!({ "ID": "x", "Operation": "apply", "Info": "", "Who": "ann", "Version": "1", "Created": "2026-01-01T00:00:00Z", "Path": "" });
    let lock = world.request("LOCK", &path).json(&lock);
    refused(lock.send().await.unwrap(), Code::Conflict).await;
    let rollback = world
        .request("POST", &world.state("kept/rollback"))
        .json(&json!({ "to": "1" }));
    refused(rollback.send().await.unwrap(), Code::Conflict).await;
    // It is exported like any other.
    world.export("kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exported_is_said_at_once() {
    let world = World::start(Backend::Folder).await;
    let ask = async |name: &str| {
        let path = world.state(&format!("{name}/archive"));
        world
            .request("POST", &path)
            .json(&json!({}))
            .send()
            .await
            .unwrap()
    };
    refused(ask("nothing").await, Code::StateNotFound).await;
    world.write("prod", document(1, 1, 1)).await;
    refused(ask("Prod").await, Code::NameCase).await;
    let path = world.state("prod/archive");
    let reader = world.member(Role::Writer).await;
    let answer = world
        .app
        .request("POST", &path)
        .bearer_auth(&reader)
        .json(&json!({}));
    refused(answer.send().await.unwrap(), Code::Forbidden).await;
}
