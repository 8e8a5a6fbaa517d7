//! Signed addresses. S3 has its own; for a local folder `kld` serves addresses that bind the same: one object, one method,
//! a time, and for an upload the very bytes.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::ObjectKey;

/// What an upload's address is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutTerms {
    pub size_bytes: u64,
    pub sha256: [u8; 32],
}

/// The one type that objects have.
pub(crate) const CONTENT_TYPE: &str = "application/octet-stream";

impl PutTerms {
    /// The digest as S3 writes it in a header.
    #[must_use]
    pub fn checksum(&self) -> String {
        BASE64.encode(self.sha256)
    }
}

/// A request that may be sent by whoever has it. A secret, for as long as it lives.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    pub method: &'static str,
    /// A whole URL, or a path of `kld`.
    pub url: String,
    /// Headers that must go with it.
    pub headers: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub expires_at: u64,
}

impl fmt::Debug for SignedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedRequest({} [redacted])", self.method)
    }
}

/// The key that signs addresses of the local folder.
#[derive(Clone)]
pub struct Signing([u8; 32]);

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signing([redacted])")
    }
}

/// Where `kld` serves objects.
const PATH: &str = "/v1/objects/";

impl Signing {
    #[must_use]
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub(crate) fn get(&self, key: &ObjectKey, file_name: &str, expires_at: u64) -> SignedRequest {
        let signature = self.sign(&get_text(key, file_name, expires_at));
        SignedRequest {
            method: "GET",
            url: format!("{PATH}{key}?name={file_name}&expires={expires_at}&signature={signature}"),
            headers: BTreeMap::new(),
            expires_at,
        }
    }

    pub(crate) fn put(&self, key: &ObjectKey, terms: &PutTerms, expires_at: u64) -> SignedRequest {
        let signature = self.sign(&put_text(key, terms, expires_at));
        let headers = [
            ("content-type", CONTENT_TYPE.to_owned()),
            ("x-amz-checksum-sha256", terms.checksum()),
        ];
        SignedRequest {
            method: "PUT",
            url: format!(
                "{PATH}{key}?size={}&expires={expires_at}&signature={signature}",
                terms.size_bytes
            ),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            expires_at,
        }
    }

    /// Whether the signature allows this download now.
    #[must_use]
    pub fn allows_get(
        &self,
        key: &ObjectKey,
        file_name: &str,
        expires_at: u64,
        signature: &str,
        now: u64,
    ) -> bool {
        now < expires_at && self.verifies(&get_text(key, file_name, expires_at), signature)
    }

    /// Whether the signature allows this upload now.
    #[must_use]
    pub fn allows_put(
        &self,
        key: &ObjectKey,
        terms: &PutTerms,
        expires_at: u64,
        signature: &str,
        now: u64,
    ) -> bool {
        now < expires_at && self.verifies(&put_text(key, terms, expires_at), signature)
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(text.as_bytes());
        mac
    }

    fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(text).finalize().into_bytes())
    }

    fn verifies(&self, text: &str, signature: &str) -> bool {
        URL_SAFE_NO_PAD
            .decode(signature)
            .is_ok_and(|signature| self.mac(text).verify_slice(&signature).is_ok())
    }
}

fn get_text(key: &ObjectKey, file_name: &str, expires_at: u64) -> String {
    format!("GET\n{key}\n{file_name}\n{expires_at}")
}

fn put_text(key: &ObjectKey, terms: &PutTerms, expires_at: u64) -> String {
    let PutTerms { size_bytes, .. } = terms;
    format!(
        "PUT\n{key}\n{size_bytes}\n{}\n{expires_at}",
        terms.checksum()
    )
}
