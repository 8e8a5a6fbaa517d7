//! Tokens and addresses on the lane: no address opens anything by itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::{Code, Role};
use serde_json::{Value, json};

use super::documents::Doc;
use super::stage::{Reply, Stage};

/// Every text in a value that reads like an address.
fn addresses(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("/v1") || text.contains("://") => {
            found.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| addresses(item, found)),
        Value::Object(members) => members.values().for_each(|item| addresses(item, found)),
        _ => {}
    }
}

/// S25.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_hands_out_an_address_that_opens_without_a_login() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    boss.write_locked("prod", Doc::new(1).bytes()).await;
    boss.write_locked("prod", Doc::new(2).bytes()).await;
    boss.lock("prod", "held").await.ok();
    let mut replies = vec![
        boss.write("prod", Doc::new(3).bytes()).await,
        boss.lock("prod", "other").await,
        boss.read("absent").await,
        boss.roll_back("prod", 1).await,
    ];
    for rest in [
        "status",
        "versions",
        "versions/1",
        "resources",
        "resource?address=terraform_data.a",
        "outputs",
    ] {
        replies.push(boss.read(&format!("prod/{rest}")).await);
    }
    let mut found = Vec::new();
    for reply in &replies {
        addresses(&reply.json(), &mut found);
        for name in ["location", "link", "content-location"] {
            found.extend(reply.header(name).map(str::to_owned));
        }
    }
    for address in found {
        let path = address.split("://").last().unwrap();
        let path = path.find('/').map_or("/", |start| &path[start..]);
        let reply = Reply::of(stage.app.request("GET", path)).await;
        assert!(
            reply.status == 401 || !path.contains("/states/"),
            "{address}: {reply:?}"
        );
    }
    // What the service has to offer, without a login.
    for rest in [
        "",
        "/status",
        "/versions",
        "/versions/1/document",
        "/resources",
        "/outputs",
    ] {
        let reply = Reply::of(stage.app.request("GET", &boss.path(&format!("prod{rest}")))).await;
        let challenges: Vec<_> = reply.headers.get_all("www-authenticate").iter().collect();
        assert!(challenges.len() >= 2, "{reply:?}");
        reply.refused(Code::Unauthenticated);
    }
}

/// S27 on the lane.
#[tokio::test(flavor = "multi_thread")]
async fn awkward_logins_are_401_or_431_and_nothing_of_them_comes_back() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let path = ann.path("prod");
    let get = |header: String| {
        Reply::of(
            stage
                .app
                .request("GET", &path)
                .header("authorization", header),
        )
    };
    let basic = |user: &str, password: &str| {
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    };
    let user = "first.last+ci@ex.org";
    for header in [
        basic(user, &ann.token),
        basic("", &ann.token),
        basic(&ann.token, ""),
        format!("bearer  {}", ann.token),
    ] {
        get(header).await.ok();
    }
    let secret = "p%25:a#b~c é€ \"q\"";
    for header in [
        basic(user, secret),
        "Basic !!".to_owned(),
        "Bearer".to_owned(),
        format!("Bearer {}", "x".repeat(64 * 1024)),
        basic(user, &"x".repeat(64 * 1024)),
    ] {
        let reply = get(header).await;
        assert!(matches!(reply.status, 401 | 431), "{reply:?}");
        let text = format!(
            "{:?}{}",
            reply.headers,
            String::from_utf8_lossy(&reply.body)
        );
        assert!(!text.contains("p%25") && !text.contains("xxxx"), "{text}");
    }
    // In the address it ends up in logs, so it is refused even beside a valid login.
    let reply = ann.read(&format!("prod?token={}", ann.token)).await;
    reply.refused(Code::TokenInQuery);
}

/// S28.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_during_an_apply_costs_two_commands() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked("prod", Doc::new(1).bytes()).await;
    ann.lock("prod", "apply").await.ok();
    sqlx::query("UPDATE credentials SET created_at = created_at - interval '2 days', expires_at = clock_timestamp() - interval '1 second' WHERE token_id = $1")
        .bind(&ann.token_id)
        .execute(stage.app.database.owner())
        .await
        .unwrap();
    // A verdict is believed for three seconds.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let asked = tokio::time::Instant::now();
        if ann.read("prod").await.status == 401 {
            break;
        }
        assert!(asked < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let made = Doc::new(2).with("c", "made").bytes();
    ann.write_under("prod", "apply", made.clone())
        .await
        .refused(Code::Unauthenticated);
    ann.unlock("prod", "apply")
        .await
        .refused(Code::Unauthenticated);

    // A fresh token of the same principal: force-unlock, then `state push errored.tfstate`.
    let request = stage
        .admin_request("POST", "/tokens")
        .json(&json!({ "principal": ann.principal }));
    let token = Reply::of(request).await.ok().json()["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let fresh = super::stage::Client {
        token,
        ..ann.clone()
    };
    let status = fresh.status("prod").await;
    assert_eq!(
        (status.holders[0].lock_id.as_str(), status.version_count),
        ("apply", 1)
    );
    fresh.force_unlock("prod").await.ok();
    fresh.write_locked("prod", made.clone()).await;
    assert!(fresh.read("prod").await.ok().body == made);
}
