//! The object store goes away and comes back, at any point of a job.

use std::time::Duration;

use protocol::archives::{Job, JobStatus};

use crate::documents::document;
use crate::world::{Backend, World, read};

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
