//! Workspaces, environments, members, tokens and the audit log, as their admins use them.

use protocol::tenancy::{
    AuditPage, CreatedToken, Environment, EnvironmentPage, MemberPage, WhoAmI,
};
use protocol::{Code, Role};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Expect as _, TestApp};

#[tokio::test]
async fn a_repeated_creation_makes_one_thing_and_shows_no_secret_twice() {
    let app = TestApp::start().await;
    let create = async |body: Value| {
        let request = app
            .request("POST", "/v1/workspaces")
            .bearer_auth(&app.operator);
        request
            .header("Idempotency-Key", "k1")
            .json(&body)
            .send()
            .await
            .unwrap()
    };
    let body = json!({ "name": "acme", "admin": "ann" });
    let mut first: Value = create(body.clone()).await.expect(StatusCode::CREATED).await;
    let secret = first["token"]["secret"].take();
    let second: Value = create(body).await.expect(StatusCode::CREATED).await;
    assert_eq!(first["workspace"], second["workspace"]);
    assert!(second["token"].get("secret").is_none());
    create(json!({ "name": "other", "admin": "ann" }))
        .await
        .refused(Code::IdempotencyMismatch)
        .await;

    let token = secret.as_str().unwrap();
    let workspace = first["workspace"]["id"].as_str().unwrap();
    for kind in [json!({ "name": "prod" }), json!({ "name": "Prod" })] {
        let request = app.request("POST", &format!("/v1/workspaces/{workspace}/environments"));
        let request = request
            .bearer_auth(token)
            .header("Idempotency-Key", "k1")
            .json(&kind);
        let response = request.send().await.unwrap();
        if kind["name"] == "prod" {
            let _: Environment = response.expect(StatusCode::CREATED).await;
        } else {
            response.refused(Code::IdempotencyMismatch).await;
        }
    }
}

#[tokio::test]
async fn simultaneous_repetitions_make_one_thing() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let create = || {
        let request = workspace.request("POST", "/environments");
        request
            .header("Idempotency-Key", "k")
            .json(&json!({ "name": "prod" }))
            .send()
    };
    let answers = futures::future::join_all((0..8).map(|_| create())).await;
    for answer in answers {
        let _: Environment = answer.unwrap().expect(StatusCode::CREATED).await;
    }
    let list = workspace
        .request("GET", "/environments")
        .send()
        .await
        .unwrap();
    let page: EnvironmentPage = list.expect(StatusCode::OK).await;
    assert_eq!(page.environments.len(), 1);
}

#[tokio::test]
async fn names_are_unique_without_regard_to_case() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    workspace.environment("Prod").await;
    let request = workspace
        .request("POST", "/environments")
        .json(&json!({ "name": "pROD" }));
    request.send().await.unwrap().refused(Code::NameTaken).await;
    let request = app
        .request("POST", "/v1/workspaces")
        .bearer_auth(&app.operator);
    let request = request.json(&json!({ "name": "ACME", "admin": "x" }));
    request.send().await.unwrap().refused(Code::NameTaken).await;
}

#[tokio::test]
async fn ill_formed_requests_are_refused_with_what_is_wrong() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    for (path, body, code) in [
        ("/environments", json!({ "name": "a/b" }), Code::InvalidName),
        ("/environments", json!({}), Code::InvalidJson),
        (
            "/environments",
            json!({ "name": "a", "surprise": 1 }),
            Code::InvalidJson,
        ),
        (
            "/environments",
            json!({ "name": "a", "terraform_lock_ttl_seconds": 1 }),
            Code::InvalidRequest,
        ),
        (
            "/members",
            json!({ "kind": "person", "display": "a\nb", "role": "viewer" }),
            Code::InvalidRequest,
        ),
        (
            "/members",
            json!({ "kind": "person", "display": "a", "role": "root" }),
            Code::InvalidJson,
        ),
        (
            "/members",
            json!({ "kind": "person", "display": "a", "role": "viewer", "environment": "env_000000000000" }),
            Code::InvalidRequest,
        ),
        (
            "/tokens",
            json!({ "principal": workspace.admin, "expires_in_days": 366 }),
            Code::InvalidRequest,
        ),
        (
            "/tokens",
            json!({ "principal": "pr_000000000000" }),
            Code::NotFound,
        ),
    ] {
        let response = workspace
            .request("POST", path)
            .json(&body)
            .send()
            .await
            .unwrap();
        response.refused(code).await;
    }
    for query in ["limit=x", "limit=1&limit=2", "page=2"] {
        let path = format!("/environments?{query}");
        let response = workspace.request("GET", &path).send().await.unwrap();
        response.refused(Code::InvalidRequest).await;
    }
    let text = workspace
        .request("POST", "/environments")
        .body("{}")
        .send()
        .await
        .unwrap();
    text.refused(Code::UnsupportedMediaType).await;
    let large = json!({ "name": "x".repeat(1024 * 1024) });
    let large = workspace
        .request("POST", "/environments")
        .json(&large)
        .send()
        .await
        .unwrap();
    large.refused(Code::BodyTooLarge).await;
    let deep = workspace
        .request("POST", "/environments")
        .header("content-type", "application/json");
    deep.body(format!("{{\"name\":{}}}", "[".repeat(200)))
        .send()
        .await
        .unwrap()
        .refused(Code::InvalidJson)
        .await;
}

#[tokio::test]
async fn an_environments_settings_change_one_by_one() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let path = format!("/environments/{}", workspace.environment("prod").await);
    let change = async |body: Value| -> Environment {
        let request = workspace.request("PATCH", &path).json(&body);
        request.send().await.unwrap().expect(StatusCode::OK).await
    };
    let changed = change(json!({ "terraform_lock_ttl_seconds": 60 })).await;
    assert_eq!(
        (changed.require_locks, changed.terraform_lock_ttl_seconds),
        (false, Some(60))
    );
    let changed = change(json!({ "require_locks": true })).await;
    assert_eq!(
        (changed.require_locks, changed.terraform_lock_ttl_seconds),
        (true, Some(60))
    );
    let changed = change(json!({ "terraform_lock_ttl_seconds": null })).await;
    assert_eq!(
        (changed.require_locks, changed.terraform_lock_ttl_seconds),
        (true, None)
    );
}

#[tokio::test]
async fn a_list_shows_only_the_environments_one_has_a_role_in() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let prod = workspace.environment("prod").await;
    workspace.environment("test").await;
    let token = workspace.token(Role::Viewer, Some(&prod)).await;
    let request = app
        .request("GET", &workspace.path("/environments"))
        .bearer_auth(&token);
    let page: EnvironmentPage = request.send().await.unwrap().expect(StatusCode::OK).await;
    assert_eq!(
        page.environments.iter().map(|e| &e.id).collect::<Vec<_>>(),
        [&prod]
    );
}

#[tokio::test]
async fn lists_come_in_pages_without_gap_or_repetition() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    for n in 0..5 {
        workspace.environment(&format!("e{n}")).await;
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/environments?limit=2{cursor}");
        let response = workspace.request("GET", &path).send().await.unwrap();
        let page: EnvironmentPage = response.expect(StatusCode::OK).await;
        assert!(page.environments.len() <= 2);
        seen.extend(
            page.environments
                .into_iter()
                .map(|environment| environment.id),
        );
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let sorted: std::collections::BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!((seen.len(), sorted.len()), (5, 5));
}

#[tokio::test]
async fn a_workspace_always_keeps_an_admin() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let path = format!("/members/{}/grants", workspace.admin);
    let response = workspace.request("DELETE", &path).send().await.unwrap();
    response.refused(Code::Conflict).await;

    let second = workspace.member(Role::Admin, None).await;
    let response = workspace.request("DELETE", &path).send().await.unwrap();
    let _: Value = response.expect(StatusCode::OK).await;
    // The first admin has just given up its own rights.
    let list = workspace.request("GET", "/members").send().await.unwrap();
    list.refused(Code::NotFound).await;
    drop(second);
}

#[tokio::test]
async fn grants_are_replaced_as_a_whole() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let prod = workspace.environment("prod").await;
    let member = workspace.member(Role::Viewer, None).await;
    let grants = json!({ "grants": [
        { "role": "auditor" },
        { "role": "writer", "environment": prod },
        { "role": "writer", "environment": prod },
    ] });
    let request = workspace
        .request("PUT", &format!("/members/{member}/grants"))
        .json(&grants);
    let changed: Value = request.send().await.unwrap().expect(StatusCode::OK).await;
    assert_eq!(changed["grants"].as_array().unwrap().len(), 2, "{changed}");
    let list = workspace.request("GET", "/members").send().await.unwrap();
    let page: MemberPage = list.expect(StatusCode::OK).await;
    assert_eq!(page.members.len(), 2);
}

#[tokio::test]
async fn a_found_token_can_be_revoked_with_nothing_but_itself() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let token = workspace.token(Role::Writer, None).await;
    let revoke = async |token: &str| {
        let request = app
            .request("POST", "/v1/tokens/revoke")
            .json(&json!({ "token": token }));
        request.send().await.unwrap()
    };
    let other = auth::Token::generate(auth::TokenKind::Person, &mut rand::rng());
    for harmless in ["rubbish", other.expose()] {
        assert_eq!(revoke(harmless).await.status(), StatusCode::NO_CONTENT);
    }
    let login = || app.request("GET", "/v1/whoami").bearer_auth(&token).send();
    let _: WhoAmI = login().await.unwrap().expect(StatusCode::OK).await;
    assert_eq!(revoke(&token).await.status(), StatusCode::NO_CONTENT);
    login().await.unwrap().refused(Code::Unauthenticated).await;
    assert_eq!(revoke(&token).await.status(), StatusCode::NO_CONTENT);

    assert_eq!(revoke(&app.operator).await.status(), StatusCode::NO_CONTENT);
    let request = app
        .request("GET", "/v1/workspaces")
        .bearer_auth(&app.operator);
    request
        .send()
        .await
        .unwrap()
        .refused(Code::Unauthenticated)
        .await;
}

#[tokio::test]
async fn a_scoped_token_does_less_than_its_member() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let prod = workspace.environment("prod").await;
    let scope =
        json!({ "principal": workspace.admin, "scope": { "role": "viewer", "environment": prod } });
    let request = workspace.request("POST", "/tokens").json(&scope);
    let created: CreatedToken = request
        .send()
        .await
        .unwrap()
        .expect(StatusCode::CREATED)
        .await;
    let token = created.secret.unwrap();
    let path = workspace.path(&format!("/environments/{prod}"));
    let read = app
        .request("GET", &path)
        .bearer_auth(&token)
        .send()
        .await
        .unwrap();
    let _: Environment = read.expect(StatusCode::OK).await;
    let change = app
        .request("PATCH", &path)
        .bearer_auth(&token)
        .json(&json!({}));
    change.send().await.unwrap().refused(Code::Forbidden).await;
    let members = app
        .request("GET", &workspace.path("/members"))
        .bearer_auth(&token);
    members.send().await.unwrap().refused(Code::Forbidden).await;
}

#[tokio::test]
async fn every_change_is_in_the_audit_log_and_no_secret_is() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let prod = workspace.environment("prod").await;
    workspace
        .request("PATCH", &format!("/environments/{prod}"))
        .json(&json!({ "require_locks": true }))
        .send()
        .await
        .unwrap();
    let member = workspace.member(Role::Viewer, Some(&prod)).await;
    let token = workspace.token_of(&member).await;
    workspace
        .request("DELETE", &format!("/members/{member}/grants"))
        .send()
        .await
        .unwrap();
    let path = format!("/tokens/{}", token.token.token_id);
    workspace.request("DELETE", &path).send().await.unwrap();

    let response = workspace.request("GET", "/audit").send().await.unwrap();
    let page: AuditPage = response.expect(StatusCode::OK).await;
    let actions: Vec<&str> = page
        .entries
        .iter()
        .map(|entry| entry.action.as_str())
        .collect();
    assert_eq!(
        actions,
        [
            "token.revoke",
            "grants.replace",
            "token.create",
            "member.create",
            "environment.update",
            "environment.create",
            "workspace.create"
        ]
    );
    assert!(
        page.entries
            .iter()
            .all(|entry| entry.request_id.starts_with("req_"))
    );
    let text = serde_json::to_string(&page).unwrap();
    assert!(!text.contains(&token.secret.unwrap()[16..]));
}

#[tokio::test]
async fn last_use_is_written_in_batches() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let request = workspace.request("GET", "").header("user-agent", "probe/1");
    request.send().await.unwrap();
    let replica = &app.replicas[0].app;
    replica.token_uses.write(&replica.db).await;
    let response = workspace.request("GET", "/tokens").send().await.unwrap();
    let page: Value = response.expect(StatusCode::OK).await;
    assert_eq!(page["tokens"][0]["last_used_agent"], "probe/1");
    assert_eq!(page["tokens"][0]["last_used_network"], "127.0.0.0/24");
}
