//! What one replica is told counts on all of them within the promised time.

use std::time::{Duration, Instant};

use protocol::{Code, Role};
use reqwest::StatusCode;
use serde_json::json;

use crate::harness::{Expect as _, TestApp};

/// What is promised: five seconds.
const PROMISED: Duration = Duration::from_secs(5);

/// Waits until the second replica answers with this status: what is asked after the promised time must be answered so.
async fn until(app: &TestApp, token: &str, path: &str, status: StatusCode) {
    let started = Instant::now();
    loop {
        let asked = Instant::now();
        let request = app.request_to(1, "GET", path).bearer_auth(token);
        let found = request.send().await.unwrap().status();
        if found == status {
            return;
        }
        assert!(asked - started < PROMISED, "still {found}, not {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_revoked_token_stops_working_on_every_replica() {
    let app = TestApp::start_replicas(2).await;
    let workspace = app.workspace("acme").await;
    let member = workspace.member(Role::Viewer, None).await;
    let token = workspace.token_of(&member).await;
    let secret = token.secret.unwrap();
    for replica in [0, 1] {
        let request = app
            .request_to(replica, "GET", "/v1/whoami")
            .bearer_auth(&secret);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    }
    let path = format!("/tokens/{}", token.token.token_id);
    workspace.request("DELETE", &path).send().await.unwrap();
    // At once on the replica that was told.
    let request = app.request("GET", "/v1/whoami").bearer_auth(&secret);
    request
        .send()
        .await
        .unwrap()
        .refused(Code::Unauthenticated)
        .await;
    until(&app, &secret, "/v1/whoami", StatusCode::UNAUTHORIZED).await;
}

#[tokio::test]
async fn a_removed_grant_and_a_suspension_count_on_every_replica() {
    let app = TestApp::start_replicas(2).await;
    let workspace = app.workspace("acme").await;
    let member = workspace.member(Role::Viewer, None).await;
    let token = workspace.token_of(&member).await.secret.unwrap();
    let path = workspace.path("");
    until(&app, &token, &path, StatusCode::OK).await;
    let grants = format!("/members/{member}/grants");
    workspace.request("DELETE", &grants).send().await.unwrap();
    until(&app, &token, &path, StatusCode::NOT_FOUND).await;

    until(&app, &workspace.token, &path, StatusCode::OK).await;
    let suspend = app.request("PATCH", &path).bearer_auth(&app.operator);
    suspend
        .json(&json!({ "lifecycle": "suspended" }))
        .send()
        .await
        .unwrap();
    until(&app, &workspace.token, &path, StatusCode::FORBIDDEN).await;
    let refused = app
        .request("GET", "/v1/whoami")
        .bearer_auth(&workspace.token);
    refused
        .send()
        .await
        .unwrap()
        .refused(Code::WorkspaceSuspended)
        .await;
    let resume = app.request("PATCH", &path).bearer_auth(&app.operator);
    resume
        .json(&json!({ "lifecycle": "active" }))
        .send()
        .await
        .unwrap();
    // A refusal is never decided on a remembered verdict, so this needs no waiting.
    let request = app
        .request_to(1, "GET", &path)
        .bearer_auth(&workspace.token);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn what_one_replica_made_the_next_request_finds_on_another() {
    let app = TestApp::start_replicas(2).await;
    let workspace = app.workspace("acme").await;
    for n in 0..5 {
        // The second replica remembers a verdict that knows nothing of the environment yet.
        let request = app
            .request_to(1, "GET", "/v1/whoami")
            .bearer_auth(&workspace.token);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
        let environment = workspace.environment(&format!("e{n}")).await;
        let path = workspace.path(&format!("/environments/{environment}"));
        let request = app
            .request_to(1, "GET", &path)
            .bearer_auth(&workspace.token);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    }
}
