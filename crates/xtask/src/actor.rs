//! Somebody who works with a state over HTTP: plain Terraform's requests, and a run of the native lane.

use anyhow::{Context as _, Result};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::stack::Stack;
use crate::terraform::Backend;

/// An answer, read to its end. A body that is not JSON is null.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Answer {
    async fn of(request: RequestBuilder) -> Result<Self> {
        let answer = request.send().await?;
        let status = answer.status();
        let body = serde_json::from_slice(&answer.bytes().await?).unwrap_or_default();
        Ok(Self { status, body })
    }

    /// The answer's body, where it must be a success.
    pub(crate) fn ok(self) -> Result<Value> {
        anyhow::ensure!(
            self.status.is_success(),
            "answered {}: {}",
            self.status,
            self.body
        );
        Ok(self.body)
    }

    pub(crate) fn is(&self, status: u16, code: &str) -> bool {
        self.status.as_u16() == status && self.body["code"] == code
    }
}

/// A writer of one state, through one replica.
pub(crate) struct Actor {
    http: reqwest::Client,
    service: String,
    state: Backend,
    name: String,
}

impl Actor {
    pub(crate) fn new(stack: &Stack, service: &str, state: &str) -> Self {
        let tenancy = &stack.tenancy;
        Self {
            http: reqwest::Client::new(),
            service: service.to_owned(),
            state: tenancy.writes(service, state),
            name: format!("{}/{}/{state}", tenancy.workspace, tenancy.environment),
        }
    }

    /// The state's address, as a backend block has it.
    pub(crate) fn address(&self) -> &str {
        &self.state.address
    }

    /// Whoever has this token, on the same state.
    pub(crate) fn as_somebody_else(&self, token: &str) -> Self {
        Self {
            http: self.http.clone(),
            service: self.service.clone(),
            state: Backend {
                address: self.state.address.clone(),
                token: token.to_owned(),
            },
            name: self.name.clone(),
        }
    }

    fn request(&self, method: &str, path: &str) -> Result<RequestBuilder> {
        let method = Method::from_bytes(method.as_bytes())?;
        let request = self
            .http
            .request(method, format!("{}{path}", self.state.address));
        Ok(request.bearer_auth(&self.state.token))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        Answer::of(self.request("GET", path)?).await
    }

    pub(crate) async fn lock(&self, id: &str) -> Result<Answer> {
        Answer::of(self.request("LOCK", "")?.json(&lock_info(id))).await
    }

    pub(crate) async fn unlock(&self, id: &str) -> Result<Answer> {
        Answer::of(self.request("UNLOCK", "")?.json(&lock_info(id))).await
    }

    /// Breaks whatever Terraform lock there is, as `terraform force-unlock` does: without a body.
    pub(crate) async fn force_unlock(&self) -> Result<Answer> {
        Answer::of(self.request("UNLOCK", "")?).await
    }

    /// Calls one of the state engine's primitives.
    pub(crate) async fn state_engine(&self, what: &str, body: &Value) -> Result<Answer> {
        let request = self
            .http
            .post(format!("{}/v1/state-engine/{what}", self.service));
        Answer::of(request.bearer_auth(&self.state.token).json(body)).await
    }

    /// Takes and gives back the lock of a state that nobody else needs; answers what the first of both was answered.
    pub(crate) async fn lock_other(&self, id: &str) -> Result<Answer> {
        let request = |method: &str| -> Result<RequestBuilder> {
            let method = Method::from_bytes(method.as_bytes())?;
            let request = self
                .http
                .request(method, format!("{}-other", self.state.address));
            Ok(request.bearer_auth(&self.state.token).json(&lock_info(id)))
        };
        let answer = Answer::of(request("LOCK")?).await?;
        Answer::of(request("UNLOCK")?).await?;
        Ok(answer)
    }

    /// Writes under a lock that is already held.
    pub(crate) async fn write(&self, id: &str, document: &Value) -> Result<Answer> {
        Answer::of(
            self.request("POST", &format!("?ID={id}"))?
                .body(document.to_string()),
        )
        .await
    }

    /// Locks, writes and unlocks.
    pub(crate) async fn write_locked(&self, id: &str, document: &Value) -> Result<()> {
        self.lock(id).await?.ok()?;
        self.write(id, document).await?.ok()?;
        self.unlock(id).await?.ok()?;
        Ok(())
    }

    /// Begins a run that writes one resource.
    pub(crate) async fn begin(&self, key: &str, address: &str) -> Result<Run<'_>> {
        let body = json!({
            "state": self.name, "kind": "apply", "key": key, "command": "kl apply", "who": "ann@drill",
            "scope": {
                "write": [address],
                "configuration": { "nodes": [{ "address": address, "repetition": "single" }], "calls": [] },
            },
        });
        let request = self.http.post(format!("{}/v1/runs", self.service));
        let run = Answer::of(request.bearer_auth(&self.state.token).json(&body)).await?;
        let run = run.ok()?;
        let text = |pointer: &str| {
            let text = run.pointer(pointer).and_then(Value::as_str);
            text.map(str::to_owned)
                .with_context(|| format!("a run has no {pointer}"))
        };
        Ok(Run {
            actor: self,
            id: text("/id")?,
            password: text("/backend/password")?,
            token: run["reservation"]["token"].as_i64().context("no token")?,
            unsettled: run["unsettled"].as_array().map_or(0, Vec::len),
        })
    }
}

/// A run that holds its scope.
pub(crate) struct Run<'a> {
    actor: &'a Actor,
    id: String,
    password: String,
    pub(crate) token: i64,
    pub(crate) unsettled: usize,
}

impl Run<'_> {
    fn request(&self, method: &str, rest: &str) -> Result<RequestBuilder> {
        let Actor { http, service, .. } = self.actor;
        let method = Method::from_bytes(method.as_bytes())?;
        Ok(http.request(method, format!("{service}/v1/runs/{}{rest}", self.id)))
    }

    fn terraform(&self, method: &str, query: &str) -> Result<RequestBuilder> {
        let request = self.request(method, &format!("/state{query}"))?;
        Ok(request.basic_auth("run", Some(&self.password)))
    }

    pub(crate) async fn lock(&self) -> Result<()> {
        let request = self.terraform("LOCK", "")?.json(&lock_info("tf"));
        Answer::of(request).await?.ok().map(drop)
    }

    pub(crate) async fn read(&self) -> Result<Value> {
        Answer::of(self.terraform("GET", "")?).await?.ok()
    }

    pub(crate) async fn upload(&self, slice: &Value) -> Result<Answer> {
        Answer::of(self.terraform("POST", "?ID=tf")?.body(slice.to_string())).await
    }

    pub(crate) async fn renew(&self) -> Result<Answer> {
        let request = self
            .request("POST", "/renew")?
            .bearer_auth(&self.actor.state.token);
        Answer::of(request.json(&json!({ "token": self.token }))).await
    }
}

/// What Terraform says of itself when it asks for a lock.
pub(crate) fn lock_info(id: &str) -> Value {
    json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": "ann@laptop", "Version": "1.11.4",
        "Created": "2026-01-01T00:00:00Z", "Path": "",
    })
}
