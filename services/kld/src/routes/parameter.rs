//! Parameters of addresses and queries that decisions are not made on.

use auth::TokenId;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::request::Parts;
use protocol::{Code, PrincipalId};
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// `{principal}`. An ill-formed one names nothing, so it is a 404 like anything that is not there.
#[derive(Debug, Clone)]
pub struct PrincipalParam(pub PrincipalId);

/// `{token_id}`. As [`PrincipalParam`].
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

/// The parameters of a query string. One that is unknown, ill-formed or given twice is refused by name.
#[derive(Debug, Clone)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(query)| Self(query)).map_err(|rejection| {
            // What it says names parameters and types, and perhaps a value that the caller sent a moment ago.
            ApiError::with_detail(Code::InvalidRequest, rejection.body_text())
        })
    }
}
