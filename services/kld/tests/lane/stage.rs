//! A deployment with one environment, and clients of it that speak the Terraform lane.

use std::collections::BTreeMap;

use protocol::states::{StateStatus, Version, VersionPage};
use protocol::tenancy::{CreatedToken, Member};
use protocol::{Code, Role};
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use store::testing::TestDatabase;

use crate::harness::{Setup, TestApp};

/// The lock information of a client, as Terraform sends it.
pub(crate) fn lock_info(id: &str) -> Value {
    json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": format!("{id}@ci"), "Version": "1.11.4",
        "Created": "2026-01-01T00:00:00Z", "Path": "",
    })
}

/// A deployment, a workspace, an environment.
pub(crate) struct Stage {
    pub(crate) app: TestApp,
    pub(crate) workspace: String,
    pub(crate) environment: String,
    pub(crate) admin: String,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub(crate) async fn start_with(setup: Setup) -> Self {
        Self::on(TestApp::start_with(TestDatabase::create().await, setup).await).await
    }

    /// On a deployment that is there already.
    pub(crate) async fn on(app: TestApp) -> Self {
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
        }
    }

    /// A new principal with one role in the whole workspace.
    pub(crate) async fn client(&self, role: Role) -> Client<'_> {
        let name = format!("{role}-{:x}", rand::random::<u32>());
        let member: Member = self
            .admin_request("POST", "/members")
            .json(&json!({ "kind": "service", "display": name, "role": role }))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let token: CreatedToken = self
            .admin_request("POST", "/tokens")
            .json(&json!({ "principal": member.principal }))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        Client {
            stage: self,
            token: token.secret.unwrap(),
            token_id: token.token.token_id.to_string(),
            principal: member.principal.to_string(),
            name,
            replica: 0,
        }
    }

    pub(crate) async fn writer(&self) -> Client<'_> {
        self.client(Role::Writer).await
    }

    /// A request of the admin to an address of the workspace.
    pub(crate) fn admin_request(&self, method: &str, rest: &str) -> RequestBuilder {
        let path = format!("/v1/workspaces/{}{rest}", self.workspace);
        self.app.request(method, &path).bearer_auth(&self.admin)
    }

    /// Changes settings of the environment.
    pub(crate) async fn configure(&self, settings: Value) {
        let rest = format!("/environments/{}", self.environment);
        let request = self.admin_request("PATCH", &rest).json(&settings);
        Reply::of(request).await.ok();
    }

    /// The actions in the audit log on a state, oldest first, with who did them.
    pub(crate) async fn audited(&self, action: &str) -> Vec<Value> {
        let request = self.admin_request("GET", "/audit");
        let page = Reply::of(request).await.ok().json();
        let entries = page["entries"].as_array().unwrap();
        let mut found: Vec<_> = entries
            .iter()
            .filter(|entry| entry["action"] == action)
            .cloned()
            .collect();
        found.reverse();
        found
    }

    /// Runs a statement as the owner of the database, behind the service's back.
    pub(crate) async fn tamper(&self, statement: &'static str) -> u64 {
        let done = sqlx::query(statement).execute(self.app.database.owner());
        done.await.unwrap().rows_affected()
    }

    /// One number out of the database.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let found = sqlx::query_scalar(query).fetch_one(self.app.database.owner());
        found.await.unwrap()
    }
}

/// Somebody with a token.
#[derive(Clone)]
pub(crate) struct Client<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) token: String,
    pub(crate) token_id: String,
    pub(crate) principal: String,
    pub(crate) name: String,
    pub(crate) replica: usize,
}

impl Client<'_> {
    /// The same on another replica.
    pub(crate) fn on(&self, replica: usize) -> Self {
        Self {
            replica,
            ..self.clone()
        }
    }

    /// The address of a state, with what follows the name.
    pub(crate) fn path(&self, name: &str) -> String {
        let Stage {
            workspace,
            environment,
            ..
        } = self.stage;
        format!("/v1/states/{workspace}/{environment}/{name}")
    }

    /// The same with scheme and host.
    pub(crate) fn url(&self, name: &str) -> String {
        let address = self.stage.app.replicas[self.replica].address;
        format!("http://{address}{}", self.path(name))
    }

    pub(crate) fn request(&self, method: &str, name: &str) -> RequestBuilder {
        let path = self.path(name);
        let request = self.stage.app.request_to(self.replica, method, &path);
        request.basic_auth("terraform", Some(&self.token))
    }

    /// Sends a request as it stands.
    pub(crate) async fn send(&self, method: &str, name: &str) -> Reply {
        Reply::of(self.request(method, name)).await
    }

    pub(crate) async fn send_json(&self, method: &str, name: &str, body: Value) -> Reply {
        Reply::of(self.request(method, name).json(&body)).await
    }

    pub(crate) async fn lock(&self, name: &str, id: &str) -> Reply {
        self.send_json("LOCK", name, lock_info(id)).await
    }

    pub(crate) async fn unlock(&self, name: &str, id: &str) -> Reply {
        self.send_json("UNLOCK", name, lock_info(id)).await
    }

    /// As Terraform sends it: chunked, empty, with the digest of nothing.
    pub(crate) async fn force_unlock(&self, name: &str) -> Reply {
        let empty = futures::stream::empty::<Result<bytes::Bytes, std::io::Error>>();
        let request = self
            .request("UNLOCK", name)
            .header("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")
            .body(reqwest::Body::wrap_stream(empty));
        Reply::of(request).await
    }

    /// Writes without a lock.
    pub(crate) async fn write(&self, name: &str, document: impl Into<reqwest::Body>) -> Reply {
        Reply::of(self.request("POST", name).body(document)).await
    }

    /// Writes under a lock.
    pub(crate) async fn write_under(
        &self,
        name: &str,
        id: &str,
        document: impl Into<reqwest::Body>,
    ) -> Reply {
        self.write(&format!("{name}?ID={id}"), document).await
    }

    /// Locks, writes, unlocks.
    pub(crate) async fn write_locked(&self, name: &str, document: impl Into<reqwest::Body>) {
        let id = uuid::Uuid::now_v7().to_string();
        self.lock(name, &id).await.ok();
        self.write_under(name, &id, document).await.ok();
        self.unlock(name, &id).await.ok();
    }

    pub(crate) async fn read(&self, name: &str) -> Reply {
        self.send("GET", name).await
    }

    /// The bytes of one version.
    pub(crate) async fn version(&self, name: &str, seq: i64) -> Vec<u8> {
        let reply = self.read(&format!("{name}/versions/{seq}/document")).await;
        reply.ok().body
    }

    /// The versions of a state, oldest first.
    pub(crate) async fn versions(&self, name: &str) -> Vec<Version> {
        let reply = self.read(&format!("{name}/versions?limit=500")).await.ok();
        let page: VersionPage = serde_json::from_slice(&reply.body).unwrap();
        page.versions.into_iter().rev().collect()
    }

    pub(crate) async fn status(&self, name: &str) -> StateStatus {
        let reply = self.read(&format!("{name}/status")).await.ok();
        serde_json::from_slice(&reply.body).unwrap()
    }

    pub(crate) async fn roll_back(&self, name: &str, to: i64) -> Reply {
        let body = json!({ "to": to.to_string() });
        self.send_json("POST", &format!("{name}/rollback"), body)
            .await
    }
}

/// An answer, read to its end.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = &self.body[..self.body.len().min(400)];
        write!(f, "{} {}", self.status, String::from_utf8_lossy(start))
    }
}

impl Reply {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{self:?}");
        self
    }

    /// Fails unless this is a refusal with the code, told as JSON.
    #[track_caller]
    pub(crate) fn refused(self, code: Code) -> BTreeMap<String, Value> {
        assert_eq!(self.status, code.status(), "{self:?}");
        let kind = self.headers["content-type"].to_str().unwrap();
        assert!(
            ["application/json", "application/problem+json"].contains(&kind),
            "{kind}"
        );
        let problem: BTreeMap<String, Value> = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["code"], code.as_str(), "{self:?}");
        problem
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}
