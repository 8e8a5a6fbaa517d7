//! The database away, slow or too old: never an answer that looks like "there is nothing".

use std::time::{Duration, Instant};

use protocol::{Code, Role};
use reqwest::StatusCode;
use sqlx::Executor as _;
use store::testing::{TestDatabase, Wire};

use crate::harness::{Expect as _, Setup, TestApp};

#[tokio::test]
async fn without_the_database_answers_are_503_and_health_stays() {
    let wire = Wire::start().await;
    let setup = Setup {
        database_address: Some(wire.address),
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    };
    let app = TestApp::start_with(TestDatabase::create().await, setup).await;
    let workspace = app.workspace("acme").await;
    workspace.environment("prod").await;

    wire.cut();
    let started = Instant::now();
    for path in [workspace.path("/environments"), workspace.path("/members")] {
        let response = app
            .request("GET", &path)
            .bearer_auth(&workspace.token)
            .send()
            .await
            .unwrap();
        assert_eq!(response.headers()["retry-after"], "2");
        response.refused(Code::Unavailable).await;
    }
    let health = app.request("GET", "/healthz").send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    app.request("GET", "/readyz")
        .send()
        .await
        .unwrap()
        .refused(Code::Unavailable)
        .await;
    assert!(app.metrics().await.contains("kl_store_connections"));
    // Three requests, each within the acquire timeout of a second and what a refusal costs.
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );

    wire.mend();
    let response = workspace
        .request("GET", "/environments")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let ready = app.request("GET", "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
}

#[tokio::test]
async fn connections_that_died_while_idle_cost_no_request() {
    let wire = Wire::start().await;
    let setup = Setup {
        database_address: Some(wire.address),
        ..Setup::default()
    };
    let app = TestApp::start_with(TestDatabase::create().await, setup).await;
    let workspace = app.workspace("acme").await;
    for round in 0..3 {
        let requests = (0..10).map(|_| workspace.request("GET", "/environments").send());
        for response in futures::future::join_all(requests).await {
            assert_eq!(response.unwrap().status(), StatusCode::OK, "round {round}");
        }
        wire.cut();
        // Only the last state of a wire is seen: it has to last until the connections have broken.
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.mend();
    }
}

#[tokio::test]
async fn a_pool_that_is_busy_gives_503_in_time_and_recovers() {
    let setup = Setup {
        pool: 2,
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    };
    let app = TestApp::start_with(TestDatabase::create().await, setup).await;
    let workspace = app.workspace("acme").await;
    let mut blocker = app.database.owner().begin().await.unwrap();
    blocker
        .execute("LOCK TABLE environments IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let started = Instant::now();
    let requests = (0..20).map(|_| workspace.request("GET", "/environments").send());
    for response in futures::future::join_all(requests).await {
        response.unwrap().refused(Code::Unavailable).await;
    }
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    let health = app.request("GET", "/healthz").send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    blocker.rollback().await.unwrap();
    let response = workspace
        .request("GET", "/environments")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn clients_that_go_away_leave_no_connection_behind() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let requests = (0..300).map(|n| {
        let request = workspace.request("GET", "/environments");
        request.timeout(Duration::from_millis(1 + n % 20)).send()
    });
    futures::future::join_all(requests).await;
    for _ in 0..20 {
        let response = workspace
            .request("GET", "/environments")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    let (open, idle) = app.replicas[0].app.db.connections();
    assert!(open <= 5 && idle >= 1, "{idle} of {open} are idle");
}

#[tokio::test]
async fn a_schema_that_is_too_old_is_said_with_the_version_wanted() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    workspace.token(Role::Viewer, None).await;
    app.database
        .owner()
        .execute("DELETE FROM _sqlx_migrations WHERE version > 20261129120000")
        .await
        .unwrap();
    let response = app.request("GET", "/readyz").send().await.unwrap();
    let problem = response.refused(Code::SchemaMismatch).await;
    assert_eq!(problem["schema_wanted"], store::schema::wanted_version());
    assert_eq!(problem["schema_found"], 20_261_129_120_000_i64);
}
