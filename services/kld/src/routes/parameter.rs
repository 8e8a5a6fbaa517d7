//! Parameters of addresses that decisions are not made on. An ill-formed one names nothing, so it is a 404 like anything
//! that is not there.

use auth::TokenId;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use protocol::{Code, PrincipalId};

use crate::error::ApiError;

/// `{principal}`.
#[derive(Debug, Clone)]
pub struct PrincipalParam(pub PrincipalId);

/// `{token_id}`.
#[derive(Debug, Clone)]
pub struct TokenParam(pub TokenId);

async fn parameter<T: std::str::FromStr>(parts: &mut Parts, name: &str) -> Result<T, ApiError> {
    let absent = || ApiError::new(Code::NotFound);
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| absent())?;
    let (_, value) = params
        .iter()
        .find(|(key, _)| *key == name)
        .ok_or_else(absent)?;
    value.parse().map_err(|_| absent())
}

impl<S: Sync> FromRequestParts<S> for PrincipalParam {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parameter(parts, "principal").await.map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for TokenParam {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parameter(parts, "token_id").await.map(Self)
    }
}
