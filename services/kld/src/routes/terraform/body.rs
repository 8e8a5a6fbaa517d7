//! Receiving a document: bounded, checked against its digest, decoded.

use std::io::Read as _;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderName, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use protocol::Code;
use tokio::sync::mpsc;

use crate::body::{read_body, read_body_along};
use crate::error::ApiError;

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// Bodies from this size on are hashed in another thread while they come in; below it, handing over costs more.
const HASHED_ALONG_FROM: u64 = 512 * 1024;
/// Pieces that may wait to be hashed. They are some 400 KB at most, so this bounds what is held twice.
const PIECES_AHEAD: usize = 8;

/// Why a body was not taken. Nothing of it has been stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("Content-MD5 must be the base64 of 16 bytes, given once")]
    MalformedDigest,
    #[error(
        "the body's MD5 is not the one in Content-MD5: part of it was lost or changed on the way"
    )]
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

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let code = match &error {
            BodyError::TooLarge { .. } => Code::BodyTooLarge,
            BodyError::MalformedDigest | BodyError::NotGzip => Code::InvalidRequest,
            BodyError::DigestMismatch => Code::DigestMismatch,
            BodyError::UnsupportedEncoding(_) => Code::UnsupportedEncoding,
        };
        Self::with_detail(code, error.to_string())
    }
}

/// Reads a body of at most `limit` bytes, before and after decoding.
///
/// # Errors
///
/// A Content-Length over the limit, or an encoding that is not supported, is refused before anything is read.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
) -> Result<Bytes, ApiError> {
    let digest = expected_digest(headers)?;
    let encoding = encoding(headers)?;
    let received = match digest {
        Some(expected) => receive_checked(body, limit, expected).await?,
        None => read_body(body, limit).await?,
    };
    match encoding {
        Encoding::Identity => Ok(received),
        Encoding::Gzip => {
            let plain = tokio::task::block_in_place(|| decode_gzip(&received, limit))?;
            Ok(plain.into())
        }
    }
}

/// Reads a body and holds it against the digest that was promised.
///
/// MD5 takes longer over a large document than everything else that is done with its bytes, and longer than loopback takes
/// to bring them; over a network it is done when the last byte is in.
async fn receive_checked(body: Body, limit: u64, expected: [u8; 16]) -> Result<Bytes, ApiError> {
    if body
        .size_hint()
        .upper()
        .is_some_and(|size| size < HASHED_ALONG_FROM)
    {
        let received = read_body(body, limit).await?;
        check_digest(expected, Md5::digest(&received).into())?;
        return Ok(received);
    }
    let (pieces, mut coming) = mpsc::channel::<Bytes>(PIECES_AHEAD);
    let hashing = tokio::task::spawn_blocking(move || {
        let mut hash = Md5::new();
        while let Some(piece) = coming.blocking_recv() {
            hash.update(&piece);
        }
        <[u8; 16]>::from(hash.finalize())
    });
    let received = read_body_along(body, limit, Some(&pieces)).await?;
    drop(pieces);
    // The task only hashes: it cannot fail but by a panic, which is carried on.
    let found = hashing
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    check_digest(expected, found)?;
    Ok(received)
}

fn check_digest(expected: [u8; 16], found: [u8; 16]) -> Result<(), BodyError> {
    if found == expected {
        Ok(())
    } else {
        Err(BodyError::DigestMismatch)
    }
}

/// The MD5 that the sender promised; Terraform always sends one.
fn expected_digest(headers: &HeaderMap) -> Result<Option<[u8; 16]>, BodyError> {
    let mut values = headers.get_all(&CONTENT_MD5).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(BodyError::MalformedDigest);
    }
    let decoded = STANDARD
        .decode(value.as_bytes())
        .map_err(|_| BodyError::MalformedDigest)?;
    decoded
        .try_into()
        .map(Some)
        .map_err(|_| BodyError::MalformedDigest)
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, BodyError> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = values.next() else {
        return Ok(Encoding::Identity);
    };
    let text = value.to_str().unwrap_or("?").trim();
    if values.next().is_some() {
        return Err(BodyError::UnsupportedEncoding("more than one".to_owned()));
    }
    match text.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        _ => Err(BodyError::UnsupportedEncoding(
            text.chars().take(40).collect(),
        )),
    }
}

/// Inflates every member of a gzip body, at most `limit` bytes of it.
fn decode_gzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, BodyError> {
    let mut plain = Vec::new();
    let decoder = flate2::bufread::MultiGzDecoder::new(packed);
    decoder
        .take(limit.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|_| BodyError::NotGzip)?;
    if plain.len() as u64 > limit {
        Err(BodyError::TooLarge { limit })
    } else {
        Ok(plain)
    }
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

    async fn take(pairs: &[(&'static str, &str)], body: &[u8], limit: u64) -> Result<Bytes, Code> {
        let received = receive(&headers(pairs), Body::from(body.to_vec()), limit).await;
        received.map_err(|error| error.code())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_digest_is_checked_before_decoding() {
        let packed = gzip(b"{}");
        let right = STANDARD.encode(Md5::digest(&packed));
        let plain = take(
            &[("content-md5", &right), ("content-encoding", "gzip")],
            &packed,
            100,
        )
        .await;
        assert_eq!(plain.unwrap(), "{}");
        let other = STANDARD.encode(Md5::digest(b"other"));
        assert_eq!(
            take(&[("content-md5", &other)], b"{}", 9).await,
            Err(Code::DigestMismatch)
        );
        for bad in [
            "zzz",
            "1b2m2y8asgtpgammmy7phcfg==",
            "d41d8cd98f00b204e9800998ecf8427e",
            "",
        ] {
            assert_eq!(
                take(&[("content-md5", bad)], b"{}", 9).await,
                Err(Code::InvalidRequest),
                "{bad}"
            );
        }
        let twice = take(
            &[("content-md5", &other), ("content-md5", &other)],
            b"{}",
            9,
        )
        .await;
        assert_eq!(twice, Err(Code::InvalidRequest));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn gzip_is_inflated_within_the_limit_and_refused_when_broken() {
        let one = gzip(b"{\"a\":");
        let two = [one.as_slice(), &gzip(b"1}")].concat();
        let label = [("content-encoding", "gzip")];
        assert_eq!(take(&label, &two, 100).await.unwrap(), "{\"a\":1}");
        assert_eq!(
            take(&label, &one[..one.len() - 4], 100).await,
            Err(Code::InvalidRequest)
        );
        assert_eq!(take(&label, b"{}", 100).await, Err(Code::InvalidRequest));
        let bomb = gzip(&vec![b' '; 10_000]);
        assert!(bomb.len() < 1_000);
        assert_eq!(take(&label, &bomb, 1_000).await, Err(Code::BodyTooLarge));
        for odd in ["gzip, gzip", "br", "zstd"] {
            let taken = take(&[("content-encoding", odd)], b"{}", 9).await;
            assert_eq!(taken, Err(Code::UnsupportedEncoding), "{odd}");
        }
    }
}
