//! Beginning a run: what it reserves, who is excluded by it, and what it shows.

use protocol::{Code, Role};
use serde_json::{Value, json};

use super::stage::{Native, address, alone, refused, scope, value_of, with_state};
use crate::lane::documents::Doc;
use crate::lane::stage::{Reply, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_shows_its_slice_and_nothing_else() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let run = ann
        .apply("prod", scope(&["a"], &[("a", &["b"]), ("b", &[])]))
        .await;
    let slice = run.read().await.ok().json();
    let names: Vec<_> = slice["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        slice["lineage"],
        ann.read("prod").await.ok().json()["lineage"]
    );
    assert_eq!(run.run.base_seq, 1);
    let reservation = run.run.reservation.as_ref().unwrap();
    let claims: Vec<_> = reservation
        .claims
        .iter()
        .map(|claim| (claim.address.clone(), claim.mode))
        .collect();
    assert_eq!(claims.len(), 2, "{claims:?}");
    assert!(reservation.token > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_the_same_run() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let ask = json!({ "key": "once", "scope": alone(&["a"]) });
    let first = Native::of(&ann, ann.ask_with("prod", ask.clone()).await);
    let again = Native::of(&ann, ann.ask_with("prod", ask).await);
    assert_eq!(first.run.id, again.run.id);
    assert_eq!(first.fencing_token(), again.fencing_token());
    again.read().await.ok();
    assert_eq!(
        stage
            .count("SELECT count(*) FROM reservations WHERE lane = 'native'")
            .await,
        1
    );
}

/// The mixed-mode matrix, row by row.
#[tokio::test(flavor = "multi_thread")]
async fn a_native_run_with_write_claims_excludes_what_the_matrix_says() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b", "c"]).await;
    let before = ann.read("prod").await.ok().body;
    let run = ann
        .apply("prod", scope(&["a"], &[("a", &["b"]), ("b", &[])]))
        .await;
    // Committed state is read by either lane.
    assert_eq!(bob.read("prod").await.ok().body, before);
    bob.plan("prod", alone(&["a"])).await.read().await.ok();
    // Disjoint, and read over read, live side by side.
    let disjoint = bob.apply("prod", alone(&["c"])).await;
    disjoint.finish("succeeded").await.ok();
    let reader = bob
        .apply("prod", scope(&["c"], &[("c", &["b"]), ("b", &[])]))
        .await;
    reader.finish("succeeded").await.ok();
    // Overlap with a write waits: on a write claim, and over a read one.
    for busy in [
        alone(&["a"]),
        alone(&["b"]),
        scope(&["c"], &[("c", &["a"]), ("a", &[])]),
        json!({ "write": ["*"] }),
    ] {
        let reply = bob.ask("prod", "apply", busy).await;
        if reply.status == 422 {
            continue;
        }
        let problem = refused(reply, Code::ReservationConflict);
        let conflict = &problem["conflicts"][0];
        assert_eq!(conflict["run"], json!(run.run.id));
        assert_eq!(conflict["who"], "ann@laptop");
        assert_eq!(conflict["command"], "kl apply -f x");
    }
    // Plain Terraform waits, and is told for whom.
    let locked = bob.lock("prod", "bob").await.refused(Code::StateLocked);
    let id = locked["ID"].as_str().unwrap();
    assert_eq!(id, format!("{} kl apply -f x by ann@laptop", run.run.id));
    assert!(chrono::DateTime::parse_from_rfc3339(locked["Created"].as_str().unwrap()).is_ok());
    assert_eq!(bob.write("prod", Doc::new(9).bytes()).await.status, 409);
    assert_eq!(bob.read("prod").await.ok().body, before);
    // An empty UNLOCK breaks the Terraform lock only, and there is none: nobody is to think that it broke this run.
    let boss = stage.client(Role::Maintainer).await;
    boss.force_unlock("prod").await.refused(Code::StateLocked);
    run.renew().await.ok();
    run.finish("succeeded").await.ok();
    bob.lock("prod", "bob").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_state_locks_exclude_every_run() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    let boss = stage.client(Role::Maintainer).await;
    with_state(&ann, "prod", &["a", "b"]).await;
    ann.lock("prod", "ann").await.ok();
    let problem = refused(
        bob.ask("prod", "apply", alone(&["a"])).await,
        Code::ReservationConflict,
    );
    assert_eq!(problem["conflicts"][0]["who"], "ann@ci");
    // Plans take nothing, and read what is committed.
    bob.plan("prod", alone(&["a"])).await.read().await.ok();
    ann.unlock("prod", "ann").await.ok();
    boss.send_json("POST", "prod/admin-lock", json!({ "message": "stop" }))
        .await
        .ok();
    refused(
        bob.ask("prod", "apply", alone(&["a"])).await,
        Code::ReservationConflict,
    );
    boss.send("DELETE", "prod/admin-lock").await.ok();
    bob.apply("prod", alone(&["a"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_both_lanes_and_a_waiting_request_gets_its_turn() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    let first = ann.apply("prod", alone(&["a"])).await;
    let (second, _) = tokio::join!(
        bob.ask_with(
            "prod",
            json!({ "scope": alone(&["a"]), "wait_seconds": 20 })
        ),
        async { first.finish("succeeded").await.ok() }
    );
    let second = Native::of(&bob, second);
    assert!(second.fencing_token() > first.fencing_token());
    second.finish("succeeded").await.ok();
    ann.lock("prod", "x").await.ok();
    ann.unlock("prod", "x").await.ok();
    let third = ann.apply("prod", alone(&["a"])).await;
    assert!(third.fencing_token() > second.fencing_token() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_cannot_be_proven_is_refused_with_its_contract() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let problem = refused(
        ann.ask("prod", "apply", json!({ "write": [address("a")] }))
            .await,
        Code::ScopeUnsafe,
    );
    assert_eq!(problem["contract"]["confidence"], "unsafe");
    assert_eq!(
        stage
            .count("SELECT count(*) FROM reservations WHERE lane = 'native'")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_kept_whole_takes_no_run() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked(
        "prod",
        crate::lane::documents::case("encrypted-envelope.json"),
    )
    .await;
    refused(
        ann.ask("prod", "apply", alone(&["a"])).await,
        Code::NativeUnsupported,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_run_reaches_that_run_and_ends_with_it() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let (one, other) = (
        ann.apply("prod", alone(&["a"])).await,
        ann.apply("prod", alone(&["b"])).await,
    );
    for (method, path) in [
        ("GET", other.path("/state")),
        ("GET", ann.path("prod")),
        ("GET", "/v1/whoami".to_owned()),
        ("POST", one.path("/renew")),
        ("GET", one.path("")),
    ] {
        let request = stage
            .app
            .request(method, &path)
            .basic_auth("x", Some(&one.token));
        let reply = Reply::of(request.json(&json!({ "token": 1 }))).await;
        assert!(matches!(reply.status, 403 | 404), "{path}: {reply:?}");
    }
    one.read().await.ok();
    one.finish("succeeded").await.ok();
    // Until the replica has forgotten that the token worked, the run itself says that it is over.
    assert!(matches!(one.read().await.status, 401 | 409));
    let bob = stage.writer().await;
    let theirs = stage
        .app
        .request("POST", &other.path("/renew"))
        .bearer_auth(&bob.token);
    Reply::of(theirs.json(&json!({ "token": other.fencing_token() })))
        .await
        .refused(Code::Forbidden);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_came_with_another_request_is_refused() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let ask = async |write: &str, more: Value| {
        let mut members = json!({ "scope": alone(&[write]), "key": "k" });
        for (key, value) in more.as_object().unwrap() {
            members[key] = value.clone();
        }
        ann.ask_with("prod", members).await
    };
    let first = Native::of(&ann, ask("a", json!({})).await);
    // How long it is waited for is no part of what is asked for.
    let again = Native::of(
        &ann,
        ask("a", json!({ "wait_seconds": 5, "ticket": "t" })).await,
    );
    assert_eq!(again.run.id, first.run.id);
    refused(ask("b", json!({})).await, Code::IdempotencyMismatch);
    for other in [
        json!({ "kind": "plan" }),
        json!({ "command": "kl apply -f y" }),
        json!({ "who": "bob@ci" }),
        json!({ "lease_seconds": 30 }),
    ] {
        refused(ask("a", other).await, Code::IdempotencyMismatch);
    }
    // Nor is it the key of something else.
    let remove = json!({
        "state": ann.full_name("prod"), "address": "terraform_data.b", "key": "k",
    });
    let reply = ann
        .post("/v1/state-engine/resource-remove/apply", remove)
        .await;
    refused(reply, Code::IdempotencyMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_done_once_for_a_key_and_a_run_of_the_state_engine_begun_once() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let remove = async |address: &str| {
        let body = json!({ "state": ann.full_name("prod"), "address": address, "key": "rm" });
        ann.post("/v1/state-engine/resource-remove/apply", body)
            .await
    };
    let first = remove("terraform_data.a").await.ok().json();
    let again = remove("terraform_data.a").await.ok().json();
    assert_eq!(first["run"], again["run"]);
    refused(remove("terraform_data.b").await, Code::IdempotencyMismatch);
    assert_eq!(value_of(&ann, "prod", "b").await.as_deref(), Some("start"));

    let begin = async |members: Value, header: Option<&str>| {
        let mut body = json!({ "state": ann.full_name("prod"), "actor": "ann@laptop" });
        for (key, value) in members.as_object().unwrap() {
            body[key] = value.clone();
        }
        let path = "/v1/state-engine/apply-runs/begin";
        let mut request = stage
            .app
            .request("POST", path)
            .bearer_auth(&ann.token)
            .json(&body);
        if let Some(key) = header {
            request = request.header("idempotency-key", key);
        }
        crate::lane::stage::Reply::of(request).await
    };
    let id = |reply: crate::lane::stage::Reply| reply.ok().json()["id"].clone();
    let first = id(begin(json!({ "key": "run" }), None).await);
    assert_eq!(id(begin(json!({ "key": "run" }), None).await), first);
    let other = begin(json!({ "key": "run", "info": { "x": 1 } }), None).await;
    refused(other, Code::IdempotencyMismatch);
    let headed = id(begin(json!({}), Some("headed")).await);
    assert_eq!(id(begin(json!({}), Some("headed")).await), headed);
    assert_ne!(headed, first);
    assert_ne!(id(begin(json!({}), None).await), headed);
    let two = begin(json!({ "key": "run" }), Some("headed")).await;
    refused(two, Code::InvalidRequest);
}
