//! What balancers and tools ask of the service itself.

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use protocol::Code;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::openapi;
use crate::state::AppState;
use crate::table::Route;

pub(super) fn routes() -> Vec<Route> {
    let probe = "a balancer has no token, and learns only whether the replica works";
    let public = "the document is the same for everybody";
    vec![
        Route::public(
            "get_health",
            Method::GET,
            "/healthz",
            probe,
            routes!(get_health),
        ),
        Route::public(
            "get_readiness",
            Method::GET,
            "/readyz",
            probe,
            routes!(get_readiness),
        ),
        Route::public(
            "get_version",
            Method::GET,
            "/versionz",
            probe,
            routes!(get_version),
        ),
        Route::public(
            "get_api",
            Method::GET,
            "/v1/openapi.json",
            public,
            routes!(get_api),
        ),
    ]
}

/// Whether the replica works.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
}

/// Whether the replica wants requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessReport {
    /// `ready`.
    pub status: &'static str,
    /// The database schema that this release needs at least.
    pub schema_wanted: i64,
}

/// What is running.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionReport {
    /// The release.
    pub version: &'static str,
    /// The database schema that it needs at least.
    pub schema_wanted: i64,
}

/// Says that the process runs and answers. It asks nothing of the database: restarting does not bring that back.
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, body = Health)))]
pub async fn get_health() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

/// Says whether the replica should be sent requests: the database is there, its schema is new enough, and the replica is
/// not going away.
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses((status = 200, body = ReadinessReport), (status = 503, body = protocol::Problem))
)]
pub async fn get_readiness(
    State(app): State<AppState>,
) -> Result<axum::Json<ReadinessReport>, ApiError> {
    let schema_wanted = store::schema::wanted_version();
    if app.readiness.is_draining() {
        return Err(ApiError::with_detail(
            Code::Unavailable,
            "the replica is going away",
        ));
    }
    match app.db.check_schema().await {
        Ok(()) => Ok(axum::Json(ReadinessReport {
            status: "ready",
            schema_wanted,
        })),
        Err(error @ store::Error::SchemaMismatch { found, .. }) => Err(ApiError::from(error)
            .with("schema_wanted", schema_wanted)
            .with("schema_found", found)),
        Err(error) => Err(ApiError::from(error).with("schema_wanted", schema_wanted)),
    }
}

/// Says what is running.
#[utoipa::path(get, path = "/versionz", tag = "service", responses((status = 200, body = VersionReport)))]
pub async fn get_version() -> axum::Json<VersionReport> {
    axum::Json(VersionReport {
        version: env!("CARGO_PKG_VERSION"),
        schema_wanted: store::schema::wanted_version(),
    })
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "service", responses((status = 200, description = "OpenAPI 3.1")))]
pub async fn get_api() -> Result<Response, ApiError> {
    let document = openapi::to_json(&super::table()).map_err(|error| ApiError::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}
