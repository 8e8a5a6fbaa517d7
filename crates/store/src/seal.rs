//! Packing of whole bodies at rest: zstd, then AES-256-GCM under the workspace's own data key.
//!
//! The data key is random, wrapped by the deployment key and kept on the workspace; purging a workspace
//! destroys it. The additional data names workspace, state, sequence and kind, so a value copied to
//! another row does not open there.

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, Payload},
};
use protocol::WorkspaceId;
use uuid::Uuid;

/// Level 3 packs a state to a tenth at several hundred megabytes a second; higher levels buy nothing
/// here (docs/architecture.md).
const ZSTD_LEVEL: i32 = 3;
const NONCE_BYTES: usize = 12;

/// Why a sealed value could not be opened or made.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the sealed value does not open: damaged, or not the one of this row")]
    DoesNotOpen,
    #[error("the body could not be compressed or decompressed")]
    Compression(#[source] std::io::Error),
}

/// What a sealed value is, bound into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedKind {
    Document,
    KeptResult,
    RunDocument,
}

/// The place a sealed value belongs to.
#[derive(Debug, Clone, Copy)]
pub struct SealedPlace<'a> {
    pub workspace: &'a WorkspaceId,
    pub state: Uuid,
    pub seq: i64,
    pub kind: SealedKind,
}

impl SealedPlace<'_> {
    fn additional_data(&self) -> Vec<u8> {
        let kind = match self.kind {
            SealedKind::Document => "document",
            SealedKind::KeptResult => "kept_result",
            SealedKind::RunDocument => "run_document",
        };
        format!(
            "kilolock/1/{}/{}/{}/{kind}",
            self.workspace.as_str(),
            self.state,
            self.seq
        )
        .into_bytes()
    }
}

/// A 256-bit key: of a deployment, or of one workspace.
#[derive(Clone)]
pub struct SealingKey(Aes256Gcm);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey([redacted])")
    }
}

impl SealingKey {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// Compresses and seals. CPU-bound: call it off the runtime for large bodies.
    pub fn pack(&self, place: &SealedPlace<'_>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let compressed = zstd::bulk::compress(plain, ZSTD_LEVEL).map_err(SealError::Compression)?;
        self.seal(&place.additional_data(), rand::random(), &compressed)
    }

    /// Opens what `pack` made for the same place. `size` is the plain size in bytes, recorded beside it.
    pub fn unpack(
        &self,
        place: &SealedPlace<'_>,
        packed: &[u8],
        size: usize,
    ) -> Result<Vec<u8>, SealError> {
        let compressed = self.open(&place.additional_data(), packed)?;
        zstd::bulk::decompress(&compressed, size).map_err(SealError::Compression)
    }

    /// A new data key, wrapped.
    pub fn new_data_key(&self, workspace: &WorkspaceId) -> Result<Vec<u8>, SealError> {
        self.wrap(workspace, rand::random(), &rand::random())
    }

    /// Wraps a workspace's data key.
    fn wrap(
        &self,
        workspace: &WorkspaceId,
        nonce: [u8; NONCE_BYTES],
        data_key: &[u8; 32],
    ) -> Result<Vec<u8>, SealError> {
        self.seal(
            format!("kilolock/1/{}/data_key", workspace.as_str()).as_bytes(),
            nonce,
            data_key,
        )
    }

    /// Unwraps a workspace's data key.
    pub fn unwrap(&self, workspace: &WorkspaceId, wrapped: &[u8]) -> Result<Self, SealError> {
        let plain = self.open(
            format!("kilolock/1/{}/data_key", workspace.as_str()).as_bytes(),
            wrapped,
        )?;
        let key: [u8; 32] = plain
            .as_slice()
            .try_into()
            .map_err(|_| SealError::DoesNotOpen)?;
        Ok(Self::new(&key))
    }

    fn seal(
        &self,
        aad: &[u8],
        nonce: [u8; NONCE_BYTES],
        plain: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let sealed = self
            .0
            .encrypt(Nonce::from_slice(&nonce), Payload { msg: plain, aad })
            .map_err(|_| SealError::DoesNotOpen)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, aad: &[u8], packed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (nonce, sealed) = packed
            .split_at_checked(NONCE_BYTES)
            .ok_or(SealError::DoesNotOpen)?;
        self.0
            .decrypt(Nonce::from_slice(nonce), Payload { msg: sealed, aad })
            .map_err(|_| SealError::DoesNotOpen)
    }
}
