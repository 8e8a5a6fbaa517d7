//! A deployment with archives, and what people do with them through the API.

use std::time::Duration;

use archive_worker::work::{self, Stop};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::Engine;
use engine::archive::{Archives, WorkSettings};
use kld::config::WorkerConfig;
use protocol::archives::{Download, ImportUpload, Job, JobStatus, PART_BYTES};
use protocol::states::{Version, VersionPage};
use protocol::{Code, JobId, Role};
use reqwest::{RequestBuilder, Response};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::testing::TestDatabase;
use store::{Db, DbOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::harness::{Setup, TestApp, source};
use crate::s3_server::{self, S3Server};

/// Where a deployment keeps its archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Folder,
    S3,
}

/// A deployment.
pub(crate) struct World {
    pub(crate) app: TestApp,
    pub(crate) workspace: String,
    pub(crate) environment: String,
    pub(crate) admin: String,
    pub(crate) s3: Option<S3Server>,
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) folder: TempDir,
    workers: Vec<(Stop, JoinHandle<()>)>,
}

impl World {
    /// A deployment with one worker.
    pub(crate) async fn start(backend: Backend) -> Self {
        let mut world = Self::without_worker(backend).await;
        world.start_worker();
        world
    }

    pub(crate) async fn without_worker(backend: Backend) -> Self {
        Self::with_settings(backend, &[]).await
    }

    /// A deployment with one worker, and with these settings for replicas and workers.
    pub(crate) async fn start_with(backend: Backend, more: &[(&'static str, &str)]) -> Self {
        let mut world = Self::with_settings(backend, more).await;
        world.start_worker();
        world
    }

    /// The same without a worker.
    pub(crate) async fn with_settings(backend: Backend, more: &[(&'static str, &str)]) -> Self {
        _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let s3 = (backend == Backend::S3).then(S3Server::start);
        let mut settings = match &s3 {
            None => vec![("KL_BLOBS", format!("file:{}", folder.path().display()))],
            Some(server) => vec![
                ("KL_BLOBS", format!("s3://{}", s3_server::BUCKET)),
                ("KL_S3_ENDPOINT", server.endpoint()),
                ("KL_S3_ACCESS_KEY", s3_server::ACCESS_KEY.to_owned()),
                ("KL_S3_SECRET_KEY", s3_server::SECRET_KEY.to_owned()),
            ],
        };
        // Deployments share nothing, keys least of all.
        let key = STANDARD.encode(rand::random::<[u8; 32]>());
        settings.push(("KL_DEPLOYMENT_KEY", key));
        settings.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let setup = Setup {
            settings: settings.clone(),
            pool: 10,
            ..Setup::default()
        };
        let app = TestApp::start_with(TestDatabase::create().await, setup).await;
        let (workspace, environment, admin) = {
            let workspace = app.workspace("acme").await;
            let environment = workspace.environment("prod").await;
            (
                workspace.id.to_string(),
                environment.to_string(),
                workspace.token.clone(),
            )
        };
        Self {
            app,
            workspace,
            environment,
            admin,
            s3,
            settings,
            folder,
            workers: Vec::new(),
        }
    }

    /// What a worker of this deployment reads.
    pub(crate) fn worker_config(&self) -> WorkerConfig {
        let url = self.app.database.worker_url();
        WorkerConfig::load(&source(store::testing::expose(&url), &self.settings)).unwrap()
    }

    /// The use cases, as a worker has them.
    pub(crate) fn archives(&self) -> (Db, Archives) {
        let config = self.worker_config();
        let mut options = DbOptions::new(config.database_url.clone());
        options.max_connections = 6;
        let db = Db::connect(&options).unwrap();
        let key = config.deployment_key.expose_secret();
        let archives = config
            .archives
            .archives(&Engine::new(db.clone(), key, None, None), key);
        (db, archives.unwrap())
    }

    pub(crate) fn start_worker(&mut self) {
        let (db, archives) = self.archives();
        let stop = Stop::default();
        let working = tokio::spawn(work::run(db, archives, quick(), 2, stop.clone()));
        self.workers.push((stop, working));
    }

    /// Ends the workers of this process, giving back what they are at.
    pub(crate) async fn stop_workers(&mut self) {
        for (stop, working) in self.workers.drain(..) {
            stop.no_more.cancel();
            stop.give_back.cancel();
            working.await.unwrap();
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.app.request(method, path).bearer_auth(&self.admin)
    }

    /// An address in the environment's part of the API.
    pub(crate) fn place(&self, rest: &str) -> String {
        format!(
            "/v1/workspaces/{}/environments/{}{rest}",
            self.workspace, self.environment
        )
    }

    pub(crate) fn state(&self, rest: &str) -> String {
        format!("/v1/states/{}/{}/{rest}", self.workspace, self.environment)
    }

    /// Writes a document without a lock.
    pub(crate) async fn write(&self, name: &str, document: Vec<u8>) {
        let request = self.request("POST", &self.state(name)).body(document);
        ok(request.send().await.unwrap()).await;
    }

    /// Writes a document under a lock, where anything goes.
    pub(crate) async fn write_locked(&self, name: &str, document: Vec<u8>) {
        let id = uuid::Uuid::now_v7().to_string();
        let info = json!({ "ID": id, "Operation": "apply", "Info": "", "Who": "ann", "Version": "1", "Created": "2026-01-01T00:00:00Z", "Path": "" });
        let lock = self.request("LOCK", &self.state(name)).json(&info);
        ok(lock.send().await.unwrap()).await;
        self.write(&format!("{name}?ID={id}"), document).await;
        let unlock = self.request("UNLOCK", &self.state(name)).json(&info);
        ok(unlock.send().await.unwrap()).await;
    }

    /// Changes a resource of a [`document`](crate::documents::document) by a run of the native lane: each `since` becomes a
    /// version, and the run ends well. Answers its id.
    pub(crate) async fn change_by_run(&self, name: &str, index: usize, sinces: &[u64]) -> String {
        let address = format!("terraform_data.r{index:06}");
        let wanted = json!({
            "state": format!("{}/{}/{name}", self.workspace, self.environment), "kind": "apply",
            "key": uuid::Uuid::now_v7().to_string(), "command": "kl apply -f a.tf", "who": "ann@laptop",
            "scope": {
                "write": [address],
                "configuration": { "nodes": [{ "address": address, "repetition": "single" }], "calls": [] },
            },
        });
        let request = self.request("POST", "/v1/runs").json(&wanted);
        let run: Value = read(request.send().await.unwrap()).await;
        let id = run["id"].as_str().unwrap().to_owned();
        let password = run["backend"]["password"].as_str().unwrap();
        let send = async |method: &str, query: &str, body: Vec<u8>| {
            let path = format!("/v1/runs/{id}/state{query}");
            let request = self.app.request(method, &path);
            let request = request.basic_auth("run", Some(password)).body(body);
            ok(request.send().await.unwrap()).await
        };
        let info = json!({ "ID": "lock", "Operation": "OperationTypeApply", "Info": "", "Who": "ann", "Version": "1", "Created": "2026-01-01T00:00:00Z", "Path": "" });
        let info = info.to_string().into_bytes();
        send("LOCK", "", info.clone()).await;
        for since in sinces {
            let slice = String::from_utf8(send("GET", "", Vec::new()).await).unwrap();
            let number = |after: &str| -> u64 {
                let (_, rest) = slice.split_once(after).unwrap();
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().unwrap()
            };
            let (serial, before) = (number("\"serial\": "), number("\"since "));
            let next = slice
                .replacen(
                    &format!("\"serial\": {serial},"),
                    &format!("\"serial\": {},", serial + 1),
                    1,
                )
                .replace(
                    &format!("\"since {before}\""),
                    &format!("\"since {since}\""),
                );
            send("POST", "?ID=lock", next.into_bytes()).await;
        }
        send("UNLOCK", "", info).await;
        let path = format!("/v1/runs/{id}/finish");
        let body = json!({ "outcome": "succeeded", "checked": true });
        ok(self
            .request("POST", &path)
            .json(&body)
            .send()
            .await
            .unwrap())
        .await;
        id
    }

    pub(crate) async fn tag(&self, name: &str, tag: &str, version: &str) {
        let path = self.state(&format!("{name}/tags/{tag}"));
        let body = json!({ "version": version, "description": format!("why {tag}") });
        ok(self.request("PUT", &path).json(&body).send().await.unwrap()).await;
    }

    /// Asks for an export.
    pub(crate) async fn ask_export(&self, name: &str) -> Job {
        let path = self.state(&format!("{name}/archive"));
        let answer = self.request("POST", &path).json(&json!({})).send().await;
        read(answer.unwrap()).await
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        let path = self.place(&format!("/jobs/{id}"));
        read(self.request("GET", &path).send().await.unwrap()).await
    }

    /// Waits for a job to end.
    pub(crate) async fn end_of(&self, id: JobId) -> Job {
        loop {
            let job = self.job(id).await;
            if job.status.has_ended() {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits for a job to be done.
    pub(crate) async fn done(&self, id: JobId) -> Job {
        let job = self.end_of(id).await;
        assert_eq!(job.status, JobStatus::Done, "{job:?}");
        job
    }

    pub(crate) async fn sign_download(&self, id: JobId) -> Download {
        let path = self.place(&format!("/jobs/{id}/download"));
        read(self.request("POST", &path).send().await.unwrap()).await
    }

    /// A signed address as a whole URL.
    pub(crate) fn whole(&self, url: &str) -> String {
        if url.starts_with('/') {
            format!("http://{}{url}", self.app.replicas[0].address)
        } else {
            url.to_owned()
        }
    }

    /// Exports a state and downloads the archive.
    pub(crate) async fn export(&self, name: &str) -> Vec<u8> {
        let job = self.ask_export(name).await;
        let job = self.done(job.id).await;
        let download = self.sign_download(job.id).await;
        let answer = reqwest::get(self.whole(&download.url)).await.unwrap();
        let bytes = ok(answer).await;
        assert_eq!(hex(&Sha256::digest(&bytes)), download.archive.sha256);
        bytes
    }

    /// What an import is asked for with.
    pub(crate) fn import_request(bytes: &[u8], name: &str) -> Value {
        let parts: Vec<String> = bytes
            .chunks(usize::try_from(PART_BYTES).unwrap())
            .map(|part| hex(&Sha256::digest(part)))
            .collect();
        json!({ "name": name, "size_bytes": bytes.len(), "parts": parts })
    }

    pub(crate) async fn ask_import(&self, request: &Value) -> Response {
        let path = self.place("/imports");
        let answer = self.request("POST", &path).json(request).send().await;
        answer.unwrap()
    }

    pub(crate) async fn missing_parts(&self, id: JobId) -> ImportUpload {
        let path = self.place(&format!("/imports/{id}/parts"));
        read(self.request("POST", &path).send().await.unwrap()).await
    }

    pub(crate) async fn complete(&self, id: JobId) -> Response {
        let path = self.place(&format!("/imports/{id}/complete"));
        self.request("POST", &path).send().await.unwrap()
    }

    /// Puts every part that is missing.
    pub(crate) async fn upload(&self, id: JobId, bytes: &[u8]) {
        loop {
            let upload = self.missing_parts(id).await;
            if upload.parts.is_empty() {
                return;
            }
            for part in upload.parts {
                let start = usize::try_from(u64::from(part.number) * PART_BYTES).unwrap();
                let end = start + usize::try_from(part.size_bytes).unwrap();
                let mut put = reqwest::Client::new()
                    .put(self.whole(&part.url))
                    .body(bytes[start..end].to_vec());
                for (name, value) in &part.headers {
                    put = put.header(name, value);
                }
                ok(put.send().await.unwrap()).await;
            }
        }
    }

    /// Asks for an import, uploads, and waits for its end.
    pub(crate) async fn import(&self, bytes: &[u8], request: &Value) -> Job {
        let job: Job = read(self.ask_import(request).await).await;
        self.upload(job.id, bytes).await;
        read::<Job>(self.complete(job.id).await).await;
        self.end_of(job.id).await
    }

    /// Versions of a state, oldest first.
    pub(crate) async fn versions(&self, name: &str) -> Vec<Version> {
        let mut versions = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = self.state(&format!("{name}/versions?limit=500{cursor}"));
            let page: VersionPage = read(self.request("GET", &path).send().await.unwrap()).await;
            versions.extend(page.versions);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        versions.reverse();
        versions
    }

    pub(crate) async fn document(&self, name: &str, version: &str) -> Vec<u8> {
        let path = self.state(&format!("{name}/versions/{version}/document"));
        ok(self.request("GET", &path).send().await.unwrap()).await
    }

    pub(crate) async fn status_of(&self, name: &str) -> u16 {
        let path = self.state(name);
        let answer = self.request("GET", &path).send().await.unwrap();
        answer.status().as_u16()
    }

    /// The actions in the audit log, newest first.
    pub(crate) async fn audited(&self) -> Vec<String> {
        let path = format!("/v1/workspaces/{}/audit?limit=1000", self.workspace);
        let page: Value = read(self.request("GET", &path).send().await.unwrap()).await;
        page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["action"].as_str().unwrap().to_owned())
            .collect()
    }

    /// One number out of the database.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let found = sqlx::query_scalar(query).fetch_one(self.app.database.owner());
        found.await.unwrap()
    }

    /// Runs a statement as the owner of the database.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        let done = sqlx::query(statement).execute(self.app.database.owner());
        done.await.unwrap();
    }

    /// Makes every clean-up due, and waits until nothing is left to do or to delete.
    pub(crate) async fn cleaned(&self) {
        use futures::TryStreamExt as _;
        self.tamper("UPDATE job_queue SET not_before = now(); ")
            .await;
        self.tamper("SELECT pg_notify('kilolock_jobs', '')").await;
        while self.count("SELECT count(*) FROM job_queue").await > 0 {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let (_, archives) = self.archives();
        let left: Vec<_> = archives.blobs().list("w/").try_collect().await.unwrap();
        assert_eq!(left, []);
    }

    /// A member with a role, and a token.
    pub(crate) async fn member(&self, role: Role) -> String {
        let path = format!("/v1/workspaces/{}/members", self.workspace);
        let body = json!({ "kind": "service", "display": format!("{role}"), "role": role });
        let member: Value = read(
            self.request("POST", &path)
                .json(&body)
                .send()
                .await
                .unwrap(),
        )
        .await;
        let path = format!("/v1/workspaces/{}/tokens", self.workspace);
        let body = json!({ "principal": member["principal"] });
        let token: Value = read(
            self.request("POST", &path)
                .json(&body)
                .send()
                .await
                .unwrap(),
        )
        .await;
        token["secret"].as_str().unwrap().to_owned()
    }
}

/// Settings of workers in tests: dead ones are found soon.
pub(crate) fn quick() -> WorkSettings {
    WorkSettings {
        lease: Duration::from_secs(2),
        pause: Duration::from_secs(1),
        ..WorkSettings::default()
    }
}

/// The body of an answer that is a success.
pub(crate) async fn ok(answer: Response) -> Vec<u8> {
    let status = answer.status();
    let bytes = answer.bytes().await.unwrap().to_vec();
    assert!(
        status.is_success(),
        "{status}: {}",
        String::from_utf8_lossy(&bytes)
    );
    bytes
}

pub(crate) async fn read<T: serde::de::DeserializeOwned>(answer: Response) -> T {
    let bytes = ok(answer).await;
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
}

/// Fails unless the answer is a refusal with this code.
pub(crate) async fn refused(answer: Response, code: Code) -> Value {
    let status = answer.status().as_u16();
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(
        (status, problem["code"].as_str()),
        (code.status(), Some(code.as_str())),
        "{problem}"
    );
    problem
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
