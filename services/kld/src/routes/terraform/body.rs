//! Receiving a document: bounded, checked against its digest, decoded.
//!
//! The 2 MB default limit of the framework binds extractors, not a raw body, and its `Bytes` extractor
//! costs five times a plain drain for 50 MB (measured); so the body is drained here, into a buffer sized
//! by Content-Length.

use std::io::Read as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// A sender slower than this, averaged over a window, is cut off: 16 KiB a second.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 * 1024;
const WINDOW: Duration = Duration::from_secs(10);

/// Why a body was not taken. Nothing of it has been stored.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body came slower than 16 KiB/s")]
    TooSlow,
    #[error("the connection ended before the body did")]
    Aborted,
    #[error("Content-MD5 must be the base64 of 16 bytes, given once")]
    MalformedDigest,
    #[error("the body's MD5 is not the one in Content-MD5: part of it was lost or changed on the way")]
    DigestMismatch,
    #[error("Content-Encoding `{0}` is not supported: send the document plain or as gzip")]
    UnsupportedEncoding(String),
    #[error("the body is labelled gzip but does not decode as gzip")]
    NotGzip,
}

/// How a body is encoded on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// Drains a body of at most `limit` bytes, before and after decoding.
///
/// # Errors
///
/// A Content-Length over the limit is refused before anything is read.
pub async fn receive(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let digest = expected_digest(headers)?;
    let encoding = encoding(headers)?;
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(BodyError::TooLarge { limit });
    }
    let received = drain(body, length.unwrap_or_default(), limit).await?;
    let plain = tokio::task::spawn_blocking(move || -> Result<Vec<u8>, BodyError> {
        if let Some(expected) = digest
            && Md5::digest(&received)[..] != expected
        {
            return Err(BodyError::DigestMismatch);
        }
        match encoding {
            Encoding::Identity => Ok(received),
            Encoding::Gzip => decode_gzip(&received, limit),
        }
    })
    .await
    .map_err(|_| BodyError::Aborted)??;
    Ok(Bytes::from(plain))
}

async fn drain(body: Body, expected: usize, limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut received = Vec::with_capacity(expected.min(limit));
    let mut stream = body.into_data_stream();
    let mut window_start = tokio::time::Instant::now();
    let mut window_bytes = 0_u64;
    loop {
        let next = tokio::time::timeout(WINDOW, stream.next()).await.map_err(|_| BodyError::TooSlow)?;
        let Some(chunk) = next else { return Ok(received) };
        let chunk = chunk.map_err(|_| BodyError::Aborted)?;
        if received.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        received.extend_from_slice(&chunk);
        window_bytes += chunk.len() as u64;
        if window_start.elapsed() >= WINDOW {
            if window_bytes < SLOWEST_BYTES_PER_SECOND * WINDOW.as_secs() {
                return Err(BodyError::TooSlow);
            }
            window_start = tokio::time::Instant::now();
            window_bytes = 0;
        }
    }
}

/// The MD5 that the sender promised; Terraform always sends one.
fn expected_digest(headers: &HeaderMap) -> Result<Option<[u8; 16]>, BodyError> {
    let mut values = headers.get_all(&CONTENT_MD5).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BodyError::MalformedDigest);
    }
    let decoded = STANDARD.decode(value.as_bytes()).map_err(|_| BodyError::MalformedDigest)?;
    decoded.try_into().map(Some).map_err(|_| BodyError::MalformedDigest)
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, BodyError> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(Encoding::Identity) };
    let text = value.to_str().unwrap_or("?").trim();
    if values.next().is_some() {
        return Err(BodyError::UnsupportedEncoding("more than one".to_owned()));
    }
    match text.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        _ => Err(BodyError::UnsupportedEncoding(text.chars().take(40).collect())),
    }
}

/// Inflates every member of a gzip body, at most `limit` bytes of it.
fn decode_gzip(packed: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut plain = Vec::new();
    let decoder = flate2::bufread::MultiGzDecoder::new(packed);
    decoder.take(limit as u64 + 1).read_to_end(&mut plain).map_err(|_| BodyError::NotGzip)?;
    if plain.len() > limit { Err(BodyError::TooLarge { limit }) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        map
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    async fn take(pairs: &[(&'static str, &str)], body: &[u8], limit: usize) -> Result<Bytes, BodyError> {
        receive(&headers(pairs), Body::from(body.to_vec()), limit).await
    }

    #[tokio::test]
    async fn a_body_is_taken_up_to_the_limit_and_not_beyond() {
        assert_eq!(take(&[], b"12345", 5).await.unwrap(), "12345");
        assert!(matches!(take(&[], b"123456", 5).await, Err(BodyError::TooLarge { limit: 5 })));
        let told = take(&[("content-length", "6")], b"", 5).await;
        assert!(matches!(told, Err(BodyError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn the_digest_is_checked_before_decoding() {
        let packed = gzip(b"{}");
        let right = STANDARD.encode(Md5::digest(&packed));
        let plain = take(&[("content-md5", &right), ("content-encoding", "gzip")], &packed, 100).await;
        assert_eq!(plain.unwrap(), "{}");
        let other = STANDARD.encode(Md5::digest(b"other"));
        assert!(matches!(take(&[("content-md5", &other)], b"{}", 9).await, Err(BodyError::DigestMismatch)));
        for bad in ["zzz", "1b2m2y8asgtpgammmy7phcfg==", "d41d8cd98f00b204e9800998ecf8427e", ""] {
            let taken = take(&[("content-md5", bad)], b"{}", 9).await;
            assert!(matches!(taken, Err(BodyError::MalformedDigest)), "{bad}");
        }
        let twice = take(&[("content-md5", &other), ("content-md5", &other)], b"{}", 9).await;
        assert!(matches!(twice, Err(BodyError::MalformedDigest)));
    }

    #[tokio::test]
    async fn gzip_is_inflated_within_the_limit_and_refused_when_broken() {
        let one = gzip(b"{\"a\":");
        let two = [one.as_slice(), &gzip(b"1}")].concat();
        let label = [("content-encoding", "gzip")];
        assert_eq!(take(&label, &two, 100).await.unwrap(), "{\"a\":1}");
        assert!(matches!(take(&label, &one[..one.len() - 4], 100).await, Err(BodyError::NotGzip)));
        assert!(matches!(take(&label, b"{}", 100).await, Err(BodyError::NotGzip)));
        let bomb = gzip(&vec![b' '; 10_000]);
        assert!(bomb.len() < 1_000);
        assert!(matches!(take(&label, &bomb, 1_000).await, Err(BodyError::TooLarge { .. })));
        for odd in ["gzip, gzip", "br", "zstd"] {
            let taken = take(&[("content-encoding", odd)], b"{}", 9).await;
            assert!(matches!(taken, Err(BodyError::UnsupportedEncoding(_))), "{odd}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_dawdles_is_cut_off() {
        let trickle = futures::stream::unfold(0, |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), sent + 1))
        });
        let taken = receive(&HeaderMap::new(), Body::from_stream(trickle), 1_000_000).await;
        assert!(matches!(taken, Err(BodyError::TooSlow)));
    }
}
