//! `GET` and `HEAD` of a state: exactly the bytes that were written.

use std::io::Write as _;

use auth::Action;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use engine::{Caller, DocumentBody, EngineError, ReadDocument};
use flate2::write::GzEncoder;
use futures::stream::{self, BoxStream, StreamExt as _};
use protocol::StateName;

use super::acting;
use super::encoding::{Coding, choose_coding, is_current};
use crate::access::StateCaller;
use crate::error::ApiError;
use crate::packing::{LEVEL, SMALLEST_TO_COMPRESS, gzip};
use crate::state::AppState;

const SEQ: HeaderName = HeaderName::from_static("kilolock-seq");

/// `GET …/{name}`: the newest document, or for the role `outputs` one with nothing but the root outputs.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}", tag = "terraform",
    params(("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, description = "the newest document, byte for byte", content_type = "application/json"),
        (status = 304, description = "If-None-Match names it"),
        (status = 404, description = "nothing was ever written here", body = protocol::Problem),
    ))]
pub(crate) async fn read_state(
    State(app): State<AppState>,
    caller: StateCaller,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let acting = acting(&caller)?;
    if !caller.permits(Action::ReadDocument) {
        return read_outputs_only(&app, &acting, caller.name()).await;
    }
    let document = app.engine.read_head(&acting, caller.name()).await?;
    document_response(document, &method, &headers)
}

/// A document as an answer: entity tag, conditional, compressed when asked, streamed when large.
pub(crate) fn document_response(
    document: ReadDocument,
    method: &Method,
    request: &HeaderMap,
) -> Result<Response, ApiError> {
    let version = &document.version;
    let coding = choose_coding(request);
    let compress = coding == Coding::Gzip
        && match &document.body {
            DocumentBody::Whole(bytes) => bytes.len() >= SMALLEST_TO_COMPRESS,
            DocumentBody::Stream(_) => true,
        };
    let suffix = if compress { coding.etag_suffix() } else { "" };
    // Every version has another serial or other content than the one before it, so its number names its bytes; the
    // digest is not known before a version born of rows is rendered for the first time.
    let etag = format!("\"{}-{}{suffix}\"", version.id.simple(), version.seq);
    let mut headers = HeaderMap::new();
    headers.insert(header::ETAG, value(&etag)?);
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(SEQ, HeaderValue::from(version.seq));
    if is_current(request, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if compress {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let (body, size) = match (document.body, compress) {
        (DocumentBody::Whole(bytes), false) => {
            let size = bytes.len();
            (Body::from(bytes), u64::try_from(size).ok())
        }
        (DocumentBody::Whole(bytes), true) => {
            let packed = gzip(&bytes);
            let size = packed.len();
            (Body::from(packed), u64::try_from(size).ok())
        }
        (DocumentBody::Stream(pages), false) => {
            let size = version.byte_size.and_then(|size| u64::try_from(size).ok());
            (Body::from_stream(pages), size)
        }
        (DocumentBody::Stream(pages), true) => (Body::from_stream(gzip_stream(pages)), None),
    };
    if let Some(size) = size {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    let body = if *method == Method::HEAD {
        Body::empty()
    } else {
        body
    };
    Ok((StatusCode::OK, headers, body).into_response())
}

fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|error| ApiError::internal(&error))
}

/// Compresses page by page, off the runtime. An error ends the stream before its trailer, so the client notices.
fn gzip_stream(
    pages: BoxStream<'static, Result<Bytes, EngineError>>,
) -> BoxStream<'static, Result<Bytes, EngineError>> {
    let start = Some((pages, GzEncoder::new(Vec::new(), LEVEL)));
    stream::try_unfold(start, |state| async move {
        let Some((mut pages, mut encoder)) = state else {
            return Ok(None);
        };
        let page = pages.next().await.transpose()?;
        tokio::task::block_in_place(move || {
            let Some(page) = page else {
                let rest = encoder.finish().unwrap_or_default();
                return Ok(Some((Bytes::from(rest), None)));
            };
            // Writing to a vector does not fail.
            let _ = encoder.write_all(&page);
            let packed = std::mem::take(encoder.get_mut());
            Ok(Some((Bytes::from(packed), Some((pages, encoder)))))
        })
    })
    .boxed()
}

/// A version 4 document with the root outputs and no resources: what `terraform_remote_state` needs.
async fn read_outputs_only(
    app: &AppState,
    caller: &Caller,
    name: &StateName,
) -> Result<Response, ApiError> {
    let (version, outputs) = app.engine.outputs(caller, name).await?;
    let header = tfstate::Header::new(
        version.terraform_version.as_deref().unwrap_or_default(),
        version
            .serial
            .as_deref()
            .and_then(|serial| serial.parse().ok())
            .unwrap_or_default(),
        version.lineage.as_deref().unwrap_or_default(),
    );
    let rows = outputs
        .into_iter()
        .map(|output| (output.name_token, output.body));
    let mut renderer = tfstate::Renderer::new(&header, rows, |_| None)
        .map_err(|error| ApiError::internal(&error))?;
    let mut document = Vec::new();
    renderer.start(&mut document);
    renderer.finish(&mut document);
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (SEQ, HeaderValue::from(version.seq)),
    ];
    Ok((headers, document).into_response())
}
