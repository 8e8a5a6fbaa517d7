//! The service itself: health, refusals of every route alike, panics, metrics, and an orderly end.

use std::time::Duration;

use auth::Action;
use axum::routing::{MethodRouter, any};
use kld::AppState;
use kld::serve::Drain;
use kld::table::Route;
use protocol::Code;
use reqwest::StatusCode;
use store::testing::TestDatabase;

use crate::harness::{Expect as _, Setup, TestApp, assert_closed_series};

/// How long a replica that is to stop says so before it stops taking connections: enough to be asked on a busy machine.
const NOTICE: Duration = Duration::from_secs(3);
/// How long the slow route takes: longer than the notice, so that its answer comes while nothing new is taken.
const SLOW: Duration = Duration::from_secs(5);

/// The service's routes and some that only misbehave.
fn table_with_traps() -> Vec<Route> {
    let method = |name: &[u8]| axum::http::Method::from_bytes(name).unwrap();
    let panics: MethodRouter<AppState> = any(async || -> &'static str {
        panic!("canary-in-a-panic");
    });
    let slow: MethodRouter<AppState> = any(async || {
        tokio::time::sleep(SLOW).await;
        "done"
    });
    let mut table = kld::routes::table();
    table.push(Route::api(
        "trap_panic",
        method(b"GET"),
        "/trap/panic",
        Action::ReadSelf,
        panics.clone(),
    ));
    table.push(Route::terraform(
        "trap_lock",
        method(b"LOCK"),
        "/trap/panic",
        Action::ReadSelf,
        panics,
    ));
    table.push(Route::public(
        "trap_slow",
        method(b"GET"),
        "/trap/slow",
        "a test",
        slow,
    ));
    table
}

async fn app_with_traps() -> TestApp {
    let setup = Setup {
        table: table_with_traps(),
        drain: Drain {
            notice: NOTICE,
            bound: Duration::from_secs(20),
        },
        ..Setup::default()
    };
    TestApp::start_with(TestDatabase::create().await, setup).await
}

#[tokio::test]
async fn every_answer_carries_the_common_headers() {
    let app = TestApp::start().await;
    for (method, path) in [
        ("GET", "/healthz"),
        ("GET", "/v1/whoami"),
        ("GET", "/nowhere"),
        ("PUT", "/healthz"),
    ] {
        let response = app.request(method, path).send().await.unwrap();
        let headers = response.headers();
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert!(
            headers.contains_key("x-request-id") && !headers.contains_key("server"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_and_near_states_never_a_404() {
    let app = TestApp::start().await;
    app.request("GET", "/nowhere")
        .send()
        .await
        .unwrap()
        .refused(Code::NotFound)
        .await;
    for path in ["/v1/states/", "/v1/states/a/b/c/d/e", "/v1/state-unlock/x"] {
        let response = app.request("GET", path).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        response.refused(Code::Forbidden).await;
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let app = app_with_traps().await;
    let response = app.request("PURGE", "/trap/panic").send().await.unwrap();
    assert_eq!(response.headers()["allow"], "GET, LOCK, HEAD");
    response.refused(Code::MethodNotAllowed).await;
}

#[tokio::test]
async fn a_panic_is_a_500_that_says_nothing() {
    let app = app_with_traps().await;
    for method in ["GET", "LOCK"] {
        let request = app
            .request(method, "/trap/panic")
            .bearer_auth(&app.operator);
        let problem = request.send().await.unwrap().refused(Code::Internal).await;
        assert!(!problem.to_string().contains("canary"), "{problem}");
    }
    assert!(app.metrics().await.contains("kl_http_panics_total"));
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let app = TestApp::start().await;
    let response = app.request("HEAD", "/healthz").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.text().await.unwrap(), "");
}

#[tokio::test]
async fn the_api_document_is_the_committed_one() {
    let app = TestApp::start().await;
    let served = app
        .request("GET", "/v1/openapi.json")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        served == committed,
        "docs/openapi.json is out of date: write it anew with `kld openapi > docs/openapi.json`"
    );
}

#[tokio::test]
async fn strange_requests_do_not_grow_the_metrics() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    for n in 0..400 {
        let path = match n % 4 {
            0 => format!("/v1/states/ws_{n:012x}/env_{n:012x}/name-{n}"),
            1 => format!("/random/{n}"),
            2 => format!("/v1/workspaces/ws_{n:012x}"),
            _ => format!("/v1/states/%ff%{n:02}/x/y"),
        };
        let method = ["GET", "LOCK", "UNLOCK", "FOO"][n % 3];
        let request = app.request(method, &path).bearer_auth(&workspace.token);
        let request = request.header("user-agent", format!("agent-{n}"));
        request
            .header("host", format!("host-{n}"))
            .send()
            .await
            .unwrap();
    }
    let text = app.metrics().await;
    assert_closed_series(&text);
    for leak in ["ws_", "env_", "name-", "random", "agent-", "host-", "klp_"] {
        assert!(!text.contains(leak), "{leak} in {text}");
    }
}

#[tokio::test]
async fn a_replica_drains_before_it_stops() {
    let app = app_with_traps().await;
    let replica = &app.replicas[0];
    let slow = tokio::spawn(app.request("GET", "/trap/slow").send());
    tokio::time::sleep(Duration::from_millis(100)).await;
    replica.shutdown.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    app.request("GET", "/readyz")
        .send()
        .await
        .unwrap()
        .refused(Code::Unavailable)
        .await;
    let health = app.request("GET", "/healthz").send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    let finished = slow.await.unwrap().unwrap();
    assert_eq!(finished.text().await.unwrap(), "done");
    let started = std::time::Instant::now();
    while !replica.stopped.is_finished() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the replica does not stop"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(app.request("GET", "/healthz").send().await.is_err());
}
