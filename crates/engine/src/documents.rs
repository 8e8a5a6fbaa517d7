//! Small documents in memory, by the identity of their version.
//!
//! A version never changes, so nothing here grows stale; the head is asked of the database each time.
//! Losing the cache costs a rendering.

use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;
use protocol::WorkspaceId;
use store::Version;
use uuid::Uuid;

/// A document up to this size is rendered whole and kept.
pub(crate) const SMALL_DOCUMENT_BYTES: usize = 256 * 1024;
/// All documents kept by one process.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DocumentKey {
    pub workspace: WorkspaceId,
    pub state: Uuid,
    pub seq: i64,
}

/// The value repeats its key: an answer that belongs to another is a miss and an alarm, whatever went
/// wrong beneath.
#[derive(Debug, Clone)]
struct Cached {
    key: DocumentKey,
    version: Arc<Version>,
    bytes: Bytes,
}

#[derive(Clone)]
pub(crate) struct Documents(Cache<DocumentKey, Cached>);

impl Documents {
    pub(crate) fn new() -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_, cached: &Cached| {
                u32::try_from(cached.bytes.len() + 2_048).unwrap_or(u32::MAX)
            })
            .build();
        Self(cache)
    }

    /// The version and its document, when the digest is the one that the database has now.
    pub(crate) fn get(
        &self,
        key: &DocumentKey,
        sha256: Option<&[u8]>,
    ) -> Option<(Arc<Version>, Bytes)> {
        let cached = self.0.get(key)?;
        if cached.key == *key && sha256.is_some() && cached.version.sha256.as_deref() == sha256 {
            return Some((cached.version, cached.bytes));
        }
        tracing::error!(state.id = %key.state, seq = key.seq, "a cached document is not the one asked for");
        self.0.invalidate(key);
        None
    }

    pub(crate) fn insert(&self, key: DocumentKey, version: &Arc<Version>, bytes: &Bytes) {
        if version.sha256.is_some() && bytes.len() <= SMALL_DOCUMENT_BYTES {
            let cached = Cached {
                key: key.clone(),
                version: Arc::clone(version),
                bytes: bytes.clone(),
            };
            self.0.insert(key, cached);
        }
    }
}
