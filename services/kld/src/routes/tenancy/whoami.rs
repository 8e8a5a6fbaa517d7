//! `GET /v1/whoami`.

use protocol::tenancy::WhoAmI;

use crate::access::Caller;

/// Says who the token belongs to and what it may do.
#[utoipa::path(
    get, path = "/v1/whoami", tag = "tenancy",
    responses((status = 200, body = WhoAmI), (status = 401, body = protocol::Problem))
)]
pub async fn read_self(caller: Caller) -> axum::Json<WhoAmI> {
    let principal = caller.resolved();
    axum::Json(WhoAmI {
        principal: principal.id.clone(),
        display: principal.display.clone(),
        kind: principal.kind,
        token_id: principal.token_id.to_string(),
        expires_at: caller.expires_at(),
        workspace: principal.workspace.clone(),
        grants: principal.grants.clone(),
        scope: principal.scope.clone(),
    })
}
