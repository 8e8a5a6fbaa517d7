//! Request bodies: read in bounds of size and time, and as JSON.
//!
//! A body may take as long as it needs but must keep coming; the handler's deadline counts from its last byte. Large
//! bodies are collected with [`read_body`], which sizes its buffer by Content-Length: the framework's own extractor
//! takes five times as long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use protocol::Code;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use crate::error::ApiError;
use crate::routes::terraform::body::receive;

/// The largest JSON body of routes other than those that take states.
pub const MAX_JSON_BYTES: u64 = 1024 * 1024;
/// How long a request may take after its body is in.
const HANDLING_TIME: Duration = Duration::from_secs(60);
/// The least a body must bring in each window, which makes 16 KiB/s.
const WINDOW: Duration = Duration::from_secs(10);
const WINDOW_BYTES: u64 = 160 * 1024;
/// The largest buffer that is reserved on the word of a Content-Length alone.
const MAX_RESERVED_BYTES: u64 = 64 * 1024 * 1024;

/// When anything of a request's body last arrived.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    started: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            last_ms: Arc::default(),
        }
    }

    fn note(&self) {
        let elapsed = self.started.elapsed().as_millis();
        self.last_ms.store(
            u64::try_from(elapsed).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    /// Returns when nothing has arrived for as long as a handler may take.
    pub(crate) async fn idle_too_long(&self) {
        loop {
            let last = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let deadline = last + HANDLING_TIME;
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

/// A body that came in too slowly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the body came in too slowly")]
struct TooSlow;

/// Watches how a body comes in.
pub(crate) fn guard(body: Body, activity: &Activity) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(Guarded {
        body,
        activity: activity.clone(),
        window_bytes: 0,
        waited: Duration::ZERO,
        waiting: None,
    })
}

/// A body that fails when less than [`WINDOW_BYTES`] arrive while the handler waits for [`WINDOW`]. Time in which nobody
/// asks for more does not count.
struct Guarded {
    body: Body,
    activity: Activity,
    window_bytes: u64,
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some((since, _)) = this.waiting.take() {
                this.waited += since.elapsed();
            }
            this.activity.note();
            if let Some(Ok(frame)) = &frame {
                this.window_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            if this.window_bytes >= WINDOW_BYTES {
                this.window_bytes = 0;
                this.waited = Duration::ZERO;
            }
            return Poll::Ready(frame);
        }
        let left = WINDOW.saturating_sub(this.waited);
        let (_, sleep) = this
            .waiting
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a whole body of at most `limit_bytes`. A Content-Length above that is refused before anything is read.
///
/// # Errors
///
/// 413, 408, or 400 when the connection breaks half-way.
pub async fn read_body(body: Body, limit_bytes: u64) -> Result<Bytes, ApiError> {
    read_body_along(body, limit_bytes, None).await
}

/// As [`read_body`], and hands every piece on to `also` as it comes in; a receiver that lags holds the sender back, and
/// one that has ended is left alone.
pub(crate) async fn read_body_along(
    body: Body,
    limit_bytes: u64,
    also: Option<&mpsc::Sender<Bytes>>,
) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::with_detail(
            Code::BodyTooLarge,
            format!("the body may have at most {limit_bytes} bytes here"),
        )
    };
    let announced = body.size_hint();
    if announced.lower() > limit_bytes {
        return Err(too_large());
    }
    let reserve = announced.exact().unwrap_or(0).min(MAX_RESERVED_BYTES);
    let mut collected = BytesMut::with_capacity(usize::try_from(reserve).unwrap_or(0));
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| refuse_body(&error))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if (collected.len() + data.len()) as u64 > limit_bytes {
            return Err(too_large());
        }
        collected.extend_from_slice(&data);
        if let Some(also) = also {
            let _ = also.send(data).await;
        }
    }
    Ok(collected.freeze())
}

/// Sorts an error that came out of a body.
fn refuse_body(error: &axum::Error) -> ApiError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<TooSlow>() {
            return ApiError::new(Code::BodyTooSlow);
        }
        cause = error.source();
    }
    ApiError::with_detail(
        Code::InvalidRequest,
        "the body ended before it was complete",
    )
}

/// Reads a JSON body of at most `limit_bytes`, before and after decoding: plain, or as gzip.
///
/// # Errors
///
/// 413 for one that is or inflates to more, 415 for another kind or coding.
pub(crate) async fn read_json(
    headers: &HeaderMap,
    body: Body,
    limit_bytes: u64,
) -> Result<Bytes, ApiError> {
    expect_json(headers)?;
    receive(headers, body, limit_bytes).await
}

/// A JSON body of at most [`MAX_JSON_BYTES`].
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read_json(&parts.headers, body, MAX_JSON_BYTES).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body of a request that creates something, with what makes it repeatable.
#[derive(Debug, Clone)]
pub struct Create<T> {
    /// What to create.
    pub body: T,
    /// The request's Idempotency-Key, if it has one.
    pub key: Option<IdempotencyKey>,
}

/// An Idempotency-Key and the SHA-256 of the request it came with.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    /// The key, as the client chose it: 1 to 255 printable ASCII characters.
    pub key: String,
    /// Over method, address and body.
    pub request_digest: [u8; 32],
}

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Create<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let key = idempotency_key(&parts.headers)?;
        let mut digest = Sha256::new();
        digest.update(parts.method.as_str());
        digest.update([0]);
        digest.update(parts.uri.path());
        digest.update([0]);
        let bytes = read_json(&parts.headers, body, MAX_JSON_BYTES).await?;
        digest.update(&bytes);
        let request_digest = digest.finalize().into();
        Ok(Self {
            body: parse(&bytes)?,
            key: key.map(|key| IdempotencyKey {
                key,
                request_digest,
            }),
        })
    }
}

/// The request's Idempotency-Key, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let well_formed = |text: &&str| (1..=255).contains(&text.len()) && !text.contains('\t');
    match (value.to_str().ok().filter(well_formed), values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => Err(ApiError::with_detail(
            Code::InvalidRequest,
            "Idempotency-Key is one header of 1 to 255 printable ASCII characters",
        )),
    }
}

fn expect_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    match kind {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(ApiError::with_detail(
            Code::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
        )),
    }
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // What the parser says names places, fields and types; of values it may quote a short one, which the caller sent
        // a moment ago.
        ApiError::with_detail(Code::InvalidJson, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_refused_and_one_that_keeps_coming_is_not() {
        let chunks = |size: usize, pause: u64| {
            Body::from_stream(stream::unfold(0, move |n| async move {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                (n < 100).then(|| {
                    (
                        Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; size])),
                        n + 1,
                    )
                })
            }))
        };
        let steady = guard(chunks(32 * 1024, 1), &Activity::new());
        assert_eq!(
            read_body(steady, u64::MAX).await.unwrap().len(),
            100 * 32 * 1024
        );
        let slow = guard(chunks(8 * 1024, 1), &Activity::new());
        assert_eq!(
            read_body(slow, u64::MAX).await.unwrap_err().code(),
            Code::BodyTooSlow
        );
        let stalled = guard(chunks(1, 3600), &Activity::new());
        assert_eq!(
            read_body(stalled, u64::MAX).await.unwrap_err().code(),
            Code::BodyTooSlow
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_to_handle_a_request_counts_from_its_last_byte() {
        let started = Instant::now();
        let activity = Activity::new();
        let pieces = stream::unfold(0, |n| async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            (n < 40).then(|| {
                (
                    Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 256 * 1024])),
                    n + 1,
                )
            })
        });
        let body = guard(Body::from_stream(pieces), &activity);
        tokio::select! {
            read = read_body(body, u64::MAX) => assert!(read.is_ok()),
            () = activity.idle_too_long() => panic!("cut off while the body came in"),
        }
        activity.idle_too_long().await;
        let seconds = started.elapsed().as_secs();
        assert!((260..267).contains(&seconds), "{seconds}");
    }

    #[tokio::test]
    async fn a_body_over_its_limit_is_refused() {
        for (size, fits) in [(10, true), (11, false)] {
            let announced = read_body(Body::from(vec![0; size]), 10).await;
            assert_eq!(announced.is_ok(), fits);
            let pieces =
                stream::iter((0..size).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"x"))));
            let chunked = read_body(Body::from_stream(pieces), 10).await;
            assert_eq!(chunked.is_ok(), fits);
        }
    }
}
