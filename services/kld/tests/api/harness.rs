//! Starts replicas and speaks to them in the words of the domain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kld::AppState;
use kld::commands::admin::Admin;
use kld::config::{Config, Source, pepper};
use kld::serve::{Drain, Listeners, serve_table};
use kld::table::Route;
use protocol::tenancy::{CreatedToken, CreatedWorkspace, Environment, Member};
use protocol::{EnvironmentId, PrincipalId, Role, WorkspaceId};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use store::testing::TestDatabase;
use store::{Db, DbOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A deployment: a database, some replicas, and an operator.
pub(crate) struct TestApp {
    pub(crate) database: TestDatabase,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) operator: String,
    client: Client,
}

/// A running replica.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) app: AppState,
    pub(crate) stopped: tokio::task::JoinHandle<anyhow::Result<()>>,
}

/// How replicas are started.
pub(crate) struct Setup {
    /// How many.
    pub(crate) replicas: usize,
    /// The routes they serve.
    pub(crate) table: Vec<Route>,
    /// Where they find the database, if not by the straight way.
    pub(crate) database_address: Option<SocketAddr>,
    /// How long they drain.
    pub(crate) drain: Drain,
    /// The largest number of database connections of each.
    pub(crate) pool: u32,
    /// How long a request waits for one of them.
    pub(crate) acquire_timeout: Duration,
    /// More of the configuration, by the names of environment variables.
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            replicas: 1,
            table: kld::routes::table(),
            database_address: None,
            drain: Drain {
                notice: Duration::from_millis(300),
                bound: Duration::from_secs(5),
            },
            pool: 5,
            // Long: a busy machine is no lack of connections. Tests of such a lack set a time of their own.
            acquire_timeout: Duration::from_secs(10),
            settings: Vec::new(),
        }
    }
}

impl TestApp {
    /// One replica.
    pub(crate) async fn start() -> Self {
        Self::start_with(TestDatabase::create().await, Setup::default()).await
    }

    /// Several replicas on one database.
    pub(crate) async fn start_replicas(replicas: usize) -> Self {
        Self::start_with(
            TestDatabase::create().await,
            Setup {
                replicas,
                ..Setup::default()
            },
        )
        .await
    }

    /// Replicas on a given database.
    pub(crate) async fn start_with(database: TestDatabase, setup: Setup) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
            // `KL_TEST_LOG=info` shows what the replicas log.
            if let Ok(filter) = std::env::var("KL_TEST_LOG") {
                telemetry::log::init(telemetry::LogFormat::Text, &filter).unwrap();
            }
        });
        let url = match setup.database_address {
            Some(address) => database.app_url_through(address),
            None => database.app_url(),
        };
        let source = source(store::testing::expose(&url), &setup.settings);
        let mut replicas = Vec::new();
        for _ in 0..setup.replicas {
            let mut options = DbOptions::new(url.clone());
            options.max_connections = setup.pool;
            options.acquire_timeout = setup.acquire_timeout;
            let db = Db::connect(&options).unwrap();
            let config = Config::load(&source).unwrap();
            replicas.push(Replica::start(AppState::new(config, db), &setup).await);
        }
        let admin = Admin::new(database.db(), pepper(&source).unwrap());
        let operator = admin.bootstrap().await.unwrap();
        Self {
            database,
            replicas,
            operator,
            client: Client::new(),
        }
    }

    /// A request to the first replica.
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.request_to(0, method, path)
    }

    /// A request to one of the replicas.
    pub(crate) fn request_to(&self, replica: usize, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let address = self.replicas[replica].address;
        self.client
            .request(method, format!("http://{address}{path}"))
    }

    /// What the first replica measures.
    pub(crate) async fn metrics(&self) -> String {
        let address = self.replicas[0].metrics;
        let response = self
            .client
            .get(format!("http://{address}/metrics"))
            .send()
            .await
            .unwrap();
        response.text().await.unwrap()
    }

    /// Makes a workspace.
    pub(crate) async fn workspace(&self, name: &str) -> TestWorkspace<'_> {
        let created: CreatedWorkspace = self
            .request("POST", "/v1/workspaces")
            .bearer_auth(&self.operator)
            .json(&json!({ "name": name, "admin": format!("admin of {name}") }))
            .send()
            .await
            .unwrap()
            .expect(StatusCode::CREATED)
            .await;
        TestWorkspace {
            app: self,
            id: created.workspace.id,
            admin: created.admin.principal,
            token: created.token.secret.unwrap(),
        }
    }
}

impl Replica {
    async fn start(app: AppState, setup: &Setup) -> Self {
        let listeners = Listeners {
            api: listen().await,
            metrics: listen().await,
        };
        let address = listeners.api.local_addr().unwrap();
        let metrics_address = listeners.metrics.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let metrics = telemetry::install_metrics().unwrap();
        let stopped = tokio::spawn(serve_table(
            setup.table.clone(),
            app.clone(),
            listeners,
            metrics,
            setup.drain,
            shutdown.clone(),
        ));
        Self {
            address,
            metrics: metrics_address,
            shutdown,
            app,
            stopped,
        }
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// A configuration that every replica of a deployment shares.
pub(crate) fn source(database_url: &str, more: &[(&'static str, String)]) -> Source {
    let redis_url = std::env::var("KL_TEST_REDIS_URL").expect("KL_TEST_REDIS_URL names a Redis");
    let mut values: BTreeMap<&str, String> = BTreeMap::from([
        ("KL_DATABASE_URL", database_url.to_owned()),
        ("KL_REDIS_URL", redis_url),
        ("KL_TOKEN_PEPPER", STANDARD.encode([1; 32])),
        ("KL_DEPLOYMENT_KEY", STANDARD.encode([2; 32])),
    ]);
    values.extend(more.iter().cloned());
    Source::new(Box::new(move |key| values.get(key).cloned()), None).unwrap()
}

/// A workspace with its admin.
pub(crate) struct TestWorkspace<'a> {
    app: &'a TestApp,
    pub(crate) id: WorkspaceId,
    pub(crate) admin: PrincipalId,
    /// The admin's token.
    pub(crate) token: String,
}

impl TestWorkspace<'_> {
    /// The workspace's address, with what follows.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/workspaces/{}{rest}", self.id)
    }

    /// A request of the admin to an address of the workspace.
    pub(crate) fn request(&self, method: &str, rest: &str) -> RequestBuilder {
        self.app
            .request(method, &self.path(rest))
            .bearer_auth(&self.token)
    }

    /// Makes an environment.
    pub(crate) async fn environment(&self, name: &str) -> EnvironmentId {
        let request = self
            .request("POST", "/environments")
            .json(&json!({ "name": name }));
        let environment: Environment = request
            .send()
            .await
            .unwrap()
            .expect(StatusCode::CREATED)
            .await;
        environment.id
    }

    /// Makes a member with one grant.
    pub(crate) async fn member(
        &self,
        role: Role,
        environment: Option<&EnvironmentId>,
    ) -> PrincipalId {
        let body = json!({
            "kind": "service",
            "display": format!("{role} of {}", self.id),
            "role": role,
            "environment": environment,
        });
        let request = self.request("POST", "/members").json(&body);
        let member: Member = request
            .send()
            .await
            .unwrap()
            .expect(StatusCode::CREATED)
            .await;
        member.principal
    }

    /// Makes a token of a member.
    pub(crate) async fn token_of(&self, principal: &PrincipalId) -> CreatedToken {
        let request = self
            .request("POST", "/tokens")
            .json(&json!({ "principal": principal }));
        request
            .send()
            .await
            .unwrap()
            .expect(StatusCode::CREATED)
            .await
    }

    /// Makes a member with one grant, and a token of it.
    pub(crate) async fn token(&self, role: Role, environment: Option<&EnvironmentId>) -> String {
        let principal = self.member(role, environment).await;
        self.token_of(&principal).await.secret.unwrap()
    }
}

/// What labels other than routes, statuses and bounds of buckets may say.
const LABELS: [&str; 26] = [
    "terraform",
    "api",
    "service",
    "missing",
    "malformed",
    "unknown",
    "expired",
    "revoked",
    "serialization",
    "disconnected",
    "cache",
    "store",
    "memory",
    "patched",
    "snapshot",
    "built",
    "idle",
    "busy",
    "waiting",
    "running",
    "done",
    "failed",
    "cancelled",
    "again",
    "lost",
    "cleaned",
];

/// Fails unless every series is one that the service has a name for, so that no request can make another. They are not
/// counted: the tests of a process share them, and whatever runs beside a test may make the first of a kind.
pub(crate) fn assert_closed_series(metrics: &str) {
    let table = kld::routes::table();
    let mut routes: BTreeSet<&str> = table.iter().map(|route| route.name).collect();
    routes.extend(["unmatched", "method_not_allowed"]);
    let described: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next())
        .collect();
    for line in metrics.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut of_histogram = ["_bucket", "_sum", "_count"].into_iter();
        let whole = of_histogram.find_map(|end| name.strip_suffix(end));
        assert!(described.contains(whole.unwrap_or(name)), "{line}");
        let labels = labels.strip_suffix('}').unwrap();
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once('=').unwrap();
            let value = value.trim_matches('"');
            let is_known = match key {
                // Some tests have routes of their own.
                "route" => routes.contains(value) || value.starts_with("trap_"),
                "status" => value == "other" || value.len() == 3 && value.parse::<u16>().is_ok(),
                "le" => value.parse::<f64>().is_ok(),
                "lane" | "reason" | "source" | "state" | "ending" => LABELS.contains(&value),
                _ => false,
            };
            assert!(is_known, "{line}");
        }
    }
}

/// What tests do with answers.
pub(crate) trait Expect {
    /// Fails unless the answer has this status, and reads its JSON.
    async fn expect<T: serde::de::DeserializeOwned>(self, status: StatusCode) -> T;

    /// Fails unless the answer is a refusal with this code, and reads it.
    async fn refused(self, code: protocol::Code) -> Value;
}

impl Expect for Response {
    async fn expect<T: serde::de::DeserializeOwned>(self, status: StatusCode) -> T {
        let found = self.status();
        let text = self.text().await.unwrap();
        assert_eq!(found, status, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    async fn refused(self, code: protocol::Code) -> Value {
        let (status, headers) = (self.status(), self.headers().clone());
        let text = self.text().await.unwrap();
        let problem: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{status} {error}: {text}"));
        assert_eq!(problem["code"], code.as_str(), "{text}");
        assert_eq!(status.as_u16(), code.status(), "{text}");
        assert_eq!(
            headers["x-request-id"],
            problem["request_id"].as_str().unwrap()
        );
        problem
    }
}
