//! The stack's tenants, created through the HTTP API, beginning with the operator token.
//!
//! Two workspaces, so that a test can look for walls between them: the main one has two environments and a member of
//! each common role, the other one an environment and a writer.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::terraform::Backend;

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
        let operator = Api::new(url, operator_token);
        let (workspace, admin_token) = operator.create_workspace("acme", "ada").await?;
        let (other_workspace, other_admin_token) =
            operator.create_workspace("globex", "oscar").await?;

        // An operator makes workspaces and sees nothing inside them; from here on their admins act.
        let ada = Api::new(url, &admin_token);
        let oscar = Api::new(url, &other_admin_token);
        Ok(Self {
            environment: ada.create_environment(&workspace, "prod").await?,
            second_environment: ada.create_environment(&workspace, "staging").await?,
            writer_token: ada.create_member(&workspace, "will", "writer").await?,
            reader_token: ada.create_member(&workspace, "rita", "reader").await?,
            workspace,
            admin_token,
            other_environment: oscar.create_environment(&other_workspace, "prod").await?,
            other_writer_token: oscar
                .create_member(&other_workspace, "olga", "writer")
                .await?,
            other_workspace,
        })
    }

    /// A state of the main environment as its writer sees it, through the service at `url`.
    pub(crate) fn writes(&self, url: &str, state: &str) -> Backend {
        Backend {
            address: format!(
                "{url}/v1/states/{}/{}/{state}",
                self.workspace, self.environment
            ),
            token: self.writer_token.clone(),
        }
    }
}

/// The few calls of the tenancy API that a stack needs, as one caller.
struct Api {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl Api {
    fn new(url: &str, token: &str) -> Self {
        Self {
            client: reqwest::Client::new(),
            base: format!("{url}/v1/workspaces"),
            token: token.to_owned(),
        }
    }

    /// Creates a workspace with its first admin; answers its id and the admin's token.
    async fn create_workspace(&self, name: &str, admin: &str) -> Result<(String, String)> {
        let created = self
            .post("", json!({ "name": name, "admin": admin }))
            .await?;
        Ok((
            text(&created, "/workspace/id")?,
            text(&created, "/token/secret")?,
        ))
    }

    async fn create_environment(&self, workspace: &str, name: &str) -> Result<String> {
        let path = format!("/{workspace}/environments");
        text(&self.post(&path, json!({ "name": name })).await?, "/id")
    }

    /// Creates a person with `role` in the whole workspace; answers a token of theirs.
    async fn create_member(&self, workspace: &str, name: &str, role: &str) -> Result<String> {
        let member = json!({ "kind": "person", "display": name, "role": role });
        let member = self.post(&format!("/{workspace}/members"), member).await?;
        let token = json!({
            "principal": text(&member, "/principal")?,
            "expires_in_days": TOKEN_DAYS,
        });
        let token = self.post(&format!("/{workspace}/tokens"), token).await?;
        text(&token, "/secret")
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value> {
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
        serde_json::from_str(&text)
            .with_context(|| format!("POST {url} answered something else than JSON"))
    }
}

/// The text at a JSON pointer.
fn text(answer: &Value, pointer: &str) -> Result<String> {
    answer
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .with_context(|| format!("an answer of the tenancy API has no text at {pointer}"))
}
