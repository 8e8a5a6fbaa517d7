//! Jobs: who gets which, what becomes of those whose worker is gone, cancelling, progress, turns.

use std::time::Duration;

use engine::archive::{Ending, WorkSettings};
use protocol::Code;
use protocol::archives::{Job, JobPage, JobStatus};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::documents::document;
use crate::world::{Backend, World, ok, quick, read, refused};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_is_replaced_and_finishes_nothing_any_more() {
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 5, 1)).await;
    let job = world.ask_export("prod").await;
    let (_db, archives) = world.archives();
    let short = WorkSettings {
        lease: Duration::from_secs(3),
        ..quick()
    };
    let dead = archives.claim(&short).await.unwrap().unwrap();
    assert!(
        archives.claim(&short).await.unwrap().is_none(),
        "a lease holds"
    );
    let next = loop {
        match archives.claim(&short).await.unwrap() {
            Some(claimed) => break claimed,
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert!(next.abandoned && next.job == dead.job && next.token != dead.token);
    let never = CancellationToken::new();
    // The one given up for dead comes to life again.
    assert_eq!(archives.work(dead, &short, &never).await, Ending::Lost);
    assert_eq!(world.job(job.id).await.status, JobStatus::Queued);
    assert_eq!(archives.work(next, &short, &never).await, Ending::Done);
    let done = world.job(job.id).await;
    assert_eq!((done.status, done.attempt), (JobStatus::Done, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_outlives_its_workers_is_given_up() {
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 5, 1)).await;
    let job = world.ask_export("prod").await;
    let (_db, archives) = world.archives();
    let settings = WorkSettings {
        abandonments: 0,
        lease: Duration::from_secs(1),
        ..quick()
    };
    archives.claim(&settings).await.unwrap().unwrap();
    let next = loop {
        match archives.claim(&settings).await.unwrap() {
            Some(claimed) => break claimed,
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let ending = archives
        .work(next, &settings, &CancellationToken::new())
        .await;
    assert_eq!(ending, Ending::Failed);
    assert_eq!(world.job(job.id).await.error.unwrap().code, "gave_up");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_take_turns_and_none_runs_more_than_its_share() {
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 1, 1)).await;
    for _ in 0..5 {
        world.ask_export("prod").await;
    }
    let other = world.app.workspace("other").await;
    let environment = other.environment("prod").await;
    let state = format!("/v1/states/{}/{environment}/s", other.id);
    let send = async |method: &str, path: &str, body: Vec<u8>| {
        let request = world.app.request(method, path).bearer_auth(&other.token);
        let request = request
            .header("content-type", "application/json")
            .body(body);
        assert!(request.send().await.unwrap().status().is_success());
    };
    send("POST", &state, document(1, 1, 1)).await;
    send("POST", &format!("{state}/archive"), b"{}".to_vec()).await;

    let (_db, archives) = world.archives();
    let mut claimed = Vec::new();
    while let Some(next) = archives.claim(&WorkSettings::default()).await.unwrap() {
        claimed.push(next.workspace.to_string() == other.id.to_string());
    }
    // The one job of the other comes second, not sixth; and of the first only two run at once.
    assert_eq!(claimed, [false, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_leaves_nothing() {
    let mut world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 5, 1)).await;
    let waiting = world.ask_export("prod").await;
    let cancel = async |world: &World, job: &Job| {
        let path = world.place(&format!("/jobs/{}/cancel", job.id));
        world.request("POST", &path).send().await.unwrap()
    };
    let cancelled: Job = read(cancel(&world, &waiting).await).await;
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    refused(cancel(&world, &waiting).await, Code::JobEnded).await;
    let download = world.place(&format!("/jobs/{}/download", waiting.id));
    refused(
        world.request("POST", &download).send().await.unwrap(),
        Code::JobEnded,
    )
    .await;

    // An import that waits for its archive, and one that a worker has just taken.
    let uploading: Job = read(world.ask_import(&World::import_request(b"x", "one")).await).await;
    read::<Job>(cancel(&world, &uploading).await).await;
    world.start_worker();
    assert_eq!(
        world.end_of(uploading.id).await.status,
        JobStatus::Cancelled
    );
    assert_eq!(world.status_of("one").await, 404);
    read::<Job>(world.ask_import(&World::import_request(b"x", "one")).await).await;

    world.stop_workers().await;
    let running = world.ask_export("prod").await;
    let (_db, archives) = world.archives();
    let claimed = archives.claim(&quick()).await.unwrap().unwrap();
    // As between an attempt's begin and its next step.
    world
        .tamper("UPDATE jobs SET status = 'running' WHERE status = 'queued'")
        .await;
    let asked: Job = read(cancel(&world, &running).await).await;
    assert_eq!(
        (asked.status, asked.cancel_asked),
        (JobStatus::Running, true)
    );
    let ending = archives
        .work(claimed, &quick(), &CancellationToken::new())
        .await;
    assert_eq!(ending, Ending::Cancelled);
    assert_eq!(world.job(running.id).await.status, JobStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_deleted_meanwhile_is_exported_to_its_end() {
    let mut world = World::without_worker(Backend::Folder).await;
    for serial in 1..=3 {
        world.write("prod", document(serial, 5, 1)).await;
    }
    let job = world.ask_export("prod").await;
    // Later versions and a deletion do not change what was asked for.
    world.write("prod", document(4, 5, 1)).await;
    let path = world.state("prod");
    ok(world.request("DELETE", &path).send().await.unwrap()).await;
    world.start_worker();
    let done = world.done(job.id).await;
    let archive = done.archive.unwrap();
    assert_eq!((archive.versions, archive.head_seq), (3, 3));
    assert_eq!(
        (done.progress.versions_done, done.progress.versions_total),
        (3, 3)
    );
    assert!(done.progress.bytes_done > 0 && done.progress.bytes_done == done.progress.bytes_total);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_ends_an_export_and_never_makes_a_smaller_archive() {
    let world = World::start(Backend::Folder).await;
    for serial in 1..=3 {
        world.write("prod", document(serial, 5, 2)).await;
    }
    world
        .tamper("DELETE FROM instances WHERE born_seq = 2 AND address = 'terraform_data.r000001'")
        .await;
    let job = world.ask_export("prod").await;
    let ended = world.end_of(job.id).await;
    assert_eq!(ended.error.unwrap().code, "state_damaged");
    world.cleaned().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_goes_only_while_a_state_is_being_restored() {
    let world = World::start(Backend::Folder).await;
    world.write("prod", document(1, 5, 2)).await;
    let worker = sqlx::PgPool::connect(store::testing::expose(&world.app.database.worker_url()))
        .await
        .unwrap();
    for table in ["states", "state_versions"] {
        let mut tx = worker.begin().await.unwrap();
        sqlx::query("SELECT set_config('kl.workspace', $1, true)")
            .bind(&world.workspace)
            .execute(&mut *tx)
            .await
            .unwrap();
        let delete = match table {
            "states" => "DELETE FROM states",
            _ => "DELETE FROM state_versions",
        };
        let refused = sqlx::query(delete).execute(&mut *tx).await.unwrap_err();
        assert!(
            refused.to_string().contains("history is append-only"),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_by_page_and_not_from_elsewhere() {
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 1, 1)).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(world.ask_export("prod").await.id);
    }
    asked.reverse();
    let page: JobPage = read(
        world
            .request("GET", &world.place("/jobs?limit=2"))
            .send()
            .await
            .unwrap(),
    )
    .await;
    let rest = format!("/jobs?limit=2&cursor={}", page.next_cursor.unwrap());
    let rest: JobPage = read(
        world
            .request("GET", &world.place(&rest))
            .send()
            .await
            .unwrap(),
    )
    .await;
    let listed: Vec<_> = page
        .jobs
        .iter()
        .chain(&rest.jobs)
        .map(|job| job.id)
        .collect();
    assert_eq!(listed, asked);
    assert_eq!(rest.next_cursor, None);

    let path = format!("/v1/workspaces/{}/environments", world.workspace);
    let other: serde_json::Value = read(
        world
            .request("POST", &path)
            .json(&json!({ "name": "other" }))
            .send()
            .await
            .unwrap(),
    )
    .await;
    let path = format!("{path}/{}/jobs/{}", other["id"].as_str().unwrap(), asked[0]);
    refused(
        world.request("GET", &path).send().await.unwrap(),
        Code::NotFound,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_gives_back_what_it_is_at() {
    let mut world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 2_000, 1)).await;
    let job = world.ask_export("prod").await;
    let (_db, archives) = world.archives();
    let claimed = archives.claim(&quick()).await.unwrap().unwrap();
    let drained = CancellationToken::new();
    drained.cancel();
    let ending = archives.work(claimed, &quick(), &drained).await;
    assert!(matches!(ending, Ending::Again | Ending::Done), "{ending:?}");
    world.start_worker();
    assert_eq!(world.done(job.id).await.error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_its_askers_and_that_of_whoever_may_manage() {
    use protocol::Role;
    let world = World::without_worker(Backend::Folder).await;
    world.write("prod", document(1, 1, 1)).await;
    let (ann, bob) = (
        world.member(Role::Writer).await,
        world.member(Role::Writer).await,
    );
    let maintainer = world.member(Role::Maintainer).await;
    let send = async |token: &str, method: &str, path: &str, body: serde_json::Value| {
        let request = world.app.request(method, path).bearer_auth(token);
        request.json(&body).send().await.unwrap()
    };
    let export = world.ask_export("prod").await;
    let cancel = world.place(&format!("/jobs/{}/cancel", export.id));
    refused(
        send(&ann, "POST", &cancel, json!({})).await,
        Code::Forbidden,
    )
    .await;
    assert_eq!(world.job(export.id).await.status, JobStatus::Queued);
    let cancelled: Job = read(send(&maintainer, "POST", &cancel, json!({})).await).await;
    assert_eq!(cancelled.status, JobStatus::Cancelled);

    let wanted = World::import_request(b"x", "one");
    let job: Job = read(send(&ann, "POST", &world.place("/imports"), wanted).await).await;
    let at = |rest: &str| world.place(&format!("/imports/{}/{rest}", job.id));
    let cancel = world.place(&format!("/jobs/{}/cancel", job.id));
    for path in [&at("parts"), &at("complete"), &cancel] {
        refused(send(&bob, "POST", path, json!({})).await, Code::Forbidden).await;
    }
    for token in [&ann, &maintainer, &world.admin] {
        let upload: protocol::archives::ImportUpload =
            read(send(token, "POST", &at("parts"), json!({})).await).await;
        assert_eq!(upload.missing, 1);
        let complete = send(token, "POST", &at("complete"), json!({})).await;
        refused(complete, Code::UploadIncomplete).await;
    }
    // Whoever asked ends it, and everybody who sees jobs sees that.
    ok(send(&ann, "POST", &cancel, json!({})).await).await;
    let seen = world.place(&format!("/jobs/{}", job.id));
    let seen: Job = read(send(&bob, "GET", &seen, json!({})).await).await;
    assert!(seen.cancel_asked);
}
