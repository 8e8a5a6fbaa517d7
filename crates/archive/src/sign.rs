//! The signature over the manifest, so that an archive's origin can be proven without a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use tfstate::Digest;

use crate::json;
use crate::refusal::{Fault, Rule};

/// A key that signs archives. Its bytes are never printed.
pub struct Signer(SigningKey);

impl Signer {
    /// The key of this 32-byte Ed25519 seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The key that verifies what this one signs.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// `manifest.sig` for these manifest bytes.
    pub(crate) fn sign(&self, manifest: &[u8]) -> SignatureFile {
        let key = self.public_key();
        SignatureFile::Ed25519 {
            key_id: key.id(),
            public_key: key.to_base64(),
            signature: BASE64.encode(self.0.sign(manifest).to_bytes()),
        }
    }
}

/// A key that verifies archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads the 32 bytes of an Ed25519 public key in base64. `None` for anything else, and for
    /// keys so weak that they verify signatures nobody made.
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes: [u8; 32] = BASE64.decode(text).ok()?.try_into().ok()?;
        let key = VerifyingKey::from_bytes(&bytes).ok()?;
        (!key.is_weak()).then_some(Self(key))
    }

    pub fn to_base64(self) -> String {
        BASE64.encode(self.0.as_bytes())
    }

    /// The key's id: the first 16 hex digits of its SHA-256.
    pub fn id(self) -> String {
        let mut id = Digest::of(self.0.as_bytes()).to_string();
        id.truncate(16);
        id
    }
}

/// `manifest.sig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SignatureFile {
    Ed25519 {
        key_id: String,
        public_key: String,
        signature: String,
    },
    /// The archive is not signed.
    None {},
}

/// Who vouches for an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Origin {
    /// Signed with a key the reader trusts.
    Trusted {
        key_id: String,
    },
    /// Signed, by whoever has this key.
    Foreign {
        key_id: String,
        public_key: String,
    },
    Unsigned,
}

/// What a reader demands of the signature. A signature that is wrong is refused in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginRule {
    /// Any archive, signed or not.
    Any,
    /// Signed, by whomever.
    Signed,
    /// Signed with a trusted key.
    Trusted,
}

/// Checks `manifest.sig` against the manifest, and the outcome against the rule.
pub(crate) fn check(
    file: &[u8],
    manifest: &[u8],
    trusted: &[PublicKey],
    rule: OriginRule,
) -> Result<Origin, Fault> {
    let file: SignatureFile =
        json::read(file).map_err(|fault| Fault::new(Rule::SignatureFormat, fault.detail))?;
    let origin = match file {
        SignatureFile::None {} => Origin::Unsigned,
        SignatureFile::Ed25519 {
            key_id,
            public_key,
            signature,
        } => {
            let unreadable = |what| Fault::new(Rule::SignatureFormat, what);
            let key = PublicKey::from_base64(&public_key)
                .ok_or_else(|| unreadable("the public key is no Ed25519 key"))?;
            if key.id() != key_id {
                return Err(unreadable("the key id is not that of the public key"));
            }
            let bytes = BASE64
                .decode(&signature)
                .ok()
                .and_then(|bytes| bytes.try_into().ok());
            let bytes: [u8; 64] =
                bytes.ok_or_else(|| unreadable("the signature is not 64 bytes"))?;
            let sound = key
                .0
                .verify_strict(manifest, &Signature::from_bytes(&bytes))
                .is_ok();
            if !sound {
                let detail = format!("the signature of key {key_id} does not fit the manifest");
                return Err(Fault::new(Rule::SignatureInvalid, detail));
            }
            if trusted.contains(&key) {
                Origin::Trusted { key_id }
            } else {
                Origin::Foreign { key_id, public_key }
            }
        }
    };
    match &origin {
        Origin::Unsigned if rule >= OriginRule::Signed => Err(Fault::new(
            Rule::SignatureMissing,
            "the archive is not signed",
        )),
        Origin::Foreign { key_id, .. } if rule == OriginRule::Trusted => {
            let detail =
                format!("the archive is signed with key {key_id}, which is not trusted here");
            Err(Fault::new(Rule::SignatureForeign, detail))
        }
        _ => Ok(origin),
    }
}
