//! The service as Terraform's client sees it.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use futures::stream::Stream;
use reqwest::{Body, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::documents::Posted;
use crate::actor::lock_info;
use crate::stack::Stack;

/// A writer of the stack's main environment.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    /// Everything before a state's name.
    base: String,
    token: String,
}

/// A write that was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// From the first byte sent to the answer.
    pub(super) took: Duration,
    /// The part of it that was the transaction that writes.
    pub(super) commit_ms: f64,
}

impl Client {
    pub(super) fn new(stack: &Stack) -> Self {
        Self::at(stack, stack.url())
    }

    /// The same by one of the stack's replicas, past the balancer.
    pub(super) fn at(stack: &Stack, replica: &str) -> Self {
        let backend = stack.tenancy.writes(replica, "");
        Self {
            http: reqwest::Client::new(),
            base: backend.address,
            token: backend.token,
        }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.token)
    }

    /// Writes under the lock, or without one. A document that is the head already counts as an error.
    pub(super) async fn write(
        &self,
        state: &str,
        document: &Posted,
        lock: Option<&str>,
    ) -> Result<Written> {
        let mut request = self.request(Method::POST, state);
        if let Some(lock) = lock {
            request = request.query(&[("ID", lock)]);
        }
        let request = request
            .header("content-type", "application/json")
            .header("content-md5", &document.md5)
            .body(document.bytes.clone());
        let began = Instant::now();
        let answer = request.send().await?;
        let took = began.elapsed();
        let timing = answer.headers().get("server-timing");
        let timing = timing
            .and_then(|timing| timing.to_str().ok())
            .map(str::to_owned);
        expect_ok(answer).await?;
        let commit_ms = timing
            .as_deref()
            .and_then(|timing| {
                timing
                    .split("commit;dur=")
                    .nth(1)?
                    .split(',')
                    .next()?
                    .parse()
                    .ok()
            })
            .context("a write was answered without its commit time: nothing was written")?;
        Ok(Written { took, commit_ms })
    }

    /// Sends the document as a stream of its bytes, without a lock, and takes any answer.
    pub(super) async fn upload<S>(
        &self,
        state: &str,
        document: &Posted,
        stream: impl FnOnce(Bytes) -> S,
    ) -> Result<()>
    where
        S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    {
        let request = self
            .request(Method::POST, state)
            .header("content-type", "application/json")
            .header("content-length", document.bytes.len())
            .header("content-md5", &document.md5)
            .body(Body::wrap_stream(stream(document.bytes.clone())));
        request.send().await?;
        Ok(())
    }

    /// Reads a document.
    pub(super) async fn read(&self, path: &str) -> Result<Bytes> {
        let answer = self.send_read(path).await?;
        Ok(answer.bytes().await?)
    }

    /// Reads a document and throws it away; answers its length.
    pub(super) async fn drain(&self, path: &str) -> Result<usize> {
        let mut answer = self.send_read(path).await?;
        let mut size = 0;
        while let Some(piece) = answer.chunk().await? {
            size += piece.len();
        }
        Ok(size)
    }

    async fn send_read(&self, path: &str) -> Result<Response> {
        let request = self.request(Method::GET, path);
        let answer = request.header("accept-encoding", "identity").send().await?;
        let status = answer.status();
        ensure!(status.is_success(), "GET {path} answered {status}");
        Ok(answer)
    }

    /// Asks for the lock, and says whether it was granted.
    pub(super) async fn lock(&self, state: &str, id: &str) -> Result<bool> {
        let answer = self.send_lock("LOCK", state, id).await?;
        match answer.status() {
            StatusCode::OK => Ok(true),
            StatusCode::LOCKED => Ok(false),
            _ => expect_ok(answer).await.map(|()| true),
        }
    }

    pub(super) async fn unlock(&self, state: &str, id: &str) -> Result<()> {
        expect_ok(self.send_lock("UNLOCK", state, id).await?).await
    }

    async fn send_lock(&self, method: &str, state: &str, id: &str) -> Result<Response> {
        let method = Method::from_bytes(method.as_bytes())?;
        let request = self.request(method, state).json(&lock_info(id));
        Ok(request.send().await?)
    }

    /// Asks the state engine about a state.
    pub(super) async fn state_engine(
        &self,
        what: &str,
        state: &str,
        mut body: Value,
    ) -> Result<Value> {
        let (service, place) = self
            .base
            .split_once("/v1/states/")
            .context("the address of a state has another form")?;
        body["state"] = json!(format!("{place}{state}"));
        let request = self.http.post(format!("{service}/v1/state-engine/{what}"));
        let answer = request.bearer_auth(&self.token).json(&body).send().await?;
        let status = answer.status();
        let answer: Value = answer.json().await?;
        ensure!(
            status.is_success(),
            "{what} was answered {status}: {answer}"
        );
        Ok(answer)
    }

    /// Waits in vain, in one request, for a run on an address that somebody holds.
    pub(super) async fn wait_for(
        &self,
        state: &str,
        address: &str,
        number: usize,
        seconds: u32,
    ) -> Result<()> {
        let scope = json!({
            "write": [address],
            "configuration": { "nodes": [{ "address": address, "repetition": "single" }], "calls": [] },
        });
        let key = format!("waiter-{number}");
        let (status, run) = self.ask_for_run(state, &key, scope, seconds).await?;
        ensure!(
            matches!(status, StatusCode::CONFLICT | StatusCode::LOCKED),
            "a waiter was answered {status}: {run}"
        );
        Ok(())
    }

    async fn ask_for_run(
        &self,
        state: &str,
        key: &str,
        scope: Value,
        wait_seconds: u32,
    ) -> Result<(StatusCode, Value)> {
        let (service, place) = self
            .base
            .split_once("/v1/states/")
            .context("the address of a state has another form")?;
        let body = json!({
            "state": format!("{place}{state}"), "kind": "apply", "key": key, "command": "kl apply", "who": "will@bench",
            "scope": scope, "lease_seconds": 900, "wait_seconds": wait_seconds,
        });
        let request = self.http.post(format!("{service}/v1/runs"));
        let answer = request.bearer_auth(&self.token).json(&body).send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    /// Begins a run that may write the scope.
    pub(super) async fn begin_run(&self, state: &str, scope: Value) -> Result<RunClient> {
        let (status, run) = self.ask_for_run(state, state, scope, 0).await?;
        ensure!(status.is_success(), "a run was answered {status}: {run}");
        let text = |member: &str| run["backend"][member].as_str().map(str::to_owned);
        Ok(RunClient {
            http: self.http.clone(),
            address: text("address").context("no address")?,
            token: text("password").context("no password")?,
        })
    }
}

/// A run's own http backend.
#[derive(Clone, Debug)]
pub(super) struct RunClient {
    http: reqwest::Client,
    address: String,
    token: String,
}

impl RunClient {
    pub(super) async fn lock(&self, id: &str) -> Result<()> {
        let method = Method::from_bytes(b"LOCK")?;
        expect_ok(self.request(method, "").json(&lock_info(id)).send().await?).await
    }

    pub(super) async fn read(&self) -> Result<Bytes> {
        let answer = self.request(Method::GET, "").send().await?;
        let status = answer.status();
        ensure!(status.is_success(), "a slice was answered {status}");
        Ok(answer.bytes().await?)
    }

    pub(super) async fn upload(&self, lock: &str, document: Vec<u8>) -> Result<()> {
        let request = self.request(Method::POST, &format!("?ID={lock}"));
        expect_ok(request.body(document).send().await?).await
    }

    fn request(&self, method: Method, query: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{query}", self.address))
            .basic_auth("run", Some(&self.token))
    }
}

async fn expect_ok(answer: Response) -> Result<()> {
    let status = answer.status();
    if status.is_success() {
        // Read to the end, so that the connection can be used again.
        answer.bytes().await?;
        return Ok(());
    }
    bail!("answered {status}: {}", answer.text().await?)
}
