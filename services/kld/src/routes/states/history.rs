//! The versions of a state, and the exact bytes of each.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{VersionRef, is_tag};
use protocol::runs::{AdoptKept, KeptComparison, Run};
use protocol::states::{Version, VersionPage};
use protocol::{Code, VersionId};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::render;
use crate::access::StateCaller;
use crate::body::Json as JsonBody;
use crate::error::ApiError;
use crate::routes::terraform::{acting, document_response};
use crate::state::AppState;

/// Versions of a page unless asked otherwise, and at most.
const PAGE: i64 = 50;
const LARGEST_PAGE: i64 = 500;

/// Reads how a version is named: its number, `head`, `@2` for two before the head, or its id.
fn version_ref(text: &str) -> Result<VersionRef, ApiError> {
    let wanted = match text {
        "head" | "current" => Some(VersionRef::Head),
        _ => match text.strip_prefix('@') {
            Some(back) => back
                .parse()
                .ok()
                .filter(|back| *back >= 0)
                .map(VersionRef::Back),
            None => text
                .parse()
                .ok()
                .filter(|seq| *seq > 0)
                .map(VersionRef::Seq)
                .or_else(|| {
                    text.parse::<VersionId>()
                        .ok()
                        .map(|id| VersionRef::Id(id.as_uuid()))
                }),
        },
    };
    wanted.ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "a version is named by its number, by its id, by a tag, by `head`, or by `@1` for the one before the head",
        )
    })
}

/// Finds out which version is meant, where its name may also be a tag of the state.
pub(crate) async fn named_version(
    app: &AppState,
    caller: &StateCaller,
    text: &str,
) -> Result<VersionRef, ApiError> {
    match version_ref(text) {
        Err(_) if is_tag(text) => {
            let acting = acting(caller)?;
            let tagged = app.engine.tagged_version(&acting, caller.name(), text);
            Ok(tagged.await?)
        }
        otherwise => otherwise,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct VersionQuery {
    /// At most so many versions; 50 unless given, 500 at most.
    limit: Option<i64>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<i64>,
}

/// The versions of a state, newest first.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/versions", tag = "states",
    params(VersionQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = VersionPage)))]
pub(super) async fn list_versions(
    State(app): State<AppState>,
    caller: StateCaller,
    Query(query): Query<VersionQuery>,
) -> Result<Json<VersionPage>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let versions = app
        .engine
        .list_versions(&acting(&caller)?, caller.name(), query.cursor, limit)
        .await?;
    let full = versions.len() as i64 == limit;
    let next_cursor = versions
        .last()
        .filter(|last| full && last.seq > 1)
        .map(|last| last.seq.to_string());
    Ok(Json(VersionPage {
        versions: versions.iter().map(render::version).collect(),
        next_cursor,
    }))
}

/// The last parameter of an address with a version in it.
#[derive(Debug, Deserialize)]
pub(super) struct VersionPath {
    version: String,
}

/// One version.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/versions/{version}", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path),
        ("version" = String, Path, description = "its number or id, a tag, `head`, or `@1` for the one before the head")),
    responses((status = 200, body = Version)))]
pub(super) async fn get_version(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<VersionPath>,
) -> Result<Json<Version>, ApiError> {
    let version = app
        .engine
        .version(
            &acting(&caller)?,
            caller.name(),
            named_version(&app, &caller, &path.version).await?,
        )
        .await?;
    Ok(Json(render::version(&version)))
}

/// The document of one version, byte for byte as it was written.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/versions/{version}/document", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "the document", content_type = "application/json")))]
pub(super) async fn read_version_document(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<VersionPath>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wanted = named_version(&app, &caller, &path.version).await?;
    let document = app
        .engine
        .read_version(&acting(&caller)?, caller.name(), wanted)
        .await?;
    document_response(document, &method, &headers)
}

/// The last parameter of an address with a kept result in it.
#[derive(Debug, Deserialize)]
pub(super) struct KeptPath {
    kept: Uuid,
}

/// A document that was written too late and kept.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/kept/{kept}", tag = "states",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("kept" = String, Path)),
    responses((status = 200, description = "the document", content_type = "application/json")))]
pub(super) async fn read_kept_document(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<KeptPath>,
) -> Result<Response, ApiError> {
    let bytes = app
        .engine
        .kept_document(&acting(&caller)?, caller.name(), path.kept)
        .await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// A kept document beside the state, address by address: what its writer changed, and what became of the same since.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/kept/{kept}/comparison", tag = "runs",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("kept" = String, Path)),
    responses((status = 200, body = KeptComparison)))]
pub(super) async fn compare_kept(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<KeptPath>,
) -> Result<Json<KeptComparison>, ApiError> {
    let comparison = app
        .engine
        .compare_kept(&acting(&caller)?, caller.name(), path.kept)
        .await?;
    Ok(Json(comparison))
}

/// Takes a kept document over, as a run of its own. Where the state changed, too, the request says which is to stay.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/kept/{kept}/adopt", tag = "runs", request_body = AdoptKept,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("kept" = String, Path)),
    responses(
        (status = 200, body = Run),
        (status = 409, description = "`addresses` changed on both sides", body = protocol::Problem),
        (status = 423, description = "part of it is held", body = protocol::Problem),
    ))]
pub(super) async fn adopt_kept(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<KeptPath>,
    JsonBody(request): JsonBody<AdoptKept>,
) -> Result<Json<Run>, ApiError> {
    let run = app
        .engine
        .adopt_kept(&acting(&caller)?, caller.name(), path.kept, &request)
        .await?;
    Ok(Json(run))
}

/// Lets a kept document go. It stays readable, and is asked about no more.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/kept/{kept}/discard", tag = "runs",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("kept" = String, Path)),
    responses((status = 204, description = "it is settled")))]
pub(super) async fn discard_kept(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<KeptPath>,
) -> Result<StatusCode, ApiError> {
    app.engine
        .discard_kept(&acting(&caller)?, caller.name(), path.kept)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_in_four_ways() {
        assert_eq!(version_ref("head").unwrap(), VersionRef::Head);
        assert_eq!(version_ref("7").unwrap(), VersionRef::Seq(7));
        assert_eq!(version_ref("@2").unwrap(), VersionRef::Back(2));
        let id = Uuid::now_v7();
        assert_eq!(version_ref(&id.to_string()).unwrap(), VersionRef::Id(id));
        assert_eq!(
            version_ref(&VersionId::from_uuid(id).to_string()).unwrap(),
            VersionRef::Id(id)
        );
        for bad in ["", "0", "-1", "@", "@-1", "latest", "1.5"] {
            assert!(version_ref(bad).is_err(), "{bad}");
        }
    }
}
