//! The stack's tenants, created through the HTTP API with the operator token.
//!
//! Two workspaces, so that a test can look for walls between them: the main one has two environments and a member of
//! each common role, the other one an environment and a writer.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// Longer than any stack lives.
const TOKEN_DAYS: u32 = 7;

/// Everything a command needs to act as somebody.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) workspace: String,
    pub(crate) environment: String,
    pub(crate) second_environment: String,
    pub(crate) admin_token: String,
    pub(crate) writer_token: String,
    pub(crate) reader_token: String,
    pub(crate) other_workspace: String,
    pub(crate) other_environment: String,
    pub(crate) other_writer_token: String,
}

impl Tenancy {
    pub(crate) async fn create(url: &str, operator_token: &str) -> Result<Self> {
        let api = Api {
            client: reqwest::Client::new(),
            base: format!("{url}/v1/workspaces"),
            token: operator_token.to_owned(),
        };
        let workspace = api.create_workspace("acme").await?;
        let other_workspace = api.create_workspace("globex").await?;
        Ok(Self {
            environment: api.create_environment(&workspace, "prod").await?,
            second_environment: api.create_environment(&workspace, "staging").await?,
            admin_token: api.create_member(&workspace, "ada", "admin").await?,
            writer_token: api.create_member(&workspace, "will", "writer").await?,
            reader_token: api.create_member(&workspace, "rita", "reader").await?,
            workspace,
            other_environment: api.create_environment(&other_workspace, "prod").await?,
            other_writer_token: api
                .create_member(&other_workspace, "olga", "writer")
                .await?,
            other_workspace,
        })
    }
}

/// The few calls of the tenancy API that a stack needs.
struct Api {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl Api {
    async fn create_workspace(&self, name: &str) -> Result<String> {
        self.post("", json!({ "name": name }), "id").await
    }

    async fn create_environment(&self, workspace: &str, name: &str) -> Result<String> {
        let path = format!("/{workspace}/environments");
        self.post(&path, json!({ "name": name }), "id").await
    }

    /// Creates a person with `role` in the whole workspace; answers a token of theirs.
    async fn create_member(&self, workspace: &str, name: &str, role: &str) -> Result<String> {
        let member = json!({ "kind": "person", "display": name, "role": role });
        let principal = self
            .post(&format!("/{workspace}/members"), member, "id")
            .await?;
        let token = json!({ "principal": principal, "expires_in_days": TOKEN_DAYS });
        self.post(&format!("/{workspace}/tokens"), token, "token")
            .await
    }

    /// Posts `body` and picks one text field of the answer.
    async fn post(&self, path: &str, body: Value, field: &str) -> Result<String> {
        let url = format!("{}{path}", self.base);
        let answer = self
            .client
            .post(&url)
            .bearer_auth(&self.token)
            .json(&body)
            .send()
            .await?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("POST {url} answered {status}: {text}");
        }
        let answer: Value = serde_json::from_str(&text)
            .with_context(|| format!("POST {url} answered something else than JSON"))?;
        answer[field]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("POST {url} answered without `{field}`"))
    }
}
