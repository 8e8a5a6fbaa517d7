//! Extractors that prove the right to act. A handler takes the one that fits its address; it gets there only after the
//! dispatcher has decided over the route's action.

use std::ops::Deref;

use auth::{Context, Principal};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use protocol::{Code, EnvironmentId, StateName, WorkspaceId};

use super::gate::{Admitted, PathParams};
use crate::error::ApiError;

/// Somebody who may do the route's action, on whatever that is.
#[derive(Debug, Clone)]
pub struct Caller(Admitted);

impl Caller {
    /// The caller with its grants, as resolved from the token.
    #[must_use]
    pub const fn resolved(&self) -> &Principal {
        &self.0.principal
    }

    /// When the token ends.
    #[must_use]
    pub const fn expires_at(&self) -> DateTime<Utc> {
        self.0.expires_at
    }
}

impl Deref for Caller {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0.context
    }
}

/// Somebody who may do the route's action on the workspace in its address.
#[derive(Debug, Clone)]
pub struct WorkspaceCaller {
    caller: Caller,
    workspace: WorkspaceId,
}

impl WorkspaceCaller {
    /// The workspace.
    #[must_use]
    pub const fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The caller with its grants, as resolved from the token.
    #[must_use]
    pub const fn resolved(&self) -> &Principal {
        self.caller.resolved()
    }
}

impl Deref for WorkspaceCaller {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.caller
    }
}

/// Somebody who may do the route's action in the environment in its address.
#[derive(Debug, Clone)]
pub struct EnvironmentCaller {
    caller: Caller,
    workspace: WorkspaceId,
    environment: EnvironmentId,
}

impl EnvironmentCaller {
    /// The workspace.
    #[must_use]
    pub const fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The environment.
    #[must_use]
    pub const fn environment(&self) -> &EnvironmentId {
        &self.environment
    }
}

impl Deref for EnvironmentCaller {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.caller
    }
}

/// Somebody who may do the route's action on states of the environment in its address, and the name of the state
/// meant. Whether there is such a state is not known yet.
#[derive(Debug, Clone)]
pub struct StateCaller {
    caller: EnvironmentCaller,
    name: StateName,
}

impl StateCaller {
    /// A caller whose request was decided over what it names otherwise than in its address.
    pub(super) fn of(
        admitted: Admitted,
        workspace: WorkspaceId,
        environment: EnvironmentId,
        name: StateName,
    ) -> Self {
        Self {
            caller: EnvironmentCaller {
                caller: Caller(admitted),
                workspace,
                environment,
            },
            name,
        }
    }

    /// The workspace.
    #[must_use]
    pub const fn workspace(&self) -> &WorkspaceId {
        &self.caller.workspace
    }

    /// The environment.
    #[must_use]
    pub const fn environment(&self) -> &EnvironmentId {
        &self.caller.environment
    }

    /// The state's name, in the spelling of the address.
    #[must_use]
    pub const fn name(&self) -> &StateName {
        &self.name
    }
}

impl Deref for StateCaller {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.caller
    }
}

/// Somebody who may do the route's action on the run in its address.
#[derive(Debug, Clone)]
pub struct RunCaller(Caller);

impl Deref for RunCaller {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

/// An extractor that does not fit its route: a defect that any request to it shows.
pub(super) fn misplaced() -> ApiError {
    #[derive(Debug, thiserror::Error)]
    #[error("the handler asks for a caller that its route's address does not name")]
    struct Misplaced;
    ApiError::internal(&Misplaced)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Admitted>()
            .cloned()
            .map(Self)
            .ok_or_else(misplaced)
    }
}

impl<S: Sync> FromRequestParts<S> for WorkspaceCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let workspace = caller.workspace().cloned().ok_or_else(misplaced)?;
        Ok(Self { caller, workspace })
    }
}

impl<S: Sync> FromRequestParts<S> for EnvironmentCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let workspace = caller.workspace().cloned().ok_or_else(misplaced)?;
        let environment = caller.environment().cloned().ok_or_else(misplaced)?;
        Ok(Self {
            caller,
            workspace,
            environment,
        })
    }
}

impl<S: Sync> FromRequestParts<S> for StateCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = EnvironmentCaller::from_request_parts(parts, state).await?;
        let params = parts.extensions.get::<PathParams>().ok_or_else(misplaced)?;
        let name = params.state.as_deref().ok_or_else(misplaced)?;
        let name = name.parse().map_err(|error: protocol::InvalidName| {
            ApiError::with_detail(Code::InvalidName, error.to_string())
        })?;
        Ok(Self { caller, name })
    }
}

impl<S: Sync> FromRequestParts<S> for RunCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        if caller.run().is_none() {
            return Err(misplaced());
        }
        Ok(Self(caller))
    }
}
