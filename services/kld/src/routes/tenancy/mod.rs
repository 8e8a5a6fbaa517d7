//! Workspaces, environments, members, tokens and the audit log.

pub mod audit;
pub mod environments;
pub mod members;
pub(crate) mod repeatable;
pub mod tokens;
pub mod whoami;
pub mod workspaces;

pub use tokens::issue_token;

use auth::Action;
use axum::http::Method;
use protocol::Code;
use protocol::name::DisplayName;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::table::Route;

pub(super) fn routes() -> Vec<Route> {
    use Method as M;
    let own_proof = "whoever holds a token may end it: the token in the body is the proof";
    vec![
        Route::api(
            "read_self",
            M::GET,
            "/v1/whoami",
            Action::ReadSelf,
            routes!(whoami::read_self),
        ),
        Route::api(
            "create_workspace",
            M::POST,
            "/v1/workspaces",
            Action::CreateWorkspace,
            routes!(workspaces::create_workspace),
        ),
        Route::api(
            "list_workspaces",
            M::GET,
            "/v1/workspaces",
            Action::ListWorkspaces,
            routes!(workspaces::list_workspaces),
        ),
        Route::api(
            "get_workspace",
            M::GET,
            "/v1/workspaces/{ws}",
            Action::ReadWorkspace,
            routes!(workspaces::get_workspace),
        ),
        Route::api(
            "update_workspace",
            M::PATCH,
            "/v1/workspaces/{ws}",
            Action::UpdateWorkspace,
            routes!(workspaces::update_workspace),
        ),
        Route::api(
            "create_environment",
            M::POST,
            "/v1/workspaces/{ws}/environments",
            Action::CreateEnvironment,
            routes!(environments::create_environment),
        ),
        Route::api(
            "list_environments",
            M::GET,
            "/v1/workspaces/{ws}/environments",
            Action::ListEnvironments,
            routes!(environments::list_environments),
        ),
        Route::api(
            "get_environment",
            M::GET,
            "/v1/workspaces/{ws}/environments/{env}",
            Action::ReadEnvironment,
            routes!(environments::get_environment),
        ),
        Route::api(
            "update_environment",
            M::PATCH,
            "/v1/workspaces/{ws}/environments/{env}",
            Action::UpdateEnvironment,
            routes!(environments::update_environment),
        ),
        Route::api(
            "create_member",
            M::POST,
            "/v1/workspaces/{ws}/members",
            Action::CreateMember,
            routes!(members::create_member),
        ),
        Route::api(
            "list_members",
            M::GET,
            "/v1/workspaces/{ws}/members",
            Action::ListMembers,
            routes!(members::list_members),
        ),
        Route::api(
            "replace_grants",
            M::PUT,
            "/v1/workspaces/{ws}/members/{principal}/grants",
            Action::ChangeGrants,
            routes!(members::replace_grants),
        ),
        Route::api(
            "delete_grants",
            M::DELETE,
            "/v1/workspaces/{ws}/members/{principal}/grants",
            Action::ChangeGrants,
            routes!(members::delete_grants),
        ),
        Route::api(
            "create_token",
            M::POST,
            "/v1/workspaces/{ws}/tokens",
            Action::CreateToken,
            routes!(tokens::create_token),
        ),
        Route::api(
            "list_tokens",
            M::GET,
            "/v1/workspaces/{ws}/tokens",
            Action::ListTokens,
            routes!(tokens::list_tokens),
        ),
        Route::api(
            "revoke_token",
            M::DELETE,
            "/v1/workspaces/{ws}/tokens/{token_id}",
            Action::RevokeToken,
            routes!(tokens::revoke_token),
        ),
        Route::public(
            "revoke_found_token",
            M::POST,
            "/v1/tokens/revoke",
            own_proof,
            routes!(tokens::revoke_found_token),
        ),
        Route::api(
            "list_audit",
            M::GET,
            "/v1/workspaces/{ws}/audit",
            Action::ReadAudit,
            routes!(audit::list_audit),
        ),
    ]
}

/// The longest name of a member, and the longest description of a token, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Reads the name of a workspace or an environment.
fn parse_name(text: &str) -> Result<DisplayName, ApiError> {
    text.parse().map_err(|error: protocol::InvalidName| {
        ApiError::with_detail(Code::InvalidName, error.to_string())
    })
}

/// Checks a text that people wrote: it appears in histories, so it is one printable line.
fn check_text(field: &str, text: &str) -> Result<(), ApiError> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > MAX_TEXT_CHARS || text.chars().any(char::is_control) {
        return Err(ApiError::with_detail(
            Code::InvalidRequest,
            format!("`{field}` is one line of 1 to {MAX_TEXT_CHARS} characters"),
        ));
    }
    Ok(())
}

/// What a page of a list ends with: the cursor of the next, if the page is full. `limit` entries were asked for.
fn next_cursor<T>(page: &[T], limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
    let full = u32::try_from(page.len()).is_ok_and(|length| length >= limit);
    page.last().filter(|_| full).map(id)
}
