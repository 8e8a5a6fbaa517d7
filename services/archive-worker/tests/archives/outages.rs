//! The object store goes away and comes back, at any point of a job.

use std::time::Duration;

use protocol::archives::{Job, JobStatus};

use crate::documents::document;
use crate::kills::spawn;
use crate::world::{Backend, World, read};

/// Requests that fail in a row: more than the client repeats one of them, so that the call fails.
const RUN_OF_FAILURES: u64 = 6;

/// An export and an import whose archive is uploaded, both waiting for a worker.
async fn ask_both(world: &World, bytes: &[u8], name: &str) -> [Job; 2] {
    let import: Job = read(world.ask_import(&World::import_request(bytes, name)).await).await;
    world.upload(import.id, bytes).await;
    let import = read(world.complete(import.id).await).await;
    [world.ask_export("prod").await, import]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_whichever_call_of_the_object_store_fails() {
    let mut world = World::start(Backend::S3).await;
    for serial in 1..=3 {
        world.write("prod", document(serial, 30, 3)).await;
    }
    let bytes = world.export("prod").await;
    world.stop_workers().await;
    // What both take when all is well.
    let jobs = ask_both(&world, &bytes, "calm").await;
    let before = world.s3.as_ref().unwrap().requests();
    world.start_worker();
    for job in jobs {
        world.done(job.id).await;
    }
    world.stop_workers().await;
    let calls = world.s3.as_ref().unwrap().requests() - before;
    assert!(calls > 10, "{calls} calls");
    for call in 0..calls {
        let name = format!("copy{call}");
        let jobs = ask_both(&world, &bytes, &name).await;
        world.s3.as_ref().unwrap().fail_after(call, RUN_OF_FAILURES);
        world.start_worker();
        for job in jobs {
            world.done(job.id).await;
        }
        world.stop_workers().await;
        world.s3.as_ref().unwrap().fail_after(0, 0);
        assert_eq!(world.document(&name, "head").await, document(3, 30, 3));
    }
    world.start_worker();
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_object_store_costs_time_and_no_lease() {
    let mut world = World::without_worker(Backend::S3).await;
    for serial in 1..=3 {
        world.write("prod", document(serial, 30, 3)).await;
    }
    world.start_worker();
    let bytes = world.export("prod").await;
    world.stop_workers().await;
    let jobs = ask_both(&world, &bytes, "copy").await;
    // Each call takes longer than a lease of these workers; two of them wait for what the other would leave.
    world
        .s3
        .as_ref()
        .unwrap()
        .delay(Duration::from_millis(2_500));
    world.start_worker();
    world.start_worker();
    for job in jobs {
        let done = world.done(job.id).await;
        assert_eq!(done.attempt, 1, "{done:?}");
    }
    world.s3.as_ref().unwrap().delay(Duration::ZERO);
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_an_attempt_and_no_job() {
    let mut world = World::without_worker(Backend::Folder).await;
    for serial in 1..=3 {
        world.write("prod", document(serial, 3_000, 3_000)).await;
    }
    let job = world.ask_export("prod").await;
    // No file of this worker grows beyond a few kilobytes: every write after that fails, as on a full disk.
    let mut worker = spawn(&world, Some(8));
    let failures = "SELECT failures::bigint FROM jobs";
    while world.count(failures).await == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    let failed = world.job(job.id).await;
    assert_eq!(failed.archive, None, "{failed:?}");
    let parts = world.folder.path().join("parts");
    assert_eq!(std::fs::read_dir(parts).unwrap().count(), 0);
    world.start_worker();
    world.done(job.id).await;
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_an_object_store_that_goes_away_again_and_again() {
    let mut world = World::start(Backend::S3).await;
    for serial in 1..=6 {
        world.write("prod", document(serial, 800, 20)).await;
    }
    let bytes = world.export("prod").await;
    // Uploaded while all is well; what fails is the worker's.
    let export = world.ask_export("prod").await;
    let import: Job = read(
        world
            .ask_import(&World::import_request(&bytes, "copy"))
            .await,
    )
    .await;
    world.upload(import.id, &bytes).await;
    read::<Job>(world.complete(import.id).await).await;
    for pause in [1, 7, 20, 45, 90] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let server = world.s3.as_mut().unwrap();
        server.stop();
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.start_again();
    }
    for id in [export.id, import.id] {
        let job = world.end_of(id).await;
        assert_eq!(job.status, JobStatus::Done, "{job:?}");
    }
    assert_eq!(world.document("copy", "head").await, document(6, 800, 20));
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_stays_away_ends_a_job_with_a_reason() {
    use engine::archive::{Ending, WorkSettings};
    let mut world = World::without_worker(Backend::S3).await;
    world.write("prod", document(1, 1, 1)).await;
    let job = world.ask_export("prod").await;
    world.s3.as_mut().unwrap().stop();
    let (_db, archives) = world.archives();
    let settings = WorkSettings {
        failures: 2,
        pause: Duration::ZERO,
        ..crate::world::quick()
    };
    let never = tokio_util::sync::CancellationToken::new();
    let first = archives.claim(&settings).await.unwrap().unwrap();
    assert_eq!(archives.work(first, &settings, &never).await, Ending::Again);
    assert_eq!(world.job(job.id).await.status, JobStatus::Queued);
    // It cannot even be cleaned up after; that is tried again too, once the store is back.
    let second = archives.claim(&settings).await.unwrap().unwrap();
    assert_eq!(
        archives.work(second, &settings, &never).await,
        Ending::Again
    );
    world.s3.as_mut().unwrap().start_again();
    world.start_worker();
    let ended = world.end_of(job.id).await;
    assert!(
        matches!(ended.status, JobStatus::Done | JobStatus::Failed),
        "{ended:?}"
    );
}
