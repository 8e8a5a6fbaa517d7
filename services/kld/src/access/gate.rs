//! The decision over a request, before its handler exists.

use auth::{Action, Context, Decision, Principal, Resource, authorize};
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use protocol::Code;
use telemetry::VerdictSource;

use super::credentials;
use crate::error::ApiError;
use crate::state::AppState;
use crate::table::{Lane, Scope};

/// The parameters of a request's address that decisions are made on, as they stand in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathParams {
    pub(crate) workspace: Option<String>,
    pub(crate) environment: Option<String>,
    pub(crate) state: Option<String>,
}

/// What a decided request knows beside its [`Context`].
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) context: Context,
    pub(crate) principal: Principal,
    pub(crate) expires_at: DateTime<Utc>,
}

/// Resolves the caller and decides.
///
/// What a remembered verdict allows is allowed; what it refuses is looked up again first, so that an environment or a
/// grant made a moment ago, perhaps on another replica, counts at once.
///
/// # Errors
///
/// 401, 403 or 404 by the lane's customs; 503 when the database is needed and away.
pub(crate) async fn admit(
    app: &AppState,
    parts: &Parts,
    lane: Lane,
    scope: Scope,
    action: Action,
    params: &PathParams,
) -> Result<Admitted, ApiError> {
    let token = credentials::token(&parts.headers)?;
    let mac = app.config.token_pepper.mac(&token);
    let (mut verdict, source) = app.verdicts.resolve(&token, &mac).await?;
    app.token_uses.note(token.id(), parts);

    let mut decision = decide(&verdict.principal, action, scope, params);
    if source == VerdictSource::Cache && !matches!(decision, Decision::Allowed(_)) {
        verdict = app.verdicts.resolve_afresh(&token, &mac).await?;
        decision = decide(&verdict.principal, action, scope, params);
    }
    match decision {
        Decision::Allowed(context) => Ok(Admitted {
            context,
            principal: verdict.principal.clone(),
            expires_at: verdict.expires_at,
        }),
        Decision::Suspended => Err(ApiError::new(Code::WorkspaceSuspended)),
        Decision::Forbidden => Err(ApiError::new(Code::Forbidden)),
        Decision::Hidden => Err(ApiError::new(match lane {
            Lane::Terraform => Code::Forbidden,
            Lane::Api => Code::NotFound,
        })),
    }
}

/// Decides over what the address names. An ill-formed id names nothing, which looks like something absent.
fn decide(principal: &Principal, action: Action, scope: Scope, params: &PathParams) -> Decision {
    let workspace = || params.workspace.as_deref()?.parse().ok();
    let environment = || params.environment.as_deref()?.parse().ok();
    let resource = match scope {
        Scope::Caller => Some(Resource::Caller),
        Scope::Deployment => Some(Resource::Deployment),
        Scope::Workspace => workspace().map(Resource::Workspace),
        Scope::Environment => workspace()
            .zip(environment())
            .map(|(ws, env)| Resource::Environment(ws, env)),
    };
    match resource {
        Some(resource) => authorize(principal, action, &resource),
        None if principal.suspended => Decision::Suspended,
        None => Decision::Hidden,
    }
}
