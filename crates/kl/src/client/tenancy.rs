//! The routes of the caller, environments, members, tokens and the audit log.

use protocol::tenancy::{
    AuditPage, CreateEnvironment, CreateMember, CreateToken, CreatedToken, Environment,
    EnvironmentPage, Member, MemberPage, ReplaceGrants, RevokeToken, TokenPage, UpdateEnvironment,
    WhoAmI,
};
use protocol::{EnvironmentId, PrincipalId, WorkspaceId};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::{ApiError, Call, Client, Repeat};
use crate::secret::Secret;

impl Client {
    /// Who the token belongs to.
    pub(crate) async fn get_caller(&self) -> Result<WhoAmI, ApiError> {
        self.json(Call::get(self.server.route(&["v1", "whoami"])))
            .await
    }

    pub(crate) async fn list_environments(
        &self,
        workspace: &WorkspaceId,
        cursor: Option<&str>,
    ) -> Result<EnvironmentPage, ApiError> {
        let url = self.in_workspace(workspace, &["environments"]);
        self.json(Call::get(with_cursor(url, cursor))).await
    }

    pub(crate) async fn get_environment(
        &self,
        workspace: &WorkspaceId,
        environment: &EnvironmentId,
    ) -> Result<Environment, ApiError> {
        let url = self.in_workspace(workspace, &["environments", environment.as_str()]);
        self.json(Call::get(url)).await
    }

    pub(crate) async fn create_environment(
        &self,
        workspace: &WorkspaceId,
        wanted: &CreateEnvironment,
    ) -> Result<Environment, ApiError> {
        let url = self.in_workspace(workspace, &["environments"]);
        self.json(creating(url).json(wanted)?).await
    }

    pub(crate) async fn update_environment(
        &self,
        workspace: &WorkspaceId,
        environment: &EnvironmentId,
        change: &UpdateEnvironment,
    ) -> Result<Environment, ApiError> {
        let url = self.in_workspace(workspace, &["environments", environment.as_str()]);
        let call = Call::new(Method::PATCH, url, Repeat::Freely);
        self.json(call.json(change)?).await
    }

    pub(crate) async fn list_members(
        &self,
        workspace: &WorkspaceId,
        cursor: Option<&str>,
    ) -> Result<MemberPage, ApiError> {
        let url = self.in_workspace(workspace, &["members"]);
        self.json(Call::get(with_cursor(url, cursor))).await
    }

    pub(crate) async fn create_member(
        &self,
        workspace: &WorkspaceId,
        wanted: &CreateMember,
    ) -> Result<Member, ApiError> {
        let url = self.in_workspace(workspace, &["members"]);
        self.json(creating(url).json(wanted)?).await
    }

    /// Puts grants in the place of all that a member has.
    pub(crate) async fn replace_grants(
        &self,
        workspace: &WorkspaceId,
        principal: &PrincipalId,
        wanted: &ReplaceGrants,
    ) -> Result<Member, ApiError> {
        let url = self.in_workspace(workspace, &["members", principal.as_str(), "grants"]);
        let call = Call::new(Method::PUT, url, Repeat::Freely);
        self.json(call.json(wanted)?).await
    }

    pub(crate) async fn delete_grants(
        &self,
        workspace: &WorkspaceId,
        principal: &PrincipalId,
    ) -> Result<(), ApiError> {
        let url = self.in_workspace(workspace, &["members", principal.as_str(), "grants"]);
        self.done(Call::new(Method::DELETE, url, Repeat::Freely))
            .await
    }

    /// One page of the audit log, newest first.
    pub(crate) async fn list_audit(
        &self,
        workspace: &WorkspaceId,
        cursor: Option<&str>,
    ) -> Result<AuditPage, ApiError> {
        let url = self.in_workspace(workspace, &["audit"]);
        self.json(Call::get(with_cursor(url, cursor))).await
    }

    pub(crate) async fn list_tokens(
        &self,
        workspace: &WorkspaceId,
        cursor: Option<&str>,
    ) -> Result<TokenPage, ApiError> {
        let url = self.in_workspace(workspace, &["tokens"]);
        self.json(Call::get(with_cursor(url, cursor))).await
    }

    /// Makes a token. Its secret comes once: a repeated request would find the token and not the
    /// secret, so this is sent again only when it cannot have arrived.
    pub(crate) async fn create_token(
        &self,
        workspace: &WorkspaceId,
        wanted: &CreateToken,
    ) -> Result<CreatedToken, ApiError> {
        let url = self.in_workspace(workspace, &["tokens"]);
        self.json(creating(url).json(wanted)?).await
    }

    pub(crate) async fn revoke_token(
        &self,
        workspace: &WorkspaceId,
        token_id: &str,
    ) -> Result<(), ApiError> {
        let url = self.in_workspace(workspace, &["tokens", token_id]);
        self.done(Call::new(Method::DELETE, url, Repeat::Freely))
            .await
    }

    /// Revokes a token that was found somewhere; it is its own proof.
    pub(crate) async fn revoke_leaked_token(&self, token: &Secret) -> Result<(), ApiError> {
        let request = RevokeToken {
            token: token.expose().to_owned(),
        };
        let url = self.server.route(&["v1", "tokens", "revoke"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.done(call.json(&request)?).await
    }

    fn in_workspace(&self, workspace: &WorkspaceId, rest: &[&str]) -> Url {
        let mut segments = vec!["v1", "workspaces", workspace.as_str()];
        segments.extend(rest);
        self.server.route(&segments)
    }
}

/// A request that makes something: its key lets the server see a repetition for what it is.
fn creating(url: Url) -> Call {
    let key = uuid::Uuid::new_v4().to_string();
    let call = Call::new(Method::POST, url, Repeat::BeforeArrival);
    match HeaderValue::from_str(&key) {
        Ok(key) => call.header(HeaderName::from_static("idempotency-key"), key),
        Err(_) => call,
    }
}

fn with_cursor(mut url: Url, cursor: Option<&str>) -> Url {
    if let Some(cursor) = cursor {
        url.query_pairs_mut().append_pair("cursor", cursor);
    }
    url
}
