//! Two workspaces with marked values: nothing of one ever shows in the answers to the other.
//!
//! The requests are made from the route table, so a new route takes part as soon as it has a row. A part of them is given
//! up half-way. `KL_TWIN_REQUESTS` sets how many there are; a release runs a hundred thousand.

use std::time::Duration;

use kld::table::{Access, Route, Scope};
use protocol::{Role, WorkspaceId};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use crate::harness::{TestApp, TestWorkspace};

/// One of the two, with everything about it that could show elsewhere.
struct Twin<'a> {
    workspace: TestWorkspace<'a>,
    tokens: Vec<String>,
    environment: String,
    principals: Vec<String>,
    marker: &'static str,
}

impl<'a> Twin<'a> {
    async fn make(app: &'a TestApp, marker: &'static str) -> Self {
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
        let environment = environment.to_string();
        let twin = Self {
            workspace,
            tokens,
            environment,
            principals,
            marker,
        };
        let written = app
            .request("POST", &twin.address("/v1/states/{ws}/{env}/{name}"))
            .bearer_auth(&twin.workspace.token)
            .json(&twin.document(1))
            .send();
        assert!(written.await.unwrap().status().is_success());
        twin
    }

    /// A route's address with what belongs to this workspace.
    fn address(&self, path: &str) -> String {
        let state = format!("{}-state", self.marker);
        path.replace("{ws}", self.workspace.id.as_str())
            .replace("{env}", &self.environment)
            .replace("{name}", &state)
    }

    /// A state document in which everything is marked.
    fn document(&self, serial: u32) -> Value {
        let marker = self.marker;
        json!({
            "version": 4,
            "terraform_version": "1.11.4",
            "serial": serial,
            "lineage": format!("lineage-{marker}"),
            "outputs": { format!("output-{marker}"): { "value": format!("value-{marker}"), "type": "string" } },
            "resources": [{
                "mode": "managed",
                "type": "terraform_data",
                "name": marker,
                "provider": "provider[\"terraform.io/builtin/terraform\"]",
                "instances": [{
                    "schema_version": 0,
                    "attributes": { "id": format!("id-{marker}"), "input": serial },
                    "sensitive_attributes": [],
                }],
            }],
            "check_results": null,
        })
    }

    /// A body for a route that some of the time is a good one.
    fn body(&self, route: &Route, rng: &mut StdRng) -> Value {
        let marker = self.marker;
        if route.name.contains("lock") {
            return json!({
                "ID": format!("{marker}-{}", rng.random_range(0..3)),
                "Operation": "OperationTypeApply",
                "Who": format!("{marker}@host"),
                "Created": "2026-01-01T00:00:00Z",
                "message": marker,
            });
        }
        match route.name {
            "write_state" | "import_state" => self.document(rng.random_range(1..10_000)),
            "roll_back_state" => json!({ "to": "1" }),
            // Members' grants stay, or the rest of the run would see nothing at all.
            "replace_grants" => json!({ "grants": [{ "role": "nothing" }] }),
            "update_environment" | "undelete_state" => json!({}),
            "create_member" => json!({ "kind": "person", "display": marker, "role": "viewer" }),
            "create_token" => json!({ "principal": self.principals.choose(rng).unwrap() }),
            _ => json!({ "name": format!("{marker}-{}", rng.random_range(0..1_000_000)) }),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
        Twin::make(&app, "marker-one").await,
        Twin::make(&app, "marker-two").await,
    ];
    let mut table = kld::routes::table();
    // These would take the callers out of the run.
    table.retain(|route| !matches!(route.name, "delete_grants" | "revoke_found_token"));
    for _ in 0..requests {
        let (own, other) = if rng.random() { (0, 1) } else { (1, 0) };
        let (caller, foreign) = (&twins[own], &twins[other]);
        let target = if rng.random() { caller } else { foreign };
        let route = table.choose(&mut rng).unwrap();
        let path = target
            .address(route.path)
            .replace("{principal}", target.principals.choose(&mut rng).unwrap())
            .replace("{version}", ["head", "1", "2"].choose(&mut rng).unwrap())
            .replace("{token_id}", "eeeeeeeeeeee");
        let path: Vec<&str> = path
            .split('/')
            .map(|part| if part.starts_with('{') { "1" } else { part })
            .collect();
        let address = format!("terraform_data.{}", target.marker);
        let query = [
            String::new(),
            format!("?address={address}&sensitive=true"),
            format!("?ID={}-0", caller.marker),
            "?limit=5".to_owned(),
        ];
        let path = path.join("/") + query.choose(&mut rng).unwrap();
        let request = app
            .request(route.method.as_str(), &path)
            .bearer_auth(caller.tokens.choose(&mut rng).unwrap())
            .json(&caller.body(route, &mut rng));
        let request = if rng.random_range(0..10) == 0 {
            request.timeout(Duration::from_millis(rng.random_range(1..20)))
        } else {
            request
        };
        let Ok(response) = request.send().await else {
            continue;
        };
        let (status, headers) = (response.status(), format!("{:?}", response.headers()));
        let Ok(body) = response.bytes().await else {
            continue;
        };
        let answer = headers + &String::from_utf8_lossy(&body);
        let context = format!("{} {path}: {status} {answer}", route.method);
        assert!(status.as_u16() != 500, "{context}");
        let reaches = matches!(route.access, Access::Needs(_))
            && matches!(route.scope(), Scope::Workspace | Scope::Environment);
        if reaches && std::ptr::eq(target, foreign) {
            assert!(!status.is_success(), "{context}");
        }
        assert!(!answer.contains(foreign.marker), "{context}");
        for id in foreign.principals.iter().chain([&foreign.environment]) {
            assert!(!answer.contains(id.as_str()), "{context}");
        }
    }
    let metrics = app.metrics().await;
    assert!(!metrics.contains("marker"), "{metrics}");
    row_security_alone_keeps_them_apart(&app, &twins.map(|twin| twin.workspace.id)).await;
}

/// In every table that the run has written to, as if every decision had been to allow.
async fn row_security_alone_keeps_them_apart(app: &TestApp, workspaces: &[WorkspaceId; 2]) {
    let tables = "SELECT relname::text FROM pg_class
         WHERE relrowsecurity AND relnamespace = 'public'::regnamespace";
    let tables = app.database.owner().fetch_all(tables).await.unwrap();
    let tables: Vec<String> = tables.iter().map(|row| row.get(0)).collect();
    for written in [
        "states",
        "state_versions",
        "instances",
        "audit_entries",
        "reservations",
    ] {
        assert!(tables.iter().any(|table| table == written), "{written}");
    }
    let db = app.database.db();
    for table in tables {
        let count = format!("SELECT count(*) FROM {table} WHERE workspace_id <> $1");
        let mut tx = db.begin(&workspaces[0]).await.unwrap();
        let foreign: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(workspaces[0].as_str())
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        assert_eq!(foreign, 0, "{table}");
    }
}
