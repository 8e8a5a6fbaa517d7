//! Requests that name their state in the body or the query, and the decision over them.
//!
//! A state may be named more than once (the header that clients send with everything, a query, several members of the
//! body), as long as all mean the same one.

use auth::{Principal, Resource};
use axum::extract::{FromRequest, Query, Request};
use axum::http::Method;
use axum::http::request::Parts;
use protocol::state_engine::StateIdentity;
use protocol::{Code, EnvironmentId, StateName, WorkspaceId};
use serde::de::DeserializeOwned;

use super::caller::{StateCaller, misplaced};
use super::gate::{Undecided, record};
use crate::body::{MAX_JSON_BYTES, parse, read_json};
use crate::dispatch::RequestId;
use crate::error::ApiError;
use crate::state::AppState;

/// Names the state in every request of some clients.
const STATE_HEADER: &str = "x-kilolock-state-name";

/// Somebody who may do the route's action on the state that the request names, with the body of the request. Whether
/// there is such a state is not known yet.
#[derive(Debug, Clone)]
pub struct Named<T, const MAX_BYTES: u64 = MAX_JSON_BYTES> {
    /// The caller, and the state.
    pub caller: StateCaller,
    /// The body; without one, what the query says.
    pub body: T,
}

impl<T: DeserializeOwned, const MAX_BYTES: u64> FromRequest<AppState> for Named<T, MAX_BYTES> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let undecided: Undecided = parts.extensions.remove().ok_or_else(misplaced)?;
        let mut identities = Vec::new();
        let bytes = match parts.method {
            Method::GET | Method::HEAD => None,
            _ => {
                let bytes = read_json(&parts.headers, body, MAX_BYTES).await?;
                identities.push(parse::<StateIdentity>(&bytes)?);
                Some(bytes)
            }
        };
        identities.extend(of_head(&parts)?);
        let place = Place::of(&identities, undecided.principal())?;
        let resource = place.resource();
        let mut admitted = undecided.decide(app, &parts, resource).await?;
        if let Some(RequestId(id)) = parts.extensions.get::<RequestId>() {
            admitted.context = admitted.context.in_request(id.as_str());
        }
        record(&admitted.context);
        let caller = place.caller(admitted)?;
        let body = match bytes {
            Some(bytes) => parse(&bytes)?,
            None => query(&parts)?,
        };
        Ok(Self { caller, body })
    }
}

/// What the query and the header name.
fn of_head(parts: &Parts) -> Result<Vec<StateIdentity>, ApiError> {
    let mut named: Vec<StateIdentity> = vec![query(parts)?];
    for value in parts.headers.get_all(STATE_HEADER) {
        let state = value.to_str().map_err(|_| {
            ApiError::with_detail(Code::InvalidName, "X-Kilolock-State-Name is no name")
        })?;
        named.push(StateIdentity {
            state: Some(state.to_owned()),
            ..StateIdentity::default()
        });
    }
    Ok(named)
}

fn query<T: DeserializeOwned>(parts: &Parts) -> Result<T, ApiError> {
    let query = Query::<T>::try_from_uri(&parts.uri);
    query
        .map(|Query(query)| query)
        .map_err(|rejection| ApiError::with_detail(Code::InvalidRequest, rejection.body_text()))
}

/// The one state that a request names, as it is spelled there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    workspace: String,
    environment: String,
    name: String,
}

impl Place {
    fn of(identities: &[StateIdentity], principal: &Principal) -> Result<Self, ApiError> {
        let mut found: Option<Self> = None;
        for path in identities.iter().flat_map(StateIdentity::paths) {
            let place = Self::read(&path, principal)?;
            match &found {
                Some(other) if *other != place => {
                    return Err(ApiError::with_detail(
                        Code::QueryAmbiguous,
                        "two parts of the request name different states",
                    ));
                }
                _ => found = Some(place),
            }
        }
        found.ok_or_else(|| {
            ApiError::with_detail(
                Code::InvalidRequest,
                "state, state_url, or workspace_id/env_public_id/state_name is required",
            )
        })
    }

    /// A full path, or a name alone: then workspace and environment are those of the credential, if it has but one.
    fn read(path: &str, principal: &Principal) -> Result<Self, ApiError> {
        let segments: Vec<&str> = path.split('/').collect();
        let (workspace, environment, name) = match segments[..] {
            [workspace, environment, name] => (workspace.to_owned(), environment.to_owned(), name),
            [name] => {
                let (workspace, environment) = only_environment(principal)?;
                (workspace.to_string(), environment.to_string(), name)
            }
            _ => {
                return Err(ApiError::with_detail(
                    Code::InvalidName,
                    "a state is named `workspace/environment/name`",
                ));
            }
        };
        Ok(Self {
            workspace,
            environment,
            name: name.to_owned(),
        })
    }

    fn resource(&self) -> Option<Resource> {
        let workspace: WorkspaceId = self.workspace.parse().ok()?;
        let environment: EnvironmentId = self.environment.parse().ok()?;
        Some(Resource::Environment(workspace, environment))
    }

    fn caller(self, admitted: super::gate::Admitted) -> Result<StateCaller, ApiError> {
        let place = (
            admitted.context.workspace().cloned(),
            admitted.context.environment().cloned(),
        );
        let (Some(workspace), Some(environment)) = place else {
            return Err(misplaced());
        };
        let name: StateName = self.name.parse().map_err(|error: protocol::InvalidName| {
            ApiError::with_detail(Code::InvalidName, error.to_string())
        })?;
        Ok(StateCaller::of(admitted, workspace, environment, name))
    }
}

fn only_environment(principal: &Principal) -> Result<(WorkspaceId, EnvironmentId), ApiError> {
    let environment = match principal.visible_environments() {
        Some(environments) if environments.len() == 1 => environments.into_iter().next(),
        Some(_) => None,
        None if principal.environments.len() == 1 => principal.environments.first().cloned(),
        None => None,
    };
    principal.workspace.clone().zip(environment).ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "the credential is not for one environment only: name the state as `workspace/environment/name`",
        )
    })
}
