//! Two workspaces with marked values: nothing of one ever shows in the answers to the other, nor in its rows, nor in logs
//! and metrics.
//!
//! The requests are made from the route table, so a new route takes part as soon as it has a row. A thousand requests are
//! made by default. A release makes a hundred thousand:
//!
//! ```text
//! KL_TWIN_REQUESTS=100000 cargo xtask test -p kld --test api -- twin::
//! ```

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kld::table::{Route, Scope};
use protocol::Role;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use store::testing::TestDatabase;
use telemetry::LogFormat;
use telemetry::log::LineLayer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::harness::{Setup, TestApp, TestWorkspace};

/// The requests that are drawn unless `KL_TWIN_SEED` names others: the same each time, so what fails fails again.
const SEED: u64 = 20_261_129;

/// States of each of the two, by the same names.
const STATES: [&str; 3] = ["net", "app", "data"];

/// One of the two, with everything about it that could show elsewhere.
struct Twin<'a> {
    workspace: TestWorkspace<'a>,
    /// Of every role, the strongest first.
    tokens: Vec<String>,
    environments: Vec<String>,
    principals: Vec<String>,
    marker: &'static str,
    serial: u64,
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
        serial: 0,
    }
}

impl Twin<'_> {
    /// Another document of this twin, marked in every place that a document has. Sometimes one that is kept as it is.
    fn document(&mut self, rng: &mut StdRng) -> String {
        self.serial += 1;
        let (marker, serial, n) = (self.marker, self.serial, rng.random_range(0..50));
        let kept = if rng.random_bool(0.3) { " " } else { "" };
        format!(
            r#"{kept}{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{marker}","outputs":{{"{marker}":{{"value":"{marker}{n}","type":"string","sensitive":{}}}}},"resources":[{{"module":"module.{marker}","mode":"managed","type":"terraform_data","name":"{marker}","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{{"index_key":"{marker}{n}","schema_version":0,"attributes":{{"id":"{marker}"}},"sensitive_attributes":[]}}]}}],"check_results":null,"x_{marker}":1}}"#,
            rng.random_bool(0.5)
        )
    }

    /// The body of a request about a state: one that asks for things of this twin.
    fn named_body(&self, route: &Route, state: &str, rng: &mut StdRng) -> String {
        let (m, key) = (self.marker, rng.random_range(0..50));
        let address = format!("module.{m}.terraform_data.{m}[\"{m}{key}\"]");
        let to = match route.name {
            "preview_move" | "apply_move" => format!("terraform_data.{m}[\"{m}\"]"),
            _ => "@1".to_owned(),
        };
        json!({
            "state": state, "files": [format!("{m}.tf")], "addresses": [address], "write": [format!("module.{m}")],
            "address": address, "to": to, "actor": m,
            "values": [{ "path": ["id"], "old": m, "new": format!("{m}{key}") }],
        })
        .to_string()
    }

    /// The body of a request to a route: one that the route may accept.
    fn body(&mut self, route: &Route, rng: &mut StdRng) -> String {
        let marker = self.marker;
        match route.name {
            "write_state" | "import_state" => self.document(rng),
            name if name.starts_with("lock_") || name.starts_with("unlock_") => {
                let id = format!("{marker}-{}", rng.random_range(0..4));
                json!({ "ID": id, "Who": marker, "Info": marker, "Operation": marker }).to_string()
            }
            "roll_back_state" => json!({ "to": rng.random_range(1..6).to_string() }).to_string(),
            "take_admin_lock" => json!({ "message": marker }).to_string(),
            "force_unlock_state" | "undelete_state" => "{}".to_owned(),
            // Members and environments are made while others look.
            _ => json!({ "name": format!("{marker}-{}", rng.random_range(0..1_000_000)) })
                .to_string(),
        }
    }
}

/// What the service logs, in memory.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The body of an answer; of a stream of events, which has no end, what it says at first.
async fn said(mut response: reqwest::Response) -> String {
    let kind = response.headers().get("content-type");
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return response.text().await.unwrap();
    }
    let mut text = String::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            text.push_str(&String::from_utf8_lossy(&piece));
            if text.contains("data: ") && text.ends_with("\n\n") {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), read).await;
    assert!(in_time.is_ok(), "a stream says nothing: {text}");
    text
}

/// Every row of every table that the service's role sees as this workspace, as text.
async fn visible_rows(app: &TestApp, workspace: &str) -> String {
    let url = app.database.app_url();
    let mut connection = PgConnection::connect(store::testing::expose(&url))
        .await
        .unwrap();
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relrowsecurity AND relnamespace = 'public'::regnamespace",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(tables.len() > 8, "{tables:?}");
    let mut text = String::new();
    for table in tables {
        let mut tx = connection.begin().await.unwrap();
        sqlx::query("SELECT set_config('kl.workspace', $1, true)")
            .bind(workspace)
            .execute(&mut *tx)
            .await
            .unwrap();
        // Bytes are shown escaped, so that a marker in them can be read.
        tx.execute("SET LOCAL bytea_output = 'escape'")
            .await
            .unwrap();
        let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "SELECT t::text FROM {table} t"
        )))
        .fetch_all(&mut *tx)
        .await
        .unwrap();
        text.push_str(&rows.join("\n"));
        tx.rollback().await.unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_workspace_shows_in_another() {
    let seed = match std::env::var("KL_TWIN_SEED") {
        Ok(text) => text.parse().expect("KL_TWIN_SEED is a number"),
        Err(_) => SEED,
    };
    println!("KL_TWIN_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let requests: u32 = match std::env::var("KL_TWIN_REQUESTS") {
        Ok(text) => text.parse().expect("KL_TWIN_REQUESTS is a number"),
        Err(_) => 1000,
    };
    let logged = Logged::default();
    let writer = logged.clone();
    let filter = EnvFilter::new("info,kld=debug,engine=debug,store=debug,sqlx=debug");
    // The only test that logs: all others of this process are in the same log, which does no harm.
    tracing_subscriber::registry()
        .with(LineLayer::new(LogFormat::Json, move || writer.clone()).with_filter(filter))
        .init();
    let app = TestApp::start_with(
        TestDatabase::create().await,
        Setup {
            replicas: 2,
            ..Setup::default()
        },
    )
    .await;
    let mut twins = [twin(&app, "markerone").await, twin(&app, "markertwo").await];
    let table = kld::routes::table();
    // Half of the requests are for states: that is where the values are.
    let on_states: Vec<&Route> = table
        .iter()
        .filter(|route| route.path.contains("{name}") || route.scope() == Scope::Named)
        .collect();
    let all: Vec<&Route> = table.iter().collect();
    let mut written = 0;
    for _ in 0..requests {
        let (own, other) = if rng.random() { (0, 1) } else { (1, 0) };
        let mut target = if rng.random_bool(0.6) { own } else { other };
        let routes = if rng.random() { &on_states } else { &all };
        let mut route = *routes.choose(&mut rng).unwrap();
        // Left to chance alone, locks would soon stand in the way of everything.
        let lively = [
            "write_state",
            "write_state",
            "force_unlock_state",
            "release_admin_lock",
        ];
        if rng.random_bool(0.4) {
            let name = *lively.choose(&mut rng).unwrap();
            route = table.iter().find(|route| route.name == name).unwrap();
            target = own;
        }
        // The members' own grants and tokens stay, or the rest of the run would see nothing at all.
        if route.name.ends_with("_grants") || route.name.ends_with("revoke_token") {
            continue;
        }
        let mut body = twins[own].body(route, &mut rng);
        let (caller, target) = (&twins[own], &twins[target]);
        let state = format!(
            "{}/{}/{}",
            target.workspace.id,
            target.environments[0],
            STATES.choose(&mut rng).unwrap()
        );
        if route.scope() == Scope::Named {
            body = caller.named_body(route, &state, &mut rng);
        }
        let mut path = route
            .path
            .replace("{ws}", target.workspace.id.as_str())
            .replace("{env}", target.environments.choose(&mut rng).unwrap())
            .replace("{principal}", target.principals.choose(&mut rng).unwrap())
            .replace("{name}", STATES.choose(&mut rng).unwrap())
            .replace("{version}", &rng.random_range(1..6).to_string())
            .replace("{token_id}", "eeeeeeeeeeee")
            .replace("{kept}", "00000000-0000-0000-0000-000000000001");
        match route.name {
            "write_state" | "delete_state" | "import_state" if rng.random() => {
                path = format!("{path}?ID={}-{}", caller.marker, rng.random_range(0..4));
            }
            "get_graph" => {
                let m = target.marker;
                path = format!("{path}?address=module.{m}.terraform_data.{m}");
            }
            _ if route.scope() == Scope::Named => path = format!("{path}?state={state}"),
            "get_resource" => {
                let m = target.marker;
                let key = rng.random_range(0..50);
                path = format!(
                    "{path}?address=module.{m}.terraform_data.{m}%5B%22{m}{key}%22%5D&sensitive=true"
                );
            }
            _ => {}
        }
        // The admin and the writers do most of the work; everybody has a try.
        let token = if rng.random() {
            &caller.tokens[0]
        } else {
            caller.tokens.choose(&mut rng).unwrap()
        };
        let request = app
            .request_to(rng.random_range(0..2), route.method.as_str(), &path)
            .bearer_auth(token);
        let request =
            request
                .header("content-type", "application/json")
                .body(if route.method == "GET" {
                    String::new()
                } else {
                    body
                });
        let response = request.send().await.unwrap();
        let (status, headers) = (
            response.status().as_u16(),
            format!("{:?}", response.headers()),
        );
        assert!(status < 500, "{} {path}: {status}", route.method);
        written += u32::from(route.name == "write_state" && status == 200);
        let answer = headers + &said(response).await;
        let foreign = &twins[other];
        // What the caller itself put into the address does not count.
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
    assert!(
        written > requests / 200,
        "only {written} writes came through"
    );

    for (own, other) in [(0, 1), (1, 0)] {
        let rows = visible_rows(&app, twins[own].workspace.id.as_str()).await;
        assert!(rows.contains(twins[own].marker), "the own rows are seen");
        assert!(
            !rows.contains(twins[other].marker),
            "a row of the other is seen"
        );
        assert!(!rows.contains(twins[other].workspace.id.as_str()));
    }
    let metrics = app.metrics().await;
    let log = String::from_utf8_lossy(&logged.0.lock().unwrap()).into_owned();
    assert!(log.contains("request.id"), "something was logged");
    for twin in &twins {
        assert!(!log.contains(twin.marker), "a value is in the log");
        assert!(
            twin.tokens
                .iter()
                .all(|token| !log.contains(token.as_str()))
        );
        assert!(!metrics.contains(twin.marker) && !metrics.contains(twin.workspace.id.as_str()));
    }
}
