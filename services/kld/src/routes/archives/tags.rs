//! `…/tags`: names for versions.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use protocol::archives::{SetTag, Tag, TagList};
use serde::Deserialize;

use super::acting;
use crate::access::StateCaller;
use crate::body::Json as JsonBody;
use crate::error::ApiError;
use crate::routes::states::history::named_version;
use crate::state::AppState;

/// The last parameter of an address with a tag in it.
#[derive(Debug, Deserialize)]
pub(super) struct TagPath {
    tag: String,
}

fn shown(tag: store::tags::Tag) -> Tag {
    Tag {
        name: tag.tag,
        seq: tag.seq,
        description: tag.description,
        created_by: tag.created_by,
        created_at: tag.created_at,
    }
}

/// The tags of a state, by name.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/tags", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = TagList)))]
pub(super) async fn list_tags(
    State(app): State<AppState>,
    caller: StateCaller,
) -> Result<Json<TagList>, ApiError> {
    let tags = app
        .engine
        .list_tags(&acting(&caller)?, caller.name())
        .await?;
    Ok(Json(TagList {
        tags: tags.into_iter().map(shown).collect(),
    }))
}

/// Gives a version a name. The same again changes nothing; a tag that names another version is moved only where `move`
/// says so.
#[utoipa::path(put, path = "/v1/states/{ws}/{env}/{name}/tags/{tag}", tag = "archives", request_body = SetTag,
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("tag" = String, Path)),
    responses((status = 200, body = Tag), (status = 409, body = protocol::Problem)))]
pub(super) async fn set_tag(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<TagPath>,
    JsonBody(request): JsonBody<SetTag>,
) -> Result<Json<Tag>, ApiError> {
    let wanted = named_version(&app, &caller, &request.version).await?;
    let acting = acting(&caller)?;
    let set = app.engine.set_tag(
        &acting,
        caller.name(),
        &path.tag,
        wanted,
        request.description.as_deref(),
        request.r#move,
    );
    Ok(Json(shown(set.await?)))
}

/// Takes a name away from its version.
#[utoipa::path(delete, path = "/v1/states/{ws}/{env}/{name}/tags/{tag}", tag = "archives",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path), ("tag" = String, Path)),
    responses((status = 204, description = "There is no such tag any more"), (status = 404, body = protocol::Problem)))]
pub(super) async fn unset_tag(
    State(app): State<AppState>,
    caller: StateCaller,
    Path(path): Path<TagPath>,
) -> Result<StatusCode, ApiError> {
    app.engine
        .unset_tag(&acting(&caller)?, caller.name(), &path.tag)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
