//! `LOCK` and `UNLOCK`, and their forms as POST.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use engine::UnlockTarget;
use protocol::{Code, LockInfo};

use super::{acting, body};
use crate::access::StateCaller;
use crate::error::ApiError;
use crate::state::AppState;

/// Lock information is a few hundred bytes; `Info` may hold a message.
const LOCK_BODY_BYTES: u64 = 64 * 1024;
/// A UUID has 36 characters.
const LOCK_ID_CHARACTERS: usize = 256;

/// `LOCK …/{name}`: take the Terraform lock. Exactly 200 is success to the client.
pub(crate) async fn lock_state(
    State(app): State<AppState>,
    caller: StateCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let info = lock_request(&headers, body).await?;
    app.engine
        .lock(&acting(&caller)?, caller.name(), &info)
        .await?;
    Ok(StatusCode::OK)
}

/// `UNLOCK …/{name}`: give up or break the Terraform lock. Exactly 200 is success to the client.
pub(crate) async fn unlock_state(
    State(app): State<AppState>,
    caller: StateCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let target = unlock_target(&headers, body).await?;
    app.engine
        .unlock(&acting(&caller)?, caller.name(), &target)
        .await?;
    Ok(StatusCode::OK)
}

/// `LOCK`, for edges that let only usual methods through.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/lock", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)), request_body = LockInfo,
    responses(
        (status = 200, description = "the lock is held; again for the same ID"),
        (status = 423, description = "somebody holds the state: their lock information", body = protocol::Problem),
    ))]
pub(crate) async fn lock_state_by_post(
    app: State<AppState>,
    caller: StateCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    lock_state(app, caller, headers, body).await
}

/// `UNLOCK`, for edges that let only usual methods through. An empty body breaks whatever Terraform lock there is.
#[utoipa::path(post, path = "/v1/states/{ws}/{env}/{name}/unlock", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    request_body = Option<LockInfo>,
    responses(
        (status = 200, description = "it is held no more"),
        (status = 409, description = "another lock is held", body = protocol::Problem),
    ))]
pub(crate) async fn unlock_state_by_post(
    app: State<AppState>,
    caller: StateCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    unlock_state(app, caller, headers, body).await
}

/// `UNLOCK` at an address of its own, as the public protocol has it.
#[utoipa::path(post, path = "/v1/state-unlock/{ws}/{env}/{name}", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    request_body = Option<LockInfo>,
    responses(
        (status = 200, description = "it is held no more"),
        (status = 409, description = "another lock is held", body = protocol::Problem),
    ))]
pub(crate) async fn unlock_state_apart(
    app: State<AppState>,
    caller: StateCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    unlock_state(app, caller, headers, body).await
}

/// The lock information in the body of a LOCK.
pub(crate) async fn lock_request(headers: &HeaderMap, body: Body) -> Result<LockInfo, ApiError> {
    let body = body::receive(headers, body, LOCK_BODY_BYTES).await?;
    let info = LockInfo::from_slice(&body)
        .map_err(|error| ApiError::with_detail(Code::InvalidJson, error.to_string()))?;
    Ok(LockInfo {
        id: valid_id(&info.id)?,
        ..info
    })
}

/// What the body of an UNLOCK names.
pub(crate) async fn unlock_target(
    headers: &HeaderMap,
    body: Body,
) -> Result<UnlockTarget, ApiError> {
    let body = body::receive(headers, body, LOCK_BODY_BYTES).await?;
    read_target(&body)
}

/// What an UNLOCK body names. Terraform's force-unlock sends an empty one; OpenTofu's one with only the ID that its
/// user typed, which may be the readable form of a conflict.
fn read_target(body: &[u8]) -> Result<UnlockTarget, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(UnlockTarget::Any);
    }
    let info = LockInfo::from_slice(body)
        .map_err(|error| ApiError::with_detail(Code::InvalidJson, error.to_string()))?;
    match LockInfo::id_word(&info.id) {
        "" => Ok(UnlockTarget::Any),
        id => Ok(UnlockTarget::Id(valid_id(id)?)),
    }
}

/// A lock ID that can be stored, shown, and told from what follows it in a conflict.
fn valid_id(id: &str) -> Result<String, ApiError> {
    let plain = !id.is_empty()
        && id.len() <= LOCK_ID_CHARACTERS
        && id.chars().all(|c| c.is_ascii_graphic());
    if plain {
        return Ok(id.to_owned());
    }
    Err(ApiError::with_detail(
        Code::InvalidRequest,
        "the lock's ID must be 1 to 256 printable ASCII characters without spaces",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlock_names_an_id_or_whatever_there_is() {
        let target = |body: &str| read_target(body.as_bytes());
        assert_eq!(target("").unwrap(), UnlockTarget::Any);
        assert_eq!(target("{\"ID\":\"\"}").unwrap(), UnlockTarget::Any);
        assert_eq!(
            target("{\"ID\":\"a-1\"}").unwrap(),
            UnlockTarget::Id("a-1".into())
        );
        let readable = "{\"ID\":\"a-1 OperationTypeApply by ann@laptop\",\"Created\":\"0001-01-01T00:00:00Z\"}";
        assert_eq!(target(readable).unwrap(), UnlockTarget::Id("a-1".into()));
        assert!(target("nonsense").is_err());
    }

    #[test]
    fn an_id_that_cannot_be_told_apart_is_refused() {
        assert!(valid_id("6a1c0000-0000-4000-8000-000000000001").is_ok());
        for id in ["", "a b", "a\0", "é", &"x".repeat(257)] {
            assert!(valid_id(id).is_err(), "{id:?}");
        }
    }
}
