//! Signed addresses: what each is good for, and nothing else.

use std::time::{SystemTime, UNIX_EPOCH};

use blob::{Blobs, ObjectKey};
use protocol::Code;
use protocol::archives::{Job, JobStatus, UploadPart};
use reqwest::{Client, Response};
use serde_json::json;

use crate::documents::document;
use crate::world::{Backend, World, ok, read, refused};

async fn put(
    world: &World,
    part: &UploadPart,
    url: &str,
    body: &[u8],
    checksum: Option<&str>,
) -> Response {
    let mut request = Client::new().put(world.whole(url)).body(body.to_vec());
    for (name, value) in &part.headers {
        let value = match checksum {
            Some(other) if name == "x-amz-checksum-sha256" => other,
            _ => value,
        };
        request = request.header(name, value);
    }
    request.send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_to_put_to_takes_the_very_bytes_as_that_object_and_nothing_else() {
    for backend in [Backend::Folder, Backend::S3] {
        let world = World::start(backend).await;
        world.write("prod", document(1, 3, 1)).await;
        let bytes = world.export("prod").await;
        let request = World::import_request(&bytes, "copy");
        let job: Job = read(world.ask_import(&request).await).await;
        refused(world.complete(job.id).await, Code::UploadIncomplete).await;
        let upload = world.missing_parts(job.id).await;
        let part = &upload.parts[0];
        assert_eq!((upload.parts.len(), upload.missing), (1, 1));

        let other_key = part.url.replace("/0?", "/1?");
        assert_ne!(other_key, part.url);
        let longer = [&bytes[..], b"x"].concat();
        let mut other = bytes.clone();
        other[0] ^= 1;
        let wrong = [
            put(&world, part, &other_key, &bytes, None).await,
            put(&world, part, &part.url, &longer, None).await,
            put(&world, part, &part.url, &bytes[1..], None).await,
            put(&world, part, &part.url, &other, None).await,
            put(&world, part, &part.url, &bytes, Some("AAAA")).await,
            Client::new()
                .get(world.whole(&part.url))
                .send()
                .await
                .unwrap(),
            Client::new()
                .delete(world.whole(&part.url))
                .send()
                .await
                .unwrap(),
        ];
        for answer in wrong {
            let status = answer.status().as_u16();
            assert!((400..500).contains(&status), "{backend:?}: {status}");
        }
        if backend == Backend::Folder {
            // The test's S3 server refuses a wrong body and keeps it all the same; the worker hashes again.
            assert_eq!(world.missing_parts(job.id).await.missing, 1);
        }

        ok(put(&world, part, &part.url, &bytes, None).await).await;
        let done: Job = read(world.complete(job.id).await).await;
        // A repetition is answered as the first.
        assert_eq!(read::<Job>(world.complete(job.id).await).await.id, done.id);
        world.done(job.id).await;

        // After the end the address may still work, without any effect, and what it left is cleaned up.
        _ = put(&world, part, &part.url, &bytes, None).await;
        let parts = world.place(&format!("/imports/{}/parts", job.id));
        refused(
            world.request("POST", &parts).send().await.unwrap(),
            Code::JobEnded,
        )
        .await;
        assert_eq!(world.document("copy", "head").await, document(1, 3, 1));
        world.cleaned().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_address_is_refused_by_both() {
    for backend in [Backend::Folder, Backend::S3] {
        let world = World::without_worker(backend).await;
        let (_, archives) = world.archives();
        if let Blobs::S3(_) = archives.blobs() {
            // S3 signs with the clock of the machine; its refusals of changed times are in the contract suite.
            continue;
        }
        let key: ObjectKey = "w/ws_000000000000/job_0/0f".parse().unwrap();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let signed = archives
            .blobs()
            .sign_get(&key, "f", now - 3600)
            .await
            .unwrap();
        refused(
            reqwest::get(world.whole(&signed.url)).await.unwrap(),
            Code::SignatureRejected,
        )
        .await;
        let signed = archives.blobs().sign_get(&key, "f", now).await.unwrap();
        refused(
            reqwest::get(world.whole(&signed.url)).await.unwrap(),
            Code::NotFound,
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_where_it_broke_off() {
    for backend in [Backend::Folder, Backend::S3] {
        let world = World::start(backend).await;
        world.write("prod", document(1, 300, 1)).await;
        let whole = world.export("prod").await;
        let job = world.ask_export("prod").await;
        world.done(job.id).await;
        let download = world.sign_download(job.id).await;
        let get = |range: &'static str| {
            Client::new()
                .get(world.whole(&download.url))
                .header("range", range)
        };
        let rest = get("bytes=100-").send().await.unwrap();
        assert_eq!(rest.status().as_u16(), 206);
        let rest = ok(rest).await;
        assert_eq!(rest.len() + 100, download.archive.size_bytes as usize);
        assert_eq!(
            get("bytes=99999999-")
                .send()
                .await
                .unwrap()
                .status()
                .as_u16(),
            416
        );
        // Times of export differ, so two archives do too; the download is one whole.
        let first = ok(Client::new()
            .get(world.whole(&download.url))
            .send()
            .await
            .unwrap())
        .await;
        assert_eq!(first[100..], rest[..]);
        assert!(!whole.is_empty());
        let changed = download.url.replace("prod.klstate", "evil.klstate");
        assert_eq!(
            Client::new()
                .get(world.whole(&changed))
                .send()
                .await
                .unwrap()
                .status()
                .as_u16(),
            403
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_never_comes_gives_its_name_back() {
    let world = World::start(Backend::Folder).await;
    let request = World::import_request(b"something", "late");
    let job: Job = read(world.ask_import(&request).await).await;
    refused(world.ask_import(&request).await, Code::StateExists).await;
    world
        .tamper("UPDATE job_queue SET not_before = now()")
        .await;
    world.tamper("SELECT pg_notify('kilolock_jobs', '')").await;
    let job = world.end_of(job.id).await;
    assert_eq!(job.error.unwrap().code, "upload_abandoned");
    assert_eq!(world.status_of("late").await, 404);
    read::<Job>(world.ask_import(&request).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ill_formed_requests_for_an_import_are_refused() {
    let world = World::without_worker(Backend::Folder).await;
    let good = World::import_request(b"something", "late");
    let with = |member: &str, value: serde_json::Value| {
        let mut request = good.clone();
        request[member] = value;
        request
    };
    for (request, code) in [
        (with("size_bytes", json!(0)), Code::InvalidRequest),
        (with("size_bytes", json!(1_u64 << 50)), Code::BodyTooLarge),
        (with("parts", json!([])), Code::InvalidRequest),
        (with("parts", json!(["AB"])), Code::InvalidRequest),
        (with("name", json!("a/b")), Code::InvalidJson),
        (with("more", json!(1)), Code::InvalidJson),
    ] {
        refused(world.ask_import(&request).await, code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_without_a_place_for_archives_says_so() {
    use crate::harness::TestApp;
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let environment = workspace.environment("prod").await;
    let answer = workspace.request("GET", &format!("/environments/{environment}/jobs"));
    refused(answer.send().await.unwrap(), Code::ArchivesOff).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_gets_the_same_job() {
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 1, 1)).await;
    let ask = async |key: &str| -> Job {
        let path = world.state("prod/archive");
        let request = world.request("POST", &path).header("idempotency-key", key);
        read(request.json(&json!({})).send().await.unwrap()).await
    };
    let first = ask("one").await;
    assert_eq!(ask("one").await.id, first.id);
    assert_ne!(ask("two").await.id, first.id);
    assert_eq!(first.status, JobStatus::Queued);
}
