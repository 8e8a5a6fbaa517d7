//! Two workspaces with marked values: nothing of one ever shows in the answers to the other.
//!
//! The requests are made from the route table, so a new route takes part as soon as it has a row. `KL_TWIN_REQUESTS` sets
//! how many there are; a release runs a hundred thousand.

use protocol::Role;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use crate::harness::{TestApp, TestWorkspace};

/// One of the two, with everything about it that could show elsewhere.
struct Twin<'a> {
    workspace: TestWorkspace<'a>,
    tokens: Vec<String>,
    environments: Vec<String>,
    principals: Vec<String>,
    marker: &'static str,
}

async fn twin<'a>(app: &'a TestApp, marker: &'static str) -> Twin<'a> {
    let workspace = app.workspace(marker).await;
    let environment = workspace.environment(marker).await;
    let mut tokens = vec![workspace.token.clone()];
    let mut principals = vec![workspace.admin.to_string()];
    for role in Role::ALL {
        for place in [None, Some(&environment)] {
            let principal = workspace.member(role, place).await;
            tokens.push(workspace.token_of(&principal).await.secret.unwrap());
            principals.push(principal.to_string());
        }
    }
    let environments = vec![environment.to_string()];
    Twin {
        workspace,
        tokens,
        environments,
        principals,
        marker,
    }
}

#[tokio::test]
async fn nothing_of_one_workspace_shows_in_another() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let requests: u32 = match std::env::var("KL_TWIN_REQUESTS") {
        Ok(text) => text.parse().expect("KL_TWIN_REQUESTS is a number"),
        Err(_) => 1000,
    };
    let app = TestApp::start().await;
    let twins = [
        twin(&app, "marker-one").await,
        twin(&app, "marker-two").await,
    ];
    let table = kld::routes::table();
    for _ in 0..requests {
        let (own, other) = if rng.random() { (0, 1) } else { (1, 0) };
        let (caller, target) = (&twins[own], &twins[if rng.random() { own } else { other }]);
        let route = table.choose(&mut rng).unwrap();
        // The members' own grants stay, or the rest of the run would see nothing at all.
        if route.name.ends_with("_grants") || route.name.ends_with("revoke_token") {
            continue;
        }
        let path = route
            .path
            .replace("{ws}", target.workspace.id.as_str())
            .replace("{env}", target.environments.choose(&mut rng).unwrap())
            .replace("{principal}", target.principals.choose(&mut rng).unwrap())
            .replace("{name}", target.marker);
        let token = caller.tokens.choose(&mut rng).unwrap();
        let request = app.request(route.method.as_str(), &path).bearer_auth(token);
        // A body that some of the routes accept: members and environments are made while others look.
        let body = json!({
            "name": format!("{}-{}", caller.marker, rng.random_range(0..1_000_000)),
        });
        let response = request.json(&body).send().await.unwrap();
        let headers = format!("{:?}", response.headers());
        let answer = headers + &response.text().await.unwrap();
        let foreign = &twins[other];
        assert!(
            !answer.contains(foreign.marker),
            "{} {path}: {answer}",
            route.method
        );
        for id in foreign.principals.iter().chain(&foreign.environments) {
            assert!(
                !answer.contains(id.as_str()),
                "{} {path}: {answer}",
                route.method
            );
        }
    }
}
