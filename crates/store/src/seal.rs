//! Packing of whole bodies at rest: zstd, then AES-256-GCM under the workspace's own data key.
//!
//! The data key is random, wrapped by the deployment key and kept on the workspace; purging a workspace
//! destroys it. The additional data names workspace, state, sequence and kind, so a value copied to
//! another row does not open there.

use std::io::{Cursor, Read, Write as _};

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce, Tag,
    aead::{Aead, AeadInPlace, Payload},
};
use protocol::WorkspaceId;
use uuid::Uuid;

/// Level 3 packs a state to a tenth at several hundred megabytes a second; higher levels buy nothing
/// here (docs/architecture.md).
const ZSTD_LEVEL: i32 = 3;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

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

/// Appends one frame that tells the size of its content.
fn compress_onto(out: &mut Vec<u8>, plain: &[u8]) -> std::io::Result<()> {
    let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
    encoder.set_pledged_src_size(Some(plain.len() as u64))?;
    encoder.include_contentsize(true)?;
    encoder.write_all(plain)?;
    encoder.finish()?;
    Ok(())
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
        // Everything in one buffer: a body that does not compress is as large as the document.
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let mut packed = nonce.to_vec();
        compress_onto(&mut packed, plain).map_err(SealError::Compression)?;
        let aad = place.additional_data();
        let tag = self
            .0
            .encrypt_in_place_detached(Nonce::from_slice(&nonce), &aad, &mut packed[NONCE_BYTES..])
            .map_err(|_| SealError::DoesNotOpen)?;
        packed.extend_from_slice(&tag);
        Ok(packed)
    }

    /// Opens what `pack` made for the same place, to be read piece by piece. Memory is that of the packed body, whatever it
    /// unpacks to.
    pub fn unpack_reader(
        &self,
        place: &SealedPlace<'_>,
        mut packed: Vec<u8>,
    ) -> Result<impl Read + Send + use<>, SealError> {
        let aad = place.additional_data();
        let end = packed
            .len()
            .checked_sub(TAG_BYTES)
            .filter(|end| *end >= NONCE_BYTES)
            .ok_or(SealError::DoesNotOpen)?;
        let (head, tag) = packed.split_at_mut(end);
        let (nonce, sealed) = head.split_at_mut(NONCE_BYTES);
        self.0
            .decrypt_in_place_detached(Nonce::from_slice(nonce), &aad, sealed, Tag::from_slice(tag))
            .map_err(|_| SealError::DoesNotOpen)?;
        packed.truncate(end);
        let mut compressed = Cursor::new(packed);
        compressed.set_position(NONCE_BYTES as u64);
        zstd::stream::read::Decoder::with_buffer(compressed).map_err(SealError::Compression)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(workspace: &WorkspaceId, seq: i64) -> SealedPlace<'_> {
        SealedPlace {
            workspace,
            state: Uuid::nil(),
            seq,
            kind: SealedKind::Document,
        }
    }

    #[test]
    fn what_was_packed_is_opened_whole_or_piece_by_piece_in_its_place_alone() {
        let key = SealingKey::new(&[7; 32]);
        let workspace = WorkspaceId::from_bytes([1; 6]);
        // Larger than any window of the level, and not all alike.
        let large: Vec<u8> = (0..9_000_000_u32).flat_map(u32::to_le_bytes).collect();
        for plain in [&b""[..], b"small", &large] {
            let packed = key.pack(&place(&workspace, 1), plain).unwrap();
            let whole = key.unpack(&place(&workspace, 1), &packed, plain.len());
            assert!(whole.unwrap() == plain);
            let mut read = Vec::new();
            let reader = key.unpack_reader(&place(&workspace, 1), packed.clone());
            reader.unwrap().read_to_end(&mut read).unwrap();
            assert!(read == plain);
            let opens =
                |seq, packed: Vec<u8>| key.unpack_reader(&place(&workspace, seq), packed).is_ok();
            assert!(!opens(2, packed.clone()));
            assert!(!opens(1, packed[..packed.len() - 1].to_vec()));
            assert!(!opens(1, packed[..NONCE_BYTES].to_vec()));
            let mut flipped = packed;
            *flipped.last_mut().unwrap() ^= 1;
            assert!(!opens(1, flipped));
        }
    }
}
