//! What archives may take of a workspace, each limit with its code.

use engine::archive::WorkSettings;
use protocol::Code;
use protocol::archives::{Job, JobStatus};
use serde_json::json;

use crate::documents::document;
use crate::refusals::nothing_of;
use crate::world::{Backend, World, ok, read, refused};

async fn history(world: &World, versions: u64) {
    for serial in 1..=versions {
        world.write("prod", document(serial, 40, 40)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_a_day_are_counted_and_imports_that_have_not_ended() {
    let limits = [
        ("KL_ARCHIVE_EXPORTS_A_DAY", "2"),
        ("KL_ARCHIVE_IMPORTS", "2"),
    ];
    let world = World::start_with(Backend::Folder, &limits).await;
    history(&world, 1).await;
    let ask = async || {
        let path = world.state("prod/archive");
        let request = world.request("POST", &path).json(&json!({}));
        request.send().await.unwrap()
    };
    for _ in 0..2 {
        let job: Job = read(ask().await).await;
        world.done(job.id).await;
    }
    refused(ask().await, Code::RateLimited).await;

    let import = async |name: &str| world.ask_import(&World::import_request(b"x", name)).await;
    let first: Job = read(import("one").await).await;
    read::<Job>(import("two").await).await;
    refused(import("three").await, Code::RateLimited).await;
    let path = world.place(&format!("/jobs/{}/cancel", first.id));
    ok(world.request("POST", &path).send().await.unwrap()).await;
    world.end_of(first.id).await;
    read::<Job>(import("three").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_has_a_largest_size_on_its_way_in_and_out() {
    let roomy = World::start(Backend::Folder).await;
    history(&roomy, 3).await;
    let bytes = roomy.export("prod").await;
    for backend in [Backend::Folder, Backend::S3] {
        let most = (bytes.len() / 2).to_string();
        let world = World::start_with(backend, &[("KL_ARCHIVE_BYTES", &most)]).await;
        let request = World::import_request(&bytes, "copy");
        refused(world.ask_import(&request).await, Code::BodyTooLarge).await;
        history(&world, 3).await;
        let job = world.ask_export("prod").await;
        let ended = world.end_of(job.id).await;
        assert_eq!(ended.error.unwrap().code, "over_limit");
        world.cleaned().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_archive_unpacks_to_is_limited_and_nothing_of_it_remains() {
    let from = World::start(Backend::Folder).await;
    history(&from, 3).await;
    let bytes = from.export("prod").await;
    let policy = archive::Policy::any_origin(u64::MAX);
    let verified = archive::verify(&bytes[..], &policy).unwrap();
    let exactly = verified.unpacked_bytes.to_string();
    let less = (verified.unpacked_bytes - 1).to_string();
    let halfway = (verified.unpacked_bytes / 2).to_string();
    let two = (verified.counts.versions - 1).to_string();
    let little = (8 << 20).to_string();
    for (name, limit, code) in [
        ("KL_ARCHIVE_UNPACKED_BYTES", exactly.as_str(), None),
        ("KL_ARCHIVE_UNPACKED_BYTES", &less, Some("over_limit")),
        ("KL_ARCHIVE_UNPACKED_BYTES", &halfway, Some("over_limit")),
        ("KL_ARCHIVE_VERSIONS", "3", None),
        ("KL_ARCHIVE_VERSIONS", &two, Some("too_many_versions")),
        ("KL_ARCHIVE_MEMORY_BYTES", &little, Some("over_memory")),
    ] {
        let to = World::start_with(Backend::Folder, &[(name, limit)]).await;
        let mut request = World::import_request(&bytes, "copy");
        request["allow_foreign"] = json!(true);
        let job = to.import(&bytes, &request).await;
        let found = job.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(found, code, "{name} {limit}: {job:?}");
        match code {
            None => assert_eq!(job.status, JobStatus::Done),
            Some(_) => nothing_of(&to, "copy").await,
        }
        to.cleaned().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_more_versions_than_an_archive_holds_is_not_exported() {
    let world = World::start_with(Backend::Folder, &[("KL_ARCHIVE_VERSIONS", "2")]).await;
    history(&world, 3).await;
    let job = world.ask_export("prod").await;
    let ended = world.end_of(job.id).await;
    assert_eq!(ended.error.unwrap().code, "too_many_versions");
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_is_kept_for_its_time_and_then_deleted() {
    let world = World::start_with(Backend::Folder, &[("KL_ARCHIVE_KEEP_SECONDS", "5")]).await;
    history(&world, 1).await;
    let job = world.ask_export("prod").await;
    let done = world.done(job.id).await;
    let kept = done.expires_at.unwrap() - done.finished_at.unwrap();
    assert_eq!(kept.num_seconds(), 5);
    let url = world.whole(&world.sign_download(job.id).await.url);
    ok(reqwest::get(&url).await.unwrap()).await;
    while world.count("SELECT count(*) FROM job_queue").await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(chrono::Utc::now() >= done.expires_at.unwrap());
    let path = world.place(&format!("/jobs/{}/download", job.id));
    let late = world.request("POST", &path).send().await.unwrap();
    refused(late, Code::JobEnded).await;
    // The address of before is good for minutes more, and there is nothing behind it.
    refused(reqwest::get(&url).await.unwrap(), Code::NotFound).await;
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_keeps_a_worker_for_ever() {
    let world = World::with_settings(Backend::S3, &[("KL_ARCHIVE_ATTEMPT_SECONDS", "1")]).await;
    history(&world, 2).await;
    let job = world.ask_export("prod").await;
    let server = world.s3.as_ref().unwrap();
    server.delay(std::time::Duration::from_millis(700));
    let (_db, archives) = world.archives();
    let settings = WorkSettings::default();
    let claimed = archives.claim(&settings).await.unwrap().unwrap();
    let never = tokio_util::sync::CancellationToken::new();
    archives.work(claimed, &settings, &never).await;
    server.delay(std::time::Duration::ZERO);
    let ended = world.job(job.id).await;
    assert_eq!(ended.error.unwrap().code, "over_time");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_look_at_once_start_no_more_jobs_than_allowed() {
    let world = World::without_worker(Backend::Folder).await;
    history(&world, 1).await;
    for _ in 0..12 {
        world.ask_export("prod").await;
    }
    let (_db, archives) = world.archives();
    let settings = WorkSettings::default();
    let looks = (0..24).map(|_| archives.claim(&settings));
    let claimed = futures::future::join_all(looks).await;
    let claimed = claimed.into_iter().filter_map(Result::unwrap).count();
    assert_eq!(claimed, 2);
}
