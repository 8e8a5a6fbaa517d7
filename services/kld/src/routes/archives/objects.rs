//! Objects of a local folder, under addresses that bind what those of S3 do: one object, one method, a time, and for an
//! upload the very bytes. With S3 nothing comes through here.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blob::{BlobError, Blobs, LocalFolder, ObjectKey, PutRefusal, PutTerms, Received};
use bytes::Bytes;
use engine::archive::UploadStanding;
use futures::stream;
use protocol::Code;
use serde::Deserialize;
use utoipa::IntoParams;

use super::archives;
use super::ranges::{Selected, select};
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::state::AppState;

/// Bytes that are read and sent at once.
const PIECE: u64 = 1 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GetTerms {
    /// What the file is called.
    name: String,
    /// Until when, in seconds since 1970.
    expires: u64,
    /// The proof.
    signature: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PutQuery {
    /// The size of the object.
    size: u64,
    /// Until when, in seconds since 1970.
    expires: u64,
    /// The proof.
    signature: String,
}

fn rejected() -> ApiError {
    ApiError::new(Code::SignatureRejected)
}

fn closed() -> ApiError {
    let detail = "the upload was completed or has ended before";
    ApiError::with_detail(Code::JobEnded, detail)
}

fn away(error: &BlobError) -> ApiError {
    match error {
        BlobError::Absent => ApiError::new(Code::NotFound),
        error => ApiError::new(Code::Unavailable)
            .caused_by(error)
            .retry_after(2),
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn folder(app: &AppState) -> Result<&LocalFolder, ApiError> {
    match app.archives.as_ref().map(engine::archive::Archives::blobs) {
        Some(Blobs::Local(folder)) => Ok(folder),
        _ => Err(rejected()),
    }
}

fn key(segments: &[&str]) -> Result<ObjectKey, ApiError> {
    segments.join("/").parse().map_err(|_| rejected())
}

/// Downloads an archive, or a range of its bytes with `Range`: one at a time; several are answered with the whole. The
/// `ETag` names the archive for `If-Range`. The address is what an export's download gave.
#[utoipa::path(get, path = "/v1/objects/w/{owner}/{job}/{object}", tag = "archives",
    params(("owner" = String, Path), ("job" = String, Path), ("object" = String, Path), GetTerms),
    responses((status = 200, description = "the archive", content_type = "application/octet-stream"),
        (status = 206, description = "a range of it", content_type = "application/octet-stream"),
        (status = 403, body = protocol::Problem),
        (status = 416, description = "nothing of the range is there; `Content-Range` says how many bytes are")))]
pub(super) async fn get_object(
    State(app): State<AppState>,
    method: Method,
    Path((owner, job, object)): Path<(String, String, String)>,
    QueryParams(terms): QueryParams<GetTerms>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let folder = folder(&app)?;
    let key = key(&["w", &owner, &job, &object])?;
    let GetTerms {
        name,
        expires,
        signature,
    } = &terms;
    if !folder
        .signing()
        .allows_get(&key, name, *expires, signature, now())
    {
        return Err(rejected());
    }
    let blobs = Blobs::Local(folder.clone());
    let size = blobs.size(&key).await.map_err(|error| away(&error))?;
    // An object never changes, and its last segment was drawn for it alone.
    let etag = format!("\"{object}\"");
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Only GET has ranges.
    let range = text(header::RANGE).filter(|_| method == Method::GET);
    let selected = match headers.get(header::IF_RANGE) {
        Some(condition) => select(
            range,
            Some(condition.to_str().unwrap_or_default()),
            &etag,
            size,
        ),
        None => select(range, None, &etag, size),
    };
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, etag);
    let (response, start, end) = match selected {
        Selected::Whole => (response.status(StatusCode::OK), 0, size),
        Selected::Part { start, end } => {
            let range = format!("bytes {start}-{}/{size}", end - 1);
            let response = response.header(header::CONTENT_RANGE, range);
            (response.status(StatusCode::PARTIAL_CONTENT), start, end)
        }
        Selected::Nothing => {
            let response = response.header(header::CONTENT_RANGE, format!("bytes */{size}"));
            (response.status(StatusCode::RANGE_NOT_SATISFIABLE), 0, 0)
        }
    };
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(pieces(blobs, key, start, end))
    };
    response
        .header(header::CONTENT_LENGTH, end - start)
        .header(
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        )
        .body(body)
        .map_err(|error| ApiError::internal(&error))
}

fn pieces(
    blobs: Blobs,
    key: ObjectKey,
    start: u64,
    end: u64,
) -> impl futures::Stream<Item = Result<Bytes, BlobError>> {
    stream::try_unfold(start, move |at| {
        let (blobs, key) = (blobs.clone(), key.clone());
        async move {
            if at >= end {
                return Ok(None);
            }
            let next = (at + PIECE).min(end);
            let piece = blobs.read(&key, at, next).await?;
            Ok(Some((piece, next)))
        }
    })
}

/// Uploads a part of an archive. Address and headers are what an import's parts gave; the body must be the very bytes that
/// were announced. The same again changes nothing. Once the upload is complete or given up, nothing is taken any more.
#[utoipa::path(put, path = "/v1/objects/w/{owner}/{job}/q/{upload}/{part}", tag = "archives",
    params(("owner" = String, Path), ("job" = String, Path), ("upload" = String, Path), ("part" = String, Path),
        PutQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is there"), (status = 403, body = protocol::Problem),
        (status = 409, body = protocol::Problem)))]
pub(super) async fn put_object(
    State(app): State<AppState>,
    Path((owner, job, upload, part)): Path<(String, String, String, String)>,
    QueryParams(query): QueryParams<PutQuery>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let folder = folder(&app)?;
    let key = key(&["w", &owner, &job, "q", &upload, &part])?;
    let (parts, body) = request.into_parts();
    let sha256 = bound_headers(&parts.headers).ok_or_else(rejected)?;
    let terms = PutTerms {
        size_bytes: query.size,
        sha256,
    };
    if !folder
        .signing()
        .allows_put(&key, &terms, query.expires, &query.signature, now())
    {
        return Err(rejected());
    }
    let (archives, place) = (archives(&app)?, (&*owner, &*job, &*upload));
    if archives.upload_standing(place).await? != UploadStanding::Open {
        return Err(closed());
    }
    let received = folder.receive(&key, &terms, body.into_data_stream()).await;
    match received {
        Ok(Received::Stored) if archives.upload_standing(place).await? == UploadStanding::Ended => {
            // It ended while the body came in, and nobody wants the part. Clean-up would find it, too.
            let blobs = Blobs::Local(folder.clone());
            blobs.delete(&key).await.map_err(|error| away(&error))?;
            Err(closed())
        }
        Ok(_) => Ok(StatusCode::OK),
        Err(PutRefusal::Size) => Err(ApiError::with_detail(
            Code::DigestMismatch,
            "the body is not of the size that was announced",
        )),
        Err(PutRefusal::Checksum) => Err(ApiError::with_detail(
            Code::DigestMismatch,
            "the body is not the one that was announced",
        )),
        Err(PutRefusal::Broken(_)) => Err(ApiError::with_detail(
            Code::InvalidRequest,
            "the body broke off",
        )),
        Err(PutRefusal::Store(error)) => Err(away(&error)),
    }
}

/// The digest that the headers announce, where they are those that were signed.
fn bound_headers(headers: &HeaderMap) -> Option<[u8; 32]> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if text("content-type")? != "application/octet-stream" {
        return None;
    }
    BASE64
        .decode(text("x-amz-checksum-sha256")?)
        .ok()?
        .try_into()
        .ok()
}
