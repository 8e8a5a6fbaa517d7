//! The decision over a request, before its handler exists.

use std::sync::Arc;

use auth::{Action, Context, Decision, Principal, Resource, authorize};
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use protocol::{Code, RunId};
use store::tenancy::verdicts::Verdict;
use telemetry::VerdictSource;

use super::credentials;
use crate::error::ApiError;
use crate::state::AppState;
use crate::table::{Lane, Route, Scope};

/// The parameters of a request's address that decisions are made on, as they stand in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathParams {
    pub(crate) workspace: Option<String>,
    pub(crate) environment: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) run: Option<String>,
}

/// What a decided request knows beside its [`Context`].
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) context: Context,
    pub(crate) principal: Principal,
    pub(crate) expires_at: DateTime<Utc>,
}

/// Somebody whose token is good.
#[derive(Debug, Clone)]
pub(crate) struct Identified {
    verdict: Arc<Verdict>,
    source: VerdictSource,
}

/// Somebody whose token is good and whose request is not decided, because what it is on has not been read yet.
#[derive(Debug, Clone)]
pub(crate) struct Undecided {
    identified: Identified,
    action: Action,
    lane: Lane,
}

impl Identified {
    pub(crate) fn asking(self, action: Action, lane: Lane) -> Undecided {
        Undecided {
            identified: self,
            action,
            lane,
        }
    }
}

impl Undecided {
    pub(crate) fn principal(&self) -> &Principal {
        &self.identified.verdict.principal
    }

    /// Decides over a resource; `None` names nothing, which looks like something absent.
    pub(crate) async fn decide(
        self,
        app: &AppState,
        parts: &Parts,
        resource: Option<Resource>,
    ) -> Result<Admitted, ApiError> {
        decide(
            app,
            parts,
            self.identified,
            self.lane,
            self.action,
            resource,
        )
        .await
    }
}

/// Resolves the caller.
///
/// # Errors
///
/// 401; 503 when the database is needed and away.
pub(crate) async fn identify(app: &AppState, parts: &Parts) -> Result<Identified, ApiError> {
    let token = credentials::token(&parts.headers)?;
    let mac = app.config.token_pepper.mac(&token);
    let (verdict, source) = app.verdicts.resolve(&token, &mac).await?;
    app.token_uses.note(token.id(), parts);
    Ok(Identified { verdict, source })
}

/// Resolves the caller and decides over what the address names.
///
/// # Errors
///
/// 401, 403 or 404 by the lane's customs; 503 when the database is needed and away.
pub(crate) async fn admit(
    app: &AppState,
    parts: &Parts,
    route: &Route,
    action: Action,
    params: &PathParams,
) -> Result<Admitted, ApiError> {
    let identified = identify(app, parts).await?;
    let resource = match route.scope() {
        Scope::Run => run(app, &identified, params).await?,
        scope => resource(scope, params),
    };
    decide(app, parts, identified, route.lane, action, resource).await
}

/// Decides.
///
/// What a remembered verdict allows is allowed; what it refuses is looked up again first, so that an environment or a
/// grant made a moment ago, perhaps on another replica, counts at once.
async fn decide(
    app: &AppState,
    parts: &Parts,
    identified: Identified,
    lane: Lane,
    action: Action,
    resource: Option<Resource>,
) -> Result<Admitted, ApiError> {
    let Identified {
        mut verdict,
        source,
    } = identified;
    let mut decision = judge(&verdict.principal, action, resource.as_ref());
    if source == VerdictSource::Cache && !matches!(decision, Decision::Allowed(_)) {
        let token = credentials::token(&parts.headers)?;
        let mac = app.config.token_pepper.mac(&token);
        verdict = app.verdicts.resolve_afresh(&token, &mac).await?;
        decision = judge(&verdict.principal, action, resource.as_ref());
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

pub(super) fn judge(
    principal: &Principal,
    action: Action,
    resource: Option<&Resource>,
) -> Decision {
    match resource {
        Some(resource) => authorize(principal, action, resource),
        None if principal.suspended => Decision::Suspended,
        None => Decision::Hidden,
    }
}

/// The run that an address names, in the caller's own workspace: one of another workspace is not there.
async fn run(
    app: &AppState,
    identified: &Identified,
    params: &PathParams,
) -> Result<Option<Resource>, ApiError> {
    let Some(workspace) = identified.verdict.principal.workspace.clone() else {
        return Ok(None);
    };
    let Some(id) = params
        .run
        .as_deref()
        .and_then(|text| text.parse::<RunId>().ok())
    else {
        return Ok(None);
    };
    let environment = app.run_places.environment(&workspace, id).await?;
    Ok(environment.map(|environment| Resource::Run(workspace, environment, id)))
}

/// What an address names. An ill-formed id names nothing, which looks like something absent.
fn resource(scope: Scope, params: &PathParams) -> Option<Resource> {
    let workspace = || params.workspace.as_deref()?.parse().ok();
    let environment = || params.environment.as_deref()?.parse().ok();
    match scope {
        Scope::Caller => Some(Resource::Caller),
        Scope::Deployment => Some(Resource::Deployment),
        Scope::Workspace => workspace().map(Resource::Workspace),
        Scope::Environment => workspace()
            .zip(environment())
            .map(|(ws, env)| Resource::Environment(ws, env)),
        Scope::Named | Scope::Run => None,
    }
}

/// Notes in the request's span where it is and with which token.
pub(crate) fn record(context: &Context) {
    let span = tracing::Span::current();
    span.record("token.id", context.token_id().as_str());
    if let Some(workspace) = context.workspace() {
        span.record("workspace.id", workspace.as_str());
    }
    if let Some(environment) = context.environment() {
        span.record("environment.id", environment.as_str());
    }
}
