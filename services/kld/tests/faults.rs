//! The service with faults: it dies where it is told to, and breaks the rules it is told to break.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use store::testing::{TestDatabase, expose};

/// A database with a workspace and an environment, and what its replicas are started with.
struct Deployment {
    database: TestDatabase,
    client: Client,
    token: String,
    states: String,
}

/// A process of the service. Killed with the value.
struct Replica<'a> {
    of: &'a Deployment,
    process: Child,
    api: String,
    metrics: String,
}

impl Deployment {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let database = TestDatabase::create().await;
        let mut this = Self {
            database,
            client: Client::new(),
            token: String::new(),
            states: String::new(),
        };
        let create = ["admin", "workspace", "create", "acme", "--admin", "ann"];
        let created = this.command(&create, &[]).output().unwrap();
        let created: Value = serde_json::from_slice(&created.stdout).unwrap();
        let workspace = created["workspace"].as_str().unwrap().to_owned();
        this.token = created["token"].as_str().unwrap().to_owned();
        let environment: Value = {
            let replica = this.replica(&[]).await;
            let path = format!("/v1/workspaces/{workspace}/environments");
            let body = json!({ "name": "prod", "terraform_lock_ttl_seconds": 60 });
            let answer = replica.send(Method::POST, &path, &body).await.unwrap();
            answer.json().await.unwrap()
        };
        let environment = environment["id"].as_str().unwrap();
        this.states = format!("/v1/states/{workspace}/{environment}");
        this
    }

    fn command(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Command {
        let secret = STANDARD.encode([1; 32]);
        let redis = std::env::var("KL_TEST_REDIS_URL").expect("KL_TEST_REDIS_URL names a Redis");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kld-faults"));
        command
            .env_clear()
            .env("KL_DATABASE_URL", expose(&self.database.app_url()))
            .env("KL_REDIS_URL", redis)
            .env("KL_TOKEN_PEPPER", &secret)
            .env("KL_DEPLOYMENT_KEY", &secret)
            .env("KL_LOG", "warn")
            .envs(settings.iter().copied())
            .args(arguments);
        command
    }

    /// A process that is ready.
    async fn replica(&self, settings: &[(&str, &str)]) -> Replica<'_> {
        let [api, metrics] = free_addresses();
        let process = self
            .command(&["serve"], settings)
            .env("KL_LISTEN", &api)
            .env("KL_METRICS_LISTEN", &metrics)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let replica = Replica {
            of: self,
            process,
            api,
            metrics,
        };
        let ready = format!("http://{}/readyz", replica.api);
        for _ in 0..400 {
            let answer = self.client.get(&ready).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return replica;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the replica is not ready");
    }

    async fn count(&self, query: &'static str) -> i64 {
        let found = sqlx::query_scalar(query).fetch_one(self.database.owner());
        found.await.unwrap()
    }
}

/// Below the ports that Linux takes for outgoing connections (32768 and up): one of those could become the near end of
/// somebody's connection before the process listens on it.
fn free_addresses() -> [String; 2] {
    // Both are held at once, so they differ.
    let listeners = [(); 2].map(|()| {
        let ports = (0..1_000).map(|_| rand::random_range(20_000..32_000_u16));
        let mut listeners =
            ports.filter_map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).ok());
        listeners.next().expect("loopback has a free port")
    });
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

impl Replica<'_> {
    async fn send(&self, method: Method, path: &str, body: &Value) -> reqwest::Result<Response> {
        let client = &self.of.client;
        let request = client.request(method, format!("http://{}{path}", self.api));
        request.bearer_auth(&self.of.token).json(body).send().await
    }

    /// The status of a LOCK of a state, if it is answered.
    async fn lock(&self, name: &str, id: &str) -> reqwest::Result<u16> {
        let info = json!({
            "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": "ann@ci", "Version": "1.11.4",
            "Created": "2026-01-01T00:00:00Z", "Path": "",
        });
        let lock = Method::from_bytes(b"LOCK").unwrap();
        let path = format!("{}/{name}", self.of.states);
        let answer = self.send(lock, &path, &info).await?;
        Ok(answer.status().as_u16())
    }

    async fn arm(&self, point: &str, body: Value) -> u16 {
        let address = format!("http://{}/faults/points/{point}", self.metrics);
        let answer = self.of.client.post(address).json(&body).send().await;
        answer.unwrap().status().as_u16()
    }

    async fn passes(&self, point: &str) -> u64 {
        let address = format!("http://{}/faults/points", self.metrics);
        let answer = self.of.client.get(address).send().await.unwrap();
        let points: Vec<Value> = answer.json().await.unwrap();
        let found = points.iter().find(|one| one["name"] == point).unwrap();
        found["passes"].as_u64().unwrap()
    }

    /// How the process ended.
    async fn ended(&mut self) -> ExitStatus {
        for _ in 0..200 {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the process lives on");
    }
}

impl Drop for Replica<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_process_dies_at_the_pass_of_the_step_that_it_was_told_to_die_at() {
    let deployment = Deployment::start().await;
    let mut replica = deployment.replica(&[]).await;
    let point = "reserve.after_commit";
    assert_eq!(
        replica
            .arm("reserve.nowhere", json!({ "do": "abort" }))
            .await,
        404
    );
    let abort = json!({ "do": "abort", "after": 1 });
    assert_eq!(replica.arm(point, abort).await, 204);
    assert_eq!(replica.lock("one", "first").await.unwrap(), 200);
    assert_eq!(replica.passes(point).await, 1);
    assert!(replica.lock("two", "second").await.is_err());
    assert_eq!(replica.ended().await.signal(), Some(6));

    // The ledger had granted before it died: the same request again gets the same lock.
    let next = deployment.replica(&[]).await;
    assert_eq!(next.lock("two", "second").await.unwrap(), 200);
    let granted = "SELECT count(*) FROM reservations WHERE idem_key = 'second'";
    assert_eq!(deployment.count(granted).await, 1);
}

#[tokio::test]
async fn a_request_fails_or_waits_where_it_was_told_to() {
    let deployment = Deployment::start().await;
    let replica = deployment.replica(&[]).await;
    let armed = replica.arm("reserve.after_insert", json!({ "do": "error" }));
    assert_eq!(armed.await, 204);
    assert_eq!(replica.lock("one", "first").await.unwrap(), 503);
    let granted = "SELECT count(*) FROM reservations";
    assert_eq!(deployment.count(granted).await, 0);

    let pause = json!({ "do": { "pause_ms": 700 } });
    assert_eq!(replica.arm("reserve.after_commit", pause).await, 204);
    let began = std::time::Instant::now();
    assert_eq!(replica.lock("one", "first").await.unwrap(), 200);
    assert!(began.elapsed() >= Duration::from_millis(700));
}

#[tokio::test]
async fn a_rule_that_is_switched_off_does_not_hold_and_times_are_divided() {
    let deployment = Deployment::start().await;
    let settings = [
        ("KL_FAULTS_OFF", "ledger_check"),
        ("KL_FAULTS_TIME_SCALE", "30"),
    ];
    {
        let broken = deployment.replica(&settings).await;
        for id in ["first", "second"] {
            assert_eq!(broken.lock("one", id).await.unwrap(), 200, "{id}");
        }
        let leases = "SELECT count(*) FROM reservations WHERE lease_seconds = 2";
        assert_eq!(deployment.count(leases).await, 2);
    }
    let sound = deployment.replica(&[]).await;
    assert_eq!(sound.lock("two", "first").await.unwrap(), 200);
    assert_eq!(sound.lock("two", "second").await.unwrap(), 423);
}

#[tokio::test]
async fn a_rule_that_does_not_exist_is_no_setting() {
    let deployment = Deployment::start().await;
    for (key, value) in [
        ("KL_FAULTS_OFF", "ledger_check,gravity"),
        ("KL_FAULTS_TIME_SCALE", "0"),
    ] {
        let output = deployment.command(&["serve"], &[(key, value)]).output();
        let output = output.unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(&format!("error: {key}: ")), "{text}");
    }
}
