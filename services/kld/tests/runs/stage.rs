//! Runs in words: a scope, a client that begins, a Terraform that reads and writes the slice.

use std::time::{Duration, Instant};

use protocol::Code;
use protocol::runs::Run;
use serde_json::{Value, json};

use crate::lane::documents::Doc;
use crate::lane::stage::{Client, Reply, lock_info};

/// A failover of Redis takes a second or two, and a link that broke rests for one.
const INDEXED_WITHIN: Duration = Duration::from_secs(20);

/// The address of a resource of [`Doc`].
pub(crate) fn address(name: &str) -> String {
    format!("terraform_data.{name}")
}

/// A scope that writes some resources of a configuration in which `edges` depend on each other, and proves itself.
pub(crate) fn scope(write: &[&str], blocks: &[(&str, &[&str])]) -> Value {
    let nodes: Vec<Value> = blocks
        .iter()
        .map(|(name, dependencies)| {
            let dependencies: Vec<String> = dependencies.iter().map(|name| address(name)).collect();
            json!({ "address": address(name), "dependencies": dependencies, "repetition": "single" })
        })
        .collect();
    json!({
        "write": write.iter().map(|name| address(name)).collect::<Vec<_>>(),
        "configuration": { "nodes": nodes, "calls": [], "outputs": [] },
    })
}

/// A scope of resources that depend on nothing.
pub(crate) fn alone(names: &[&str]) -> Value {
    let blocks: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, &[][..])).collect();
    scope(names, &blocks)
}

/// A run that somebody began, and the Terraform that works on it.
pub(crate) struct Native<'a> {
    pub(crate) client: Client<'a>,
    pub(crate) run: Run,
    pub(crate) token: String,
}

impl Client<'_> {
    /// The full name of a state, as bodies have it.
    pub(crate) fn full_name(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.stage.workspace, self.stage.environment)
    }

    /// Asks for a run.
    pub(crate) async fn ask(&self, name: &str, kind: &str, scope: Value) -> Reply {
        self.ask_with(name, json!({ "kind": kind, "scope": scope }))
            .await
    }

    /// Asks for a run with more members.
    pub(crate) async fn ask_with(&self, name: &str, members: Value) -> Reply {
        let mut body = json!({
            "state": self.full_name(name), "kind": "apply", "key": uuid::Uuid::now_v7().to_string(),
            "command": "kl apply -f x", "who": "ann@laptop", "scope": {},
        });
        for (key, value) in members.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.post("/v1/runs", body).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        let request = self.stage.app.request_to(self.replica, "POST", path);
        Reply::of(request.bearer_auth(&self.token).json(&body)).await
    }

    /// Begins a run that may write.
    pub(crate) async fn apply(&self, name: &str, scope: Value) -> Native<'_> {
        Native::of(self, self.ask(name, "apply", scope).await)
    }

    /// Begins a run that only plans.
    pub(crate) async fn plan(&self, name: &str, scope: Value) -> Native<'_> {
        Native::of(self, self.ask(name, "plan", scope).await)
    }
}

impl<'a> Native<'a> {
    #[track_caller]
    pub(crate) fn of(client: &Client<'a>, reply: Reply) -> Self {
        let run: Run = serde_json::from_slice(&reply.ok().body).unwrap();
        let token = run.backend.as_ref().unwrap().password.clone();
        Self {
            client: client.clone(),
            run,
            token,
        }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/runs/{}{rest}", self.run.id)
    }

    pub(crate) fn fencing_token(&self) -> i64 {
        self.run.reservation.as_ref().unwrap().token
    }

    /// A request of its Terraform.
    pub(crate) fn request(&self, method: &str, query: &str) -> reqwest::RequestBuilder {
        let path = self.path(&format!("/state{query}"));
        let app = &self.client.stage.app;
        app.request_to(self.client.replica, method, &path)
            .basic_auth("run", Some(&self.token))
    }

    pub(crate) async fn read(&self) -> Reply {
        Reply::of(self.request("GET", "")).await
    }

    pub(crate) async fn lock(&self, id: &str) -> Reply {
        self.lock_for(id, "OperationTypeApply").await
    }

    pub(crate) async fn lock_for(&self, id: &str, operation: &str) -> Reply {
        let mut info = lock_info(id);
        info["Operation"] = operation.into();
        Reply::of(self.request("LOCK", "").json(&info)).await
    }

    pub(crate) async fn unlock(&self, id: &str) -> Reply {
        Reply::of(self.request("UNLOCK", "").json(&lock_info(id))).await
    }

    /// Uploads under a lock.
    pub(crate) async fn upload(&self, id: &str, document: impl Into<reqwest::Body>) -> Reply {
        let request = self.request("POST", &format!("?ID={id}"));
        Reply::of(request.body(document)).await
    }

    /// Uploads what its Terraform makes of the slice it reads.
    pub(crate) async fn change(&self, id: &str, change: impl FnOnce(String) -> String) -> Reply {
        let slice = String::from_utf8(self.read().await.ok().body).unwrap();
        self.upload(id, next_serial(&change(slice))).await
    }

    /// Uploads, without asking what the slice is now, what its Terraform has made of it.
    pub(crate) async fn change_late(&self, id: &str, resource: &str, value: &str) -> Reply {
        let lineage = self.client.read("prod").await.ok().json()["lineage"].clone();
        let document = Doc::new(99).without_resources().with(resource, value);
        let document = document.with_lineage(lineage.as_str().unwrap());
        self.upload(id, document.bytes()).await
    }

    pub(crate) async fn post(&self, rest: &str, body: Value) -> Reply {
        self.client.post(&self.path(rest), body).await
    }

    pub(crate) async fn finish(&self, outcome: &str) -> Reply {
        self.post("/finish", json!({ "outcome": outcome, "checked": true }))
            .await
    }

    pub(crate) async fn renew(&self) -> Reply {
        self.post("/renew", json!({ "token": self.fencing_token() }))
            .await
    }

    pub(crate) async fn now(&self) -> Run {
        let app = &self.client.stage.app;
        let request = app.request_to(self.client.replica, "GET", &self.path(""));
        let reply = Reply::of(request.bearer_auth(&self.client.token)).await;
        serde_json::from_slice(&reply.ok().body).unwrap()
    }

    /// Locks, changes one resource, unlocks, finishes.
    pub(crate) async fn set(&self, resource: &str, value: &str) {
        self.lock("tf").await.ok();
        self.change("tf", |slice| set_value(&slice, resource, value))
            .await
            .ok();
        self.unlock("tf").await.ok();
        self.finish("succeeded").await.ok();
    }
}

/// The document with the next serial, as Terraform writes it.
pub(crate) fn next_serial(document: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(document).unwrap();
    let serial = value["serial"].as_u64().unwrap();
    crate::lane::documents::with_serial(document.as_bytes(), serial + 1)
}

/// The document with another value in a resource of [`Doc`].
pub(crate) fn set_value(document: &str, resource: &str, value: &str) -> String {
    let at = document.find(&format!("\"name\": \"{resource}\"")).unwrap();
    let (before, after) = document.split_at(at);
    let end = after.find("\"triggers_replace\"").unwrap();
    let (body, rest) = after.split_at(end);
    let mut body = body.to_owned();
    let old = format!("\"value\": {}", first_value(&body));
    body = body.replace(&old, &format!("\"value\": \"{value}\""));
    format!("{before}{body}{rest}")
}

fn first_value(text: &str) -> String {
    let at = text.find("\"value\": ").unwrap() + "\"value\": ".len();
    let end = text[at..].find(',').unwrap();
    text[at..at + end].to_owned()
}

/// A state with these resources, each of the value `start`.
pub(crate) async fn with_state(client: &Client<'_>, name: &str, resources: &[&str]) {
    let mut document = Doc::new(1).without_resources();
    for resource in resources {
        document = document.with(resource, "start");
    }
    client.write_locked(name, document.bytes()).await;
}

/// Begins and ends runs on one resource until the index of reservations takes part. The first to ask Redis has to
/// connect to it, which may take longer than an answer is waited for.
pub(crate) async fn until_indexed(client: &Client<'_>, resource: &str) {
    let began = Instant::now();
    loop {
        let run = client.apply("prod", alone(&[resource])).await;
        run.finish("succeeded").await.ok();
        if !run.run.reservation.as_ref().unwrap().degraded {
            return;
        }
        assert!(began.elapsed() < INDEXED_WITHIN, "still degraded");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a resource of the state is now.
pub(crate) async fn value_of(client: &Client<'_>, name: &str, resource: &str) -> Option<String> {
    let document = client.read(name).await.ok().json();
    let resources = document["resources"].as_array().unwrap().clone();
    let found = resources.iter().find(|one| one["name"] == resource)?;
    let value = &found["instances"][0]["attributes"]["input"]["value"];
    Some(value.as_str().unwrap().to_owned())
}

/// Fails unless this is a refusal with the code.
#[track_caller]
pub(crate) fn refused(reply: Reply, code: Code) -> Value {
    json!(reply.refused(code))
}
