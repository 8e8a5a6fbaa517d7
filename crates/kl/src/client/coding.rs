//! gzip on the wire: what a plan sends and gets is mostly repetition, and the network is the slow part.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

/// Below this, a packet holds it either way.
const SMALLEST_TO_PACK: usize = 1_024;
/// Far more than any answer in JSON has; a server that sends more is none of ours.
const LARGEST_ANSWER: u64 = 512 * 1024 * 1024;

/// A request body in gzip, where that makes it smaller.
pub(super) fn pack(plain: &[u8]) -> Option<Bytes> {
    if plain.len() < SMALLEST_TO_PACK {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::default());
    let packed = encoder.write_all(plain).and_then(|()| encoder.finish());
    packed
        .ok()
        .filter(|packed| packed.len() < plain.len())
        .map(Bytes::from)
}

/// The body of an answer, decoded as its headers say.
///
/// # Errors
/// A body that is not what they say, or inflates beyond all measure.
pub(super) fn unpack(headers: &HeaderMap, body: Bytes) -> io::Result<Bytes> {
    let coding = headers.get(CONTENT_ENCODING);
    if coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(body);
    }
    let mut plain = Vec::new();
    let mut decoder = MultiGzDecoder::new(&body[..]).take(LARGEST_ANSWER + 1);
    decoder.read_to_end(&mut plain)?;
    match plain.len() as u64 > LARGEST_ANSWER {
        true => Err(io::Error::other("the answer is too large")),
        false => Ok(plain.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again_and_what_is_small_is_left_alone() {
        assert!(pack(&[b'a'; SMALLEST_TO_PACK - 1]).is_none());
        let plain = "terraform_data.x ".repeat(1_000);
        let packed = pack(plain.as_bytes()).unwrap();
        assert!(packed.len() < plain.len() / 20, "{}", packed.len());
        let mut headers = HeaderMap::new();
        assert_eq!(unpack(&headers, packed.clone()).unwrap(), packed);
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(unpack(&headers, packed.clone()).unwrap(), plain);
        assert!(unpack(&headers, packed.slice(..packed.len() / 2)).is_err());
    }

    #[test]
    fn noise_is_not_made_larger() {
        let noise: Vec<u8> = (0..4_000_u32)
            .flat_map(|n| {
                sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(
                    n.to_le_bytes(),
                ))
            })
            .collect();
        assert!(pack(&noise).is_none());
    }
}
