//! Answers in gzip, for whoever asks.
//!
//! Documents are compressed by their own handler, page by page and with an entity tag of their own; this is for everything
//! else that answers in JSON. A contract or an inventory of a large state is mostly repetition.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;

use crate::routes::terraform::Coding;

/// Below this, compressing costs more than it saves.
pub(crate) const SMALLEST_TO_COMPRESS: usize = 1_024;
/// Level 1: states are repetitive enough that higher levels cost time and save little.
pub(crate) const LEVEL: Compression = Compression::fast();

/// The same answer, compressed where the request takes that and it pays.
pub(crate) async fn packed(coding: Coding, response: Response) -> Response {
    if coding == Coding::Identity || !is_packable(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It is in memory already: its size is known.
    let Ok(body) = body.collect().await else {
        return Response::from_parts(parts, Body::empty());
    };
    let plain = body.to_bytes();
    let packed = tokio::task::spawn_blocking(move || gzip(&plain)).await;
    let packed = packed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let headers = &mut parts.headers;
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

/// JSON of known size that nobody has coded or tagged.
fn is_packable(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let is_json =
        kind.starts_with(b"application/json") || kind.starts_with(b"application/problem+json");
    let size = response.body().size_hint().exact().unwrap_or(0);
    is_json
        && size >= SMALLEST_TO_COMPRESS as u64
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::ETAG)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), LEVEL);
    // Writing to a vector does not fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
