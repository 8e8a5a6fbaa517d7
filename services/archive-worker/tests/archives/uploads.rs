//! Signed addresses: what each is good for, and nothing else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blob::{ObjectKey, PutTerms};
use protocol::Code;
use protocol::archives::{Job, JobStatus, UploadPart};
use reqwest::{Client, Response};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::documents::document;
use crate::world::{Backend, World, ok, read, refused};

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

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

        // After the end a folder takes nothing, and what a bucket takes has no effect and is cleaned up.
        let late = put(&world, part, &part.url, &bytes, None).await;
        match backend {
            Backend::Folder => drop(refused(late, Code::JobEnded).await),
            Backend::S3 => drop(ok(late).await),
        }
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
        let request = World::import_request(b"x", "copy");
        let job: Job = read(world.ask_import(&request).await).await;
        let url = world.missing_parts(job.id).await.parts[0].url.clone();
        let (_, path) = url.split_once("/w/").unwrap();
        let (path, _) = path.split_once('?').unwrap();
        let key: ObjectKey = format!("w/{path}").parse().unwrap();
        let (_, archives) = world.archives();
        let (blobs, life) = (archives.blobs(), Duration::from_secs(5));
        let terms = PutTerms {
            size_bytes: 1,
            sha256: Sha256::digest(b"x").into(),
        };
        let put = blobs.sign_put(&key, &terms, now(), life).await.unwrap();
        // Parts are not for anybody to get; another object of the job.
        let (job_prefix, _) = path.split_once("/q/").unwrap();
        let other: ObjectKey = format!("w/{job_prefix}/0f").parse().unwrap();
        let get = blobs.sign_get(&other, "f", now(), life).await.unwrap();
        let send = async || {
            let mut request = Client::new().put(world.whole(&put.url)).body("x");
            for (name, value) in &put.headers {
                request = request.header(name, value);
            }
            let put = request.send().await.unwrap().status().as_u16();
            let get = reqwest::get(world.whole(&get.url)).await.unwrap();
            [put, get.status().as_u16()]
        };
        let first = send().await;
        assert_eq!(first, [200, 404], "{backend:?}");
        while send().await != [403, 403] {
            assert!(now() < put.expires_at + 10, "{backend:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(now() >= put.expires_at, "{backend:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_after_a_job_has_ended_is_cleaned_up_and_never_imported() {
    for backend in [Backend::Folder, Backend::S3] {
        let world = World::start(backend).await;
        let request = World::import_request(b"x", "copy");
        let job: Job = read(world.ask_import(&request).await).await;
        let upload = world.missing_parts(job.id).await;
        let part = &upload.parts[0];
        let path = world.place(&format!("/jobs/{}/cancel", job.id));
        ok(world.request("POST", &path).send().await.unwrap()).await;
        world.end_of(job.id).await;
        let late = put(&world, part, &part.url, b"x", None).await;
        match backend {
            Backend::Folder => drop(refused(late, Code::JobEnded).await),
            Backend::S3 => drop(ok(late).await),
        }
        refused(world.complete(job.id).await, Code::JobEnded).await;
        // Another import of the same bytes does not find them.
        let next: Job = read(world.ask_import(&request).await).await;
        refused(world.complete(next.id).await, Code::UploadIncomplete).await;
        assert_eq!(world.missing_parts(next.id).await.missing, 1);
        let path = world.place(&format!("/jobs/{}/cancel", next.id));
        ok(world.request("POST", &path).send().await.unwrap()).await;
        world.end_of(next.id).await;
        world.cleaned().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_where_it_broke_off() {
    for backend in [Backend::Folder, Backend::S3] {
        let world = World::start(backend).await;
        world.write("prod", document(1, 300, 1)).await;
        let job = world.ask_export("prod").await;
        world.done(job.id).await;
        let download = world.sign_download(job.id).await;
        let size = usize::try_from(download.archive.size_bytes).unwrap();
        let get = async |headers: &[(&'static str, &str)]| {
            let mut request = Client::new().get(world.whole(&download.url));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.send().await.unwrap()
        };
        let first = get(&[]).await;
        assert_eq!(first.status().as_u16(), 200);
        let etag = first.headers()["etag"].to_str().unwrap().to_owned();
        let first = ok(first).await;
        assert_eq!(first.len(), size);
        for (range, wanted) in [
            ("bytes=100-", 100..size),
            ("bytes=10-19", 10..20),
            ("bytes=-5", size - 5..size),
            ("bytes=5-", 5..size),
            ("bytes=0-0", 0..1),
            ("bytes=7-99999999", 7..size),
        ] {
            let part = get(&[("range", range)]).await;
            assert_eq!(part.status().as_u16(), 206, "{backend:?} {range}");
            let shown = part.headers()["content-range"].to_str().unwrap().to_owned();
            let (start, end) = (wanted.start, wanted.end - 1);
            assert_eq!(shown, format!("bytes {start}-{end}/{size}"), "{range}");
            assert_eq!(ok(part).await, first[wanted], "{backend:?} {range}");
        }
        let beyond = get(&[("range", "bytes=99999999-")]).await;
        assert_eq!(beyond.status().as_u16(), 416);
        if backend == Backend::Folder {
            assert_eq!(beyond.headers()["content-range"], format!("bytes */{size}"));
            let several = get(&[("range", "bytes=0-1,5-6")]).await;
            assert_eq!(several.status().as_u16(), 200);
            assert_eq!(ok(several).await, first);
            let same = get(&[("range", "bytes=5-"), ("if-range", &etag)]).await;
            assert_eq!(same.status().as_u16(), 206);
            let other = get(&[("range", "bytes=5-"), ("if-range", "\"other\"")]).await;
            assert_eq!(other.status().as_u16(), 200);
            assert_eq!(ok(other).await, first);
            let head = Client::new().head(world.whole(&download.url));
            let head = head.header("range", "bytes=5-").send().await.unwrap();
            assert_eq!(head.status().as_u16(), 200);
            assert_eq!(head.headers()["content-length"], size.to_string());
        }
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
