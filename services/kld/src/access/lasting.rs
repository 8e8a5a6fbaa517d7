//! The right to go on with an answer that lasts: the question of the beginning, asked again.

use auth::{Action, Decision, Resource};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::caller::misplaced;
use super::credentials;
use super::gate::{Admitted, judge};
use crate::error::ApiError;
use crate::state::AppState;

/// What a request was allowed, and the credentials it came with.
#[derive(Debug, Clone)]
pub struct Lasting {
    headers: HeaderMap,
    action: Action,
    resource: Resource,
}

impl Lasting {
    /// Whether it is still allowed. Costs nothing where the verdict on the token is remembered, which is for seconds.
    ///
    /// # Errors
    ///
    /// When that cannot be found out.
    pub async fn holds(&self, app: &AppState) -> Result<bool, ApiError> {
        let token = credentials::token(&self.headers)?;
        let mac = app.config.token_pepper.mac(&token);
        match app.verdicts.resolve(&token, &mac).await {
            Ok((verdict, _)) => {
                let decision = judge(&verdict.principal, self.action, Some(&self.resource));
                Ok(matches!(decision, Decision::Allowed(_)))
            }
            Err(refusal) if refusal.code().status() == 401 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Lasting {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let admitted = parts.extensions.get::<Admitted>().ok_or_else(misplaced)?;
        let context = &admitted.context;
        let place = context
            .workspace()
            .cloned()
            .zip(context.environment().cloned());
        let (workspace, environment) = place.ok_or_else(misplaced)?;
        Ok(Self {
            headers: parts.headers.clone(),
            action: context.action(),
            resource: match context.run() {
                Some(run) => Resource::Run(workspace, environment, run),
                None => Resource::Environment(workspace, environment),
            },
        })
    }
}
