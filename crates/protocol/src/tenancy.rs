//! Workspaces, environments, members, tokens and the audit log.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{AuditId, EnvironmentId, PrincipalId, Role, WorkspaceId};

/// Who the presented token belongs to, and what it may do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The principal.
    pub principal: PrincipalId,
    /// Its name for people.
    pub display: String,
    /// Person, service or operator.
    pub kind: CallerKind,
    /// The public id of the token, which is no secret.
    pub token_id: String,
    /// When the token ends.
    pub expires_at: DateTime<Utc>,
    /// The workspace; absent for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// What the principal was granted.
    pub grants: Vec<Grant>,
    /// What the token may do at most.
    pub scope: TokenScope,
}

/// What kind of caller a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerKind {
    /// A person of a workspace.
    Person,
    /// A service of a workspace, such as a CI system.
    Service,
    /// An operator of the deployment. Makes workspaces and sees nothing inside them.
    Operator,
}

/// Whether a member is a person or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// A person.
    Person,
    /// A service, such as a CI system.
    Service,
}

/// A role in a workspace or in one of its environments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The environment it holds in; absent: in all of them and in the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
}

/// Whether a workspace may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceLifecycle {
    /// In use.
    Active,
    /// Kept, but every request of its members is refused.
    Suspended,
}

/// A workspace.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// Its id, which stands in addresses.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// Whether it may be used.
    pub lifecycle: WorkspaceLifecycle,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Makes a workspace together with its first admin, whose token is shown in the answer and never again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkspace {
    /// Its name, by the rules of state names; unique in the deployment without regard to case.
    pub name: String,
    /// The first admin's name for people, such as an e-mail address.
    pub admin: String,
}

/// A new workspace and its first admin.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedWorkspace {
    /// The workspace.
    pub workspace: Workspace,
    /// The first admin.
    pub admin: Member,
    /// The admin's first token.
    pub token: CreatedToken,
}

/// Changes a workspace.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateWorkspace {
    /// Suspends or resumes it.
    pub lifecycle: WorkspaceLifecycle,
}

/// A page of workspaces.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WorkspacePage {
    /// The workspaces, by id.
    pub workspaces: Vec<Workspace>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Environment {
    /// Its id, which stands in addresses.
    pub id: EnvironmentId,
    /// Its name.
    pub name: String,
    /// Whether writes of plain Terraform are accepted only under a lock.
    pub require_locks: bool,
    /// After how many seconds a Terraform lock ends by itself; absent: never, as Terraform cannot renew one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terraform_lock_ttl_seconds: Option<u32>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Makes an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEnvironment {
    /// Its name, by the rules of state names; unique in the workspace without regard to case.
    pub name: String,
    /// See [`Environment`]; false when absent.
    #[serde(default)]
    pub require_locks: bool,
    /// See [`Environment`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terraform_lock_ttl_seconds: Option<u32>,
}

/// Changes an environment; what is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateEnvironment {
    /// See [`Environment`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_locks: Option<bool>,
    /// See [`Environment`]; `null` removes the limit.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<u32>)]
    pub terraform_lock_ttl_seconds: Option<Option<u32>>,
}

/// The environments of a workspace that the caller may see.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentPage {
    /// The environments, by id.
    pub environments: Vec<Environment>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A person or service of a workspace.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub principal: PrincipalId,
    /// Person or service.
    pub kind: MemberKind,
    /// Its name for people.
    pub display: String,
    /// What it was granted.
    pub grants: Vec<Grant>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Makes a member with its first grant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateMember {
    /// Person or service.
    pub kind: MemberKind,
    /// Its name for people, such as an e-mail address or the name of a pipeline.
    pub display: String,
    /// The first grant's role.
    pub role: Role,
    /// The environment of that grant; absent: the whole workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
}

/// Puts grants in the place of all that a member has.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceGrants {
    /// The grants; several roles in one place add up.
    pub grants: Vec<Grant>,
}

/// A page of members.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MemberPage {
    /// The members, by id.
    pub members: Vec<Member>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a token may do at most, whatever its principal is granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenScope {
    /// No more than this role allows; absent: as granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Nowhere but in this environment; absent: as granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
}

/// Makes a token of a member.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Whose token it is.
    pub principal: PrincipalId,
    /// After how many days it ends: 1 to 365; 90 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<u16>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Narrows what it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TokenScope>,
}

/// A new token.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// All but the secret.
    pub token: Token,
    /// The token itself. Shown once: absent when a repeated request finds it already made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its public id: the 12 characters after the prefix.
    pub token_id: String,
    /// Whose it is.
    pub principal: PrincipalId,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it may do at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<TokenScope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last used; written in batches, so up to a minute behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<DateTime<Utc>>,
    /// From which network it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_network: Option<String>,
    /// With which user agent it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_agent: Option<String>,
}

/// A page of tokens.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenPage {
    /// The tokens, by id.
    pub tokens: Vec<Token>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Revokes a token that was found somewhere: it is its own proof.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    /// The whole token.
    pub token: String,
}

impl std::fmt::Debug for RevokeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RevokeToken { token: [redacted] }")
    }
}

/// One entry of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// When it happened.
    pub at: DateTime<Utc>,
    /// Who did it.
    pub principal: PrincipalId,
    /// That principal's name at the time.
    pub display: String,
    /// With which token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// What was done, such as `token.create`.
    pub action: String,
    /// To what.
    pub target: String,
    /// In which environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
    /// In which request.
    pub request_id: String,
    /// What was there before; never a state's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What is there now; never a state's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// How it ended: `done` or `refused`.
    pub result: String,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Keeps apart a member that is absent (`None`) and one that is null (`Some(None)`).
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_limit_stays_and_a_null_limit_goes() {
        let absent: UpdateEnvironment = serde_json::from_str("{}").unwrap();
        let null: UpdateEnvironment =
            serde_json::from_str(r#"{"terraform_lock_ttl_seconds":null}"#).unwrap();
        assert_eq!(absent.terraform_lock_ttl_seconds, None);
        assert_eq!(null.terraform_lock_ttl_seconds, Some(None));
    }

    #[test]
    fn a_token_to_revoke_is_not_printed() {
        let request = RevokeToken {
            token: "klp_secret".into(),
        };
        assert!(!format!("{request:?}").contains("secret"));
    }
}
