//! Room for large uploads: how much of them a replica holds in memory at once.
//!
//! A document is held whole while it is compared with the head. Many large ones at the same time would exhaust a replica
//! and fail for everybody, so each asks for room before its body is read. Waiting is better than refusing: Terraform waits
//! for an answer as long as it takes, and gives up after three refusals.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use protocol::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// What is counted in.
const UNIT_BYTES: u64 = 1024 * 1024;
/// What a body without Content-Length is taken for. Terraform always sends one.
const UNKNOWN_BYTES: u64 = 64 * 1024 * 1024;
/// How long an upload waits for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// The room of one replica.
#[derive(Clone)]
pub struct Uploads {
    units: u32,
    free: Arc<Semaphore>,
}

impl Uploads {
    /// Room for so many bytes of documents.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        Self {
            units,
            free: Arc::new(Semaphore::new(units as usize)),
        }
    }

    /// Waits for room for the body that these headers announce; it is free again when the guard is dropped. A small body
    /// needs none.
    ///
    /// # Errors
    ///
    /// 503 when there was none in time; nothing of the body has been read.
    pub async fn admit(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok());
        let bytes = length.map_or(Some(UNKNOWN_BYTES), |length| length.parse().ok());
        let units = u32::try_from(bytes.unwrap_or(0) / UNIT_BYTES).unwrap_or(u32::MAX);
        if units == 0 {
            return Ok(None);
        }
        // One that is larger than all the room there is waits for all of it; the limit of a body is checked elsewhere.
        let waiting = Arc::clone(&self.free).acquire_many_owned(units.min(self.units));
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(room)) => Ok(Some(room)),
            _ => Err(ApiError::with_detail(
                Code::Unavailable,
                "too many large documents are being written at the moment",
            )
            .retry_after(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcing(bytes: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, bytes.into());
        headers
    }

    #[tokio::test(start_paused = true)]
    async fn large_uploads_wait_for_each_other_and_small_ones_for_nobody() {
        let uploads = Uploads::new(100 * UNIT_BYTES);
        let first = uploads.admit(&announcing(60 * UNIT_BYTES)).await.unwrap();
        assert!(first.is_some());
        let refused = uploads
            .admit(&announcing(60 * UNIT_BYTES))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(uploads.admit(&announcing(1_000)).await.unwrap().is_none());
        drop(first);
        assert!(
            uploads
                .admit(&announcing(600 * UNIT_BYTES))
                .await
                .unwrap()
                .is_some()
        );
        assert!(uploads.admit(&HeaderMap::new()).await.unwrap().is_some());
    }
}
