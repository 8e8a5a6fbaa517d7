//! Room for large uploads: how much of them a replica holds in memory at once.
//!
//! A document is held whole while it is compared with the head. Many large ones at the same time would exhaust a replica
//! and fail for everybody, so each asks for room before its body is read. Waiting is better than refusing: Terraform waits
//! for an answer as long as it takes, and gives up after three refusals. No workspace gets more than half of the room, so
//! one that uploads slowly does not shut the others out.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use moka::sync::Cache;
use protocol::{Code, WorkspaceId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// What is counted in.
const UNIT_BYTES: u64 = 1024 * 1024;
/// What a body without Content-Length is taken for. Terraform always sends one.
const UNKNOWN_BYTES: u64 = 64 * 1024 * 1024;
/// After how long without a large write a workspace's share is forgotten. Longer than any upload that is cut off for being
/// slow could go unnoticed.
const SHARE_IDLE: Duration = Duration::from_secs(24 * 3600);
/// How long an upload waits for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// The room of one replica.
#[derive(Clone)]
pub struct Uploads {
    units: u32,
    free: Arc<Semaphore>,
    /// Half of the room for each workspace that has lately written something large.
    shares: Cache<WorkspaceId, Arc<Semaphore>>,
}

/// Room for one upload; free again when dropped.
#[derive(Debug)]
pub struct Room {
    _share: OwnedSemaphorePermit,
    _room: OwnedSemaphorePermit,
}

impl Uploads {
    /// Room for so many bytes of documents.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(2);
        Self {
            units,
            free: Arc::new(Semaphore::new(units as usize)),
            shares: Cache::builder().time_to_idle(SHARE_IDLE).build(),
        }
    }

    /// Waits for room for the body that these headers announce. A small body needs none; one that is compressed needs room
    /// for the largest document, because what it inflates to is not known.
    ///
    /// # Errors
    ///
    /// 503 when there was none in time; nothing of the body has been read.
    pub async fn admit(
        &self,
        workspace: &WorkspaceId,
        headers: &HeaderMap,
        largest: u64,
    ) -> Result<Option<Room>, ApiError> {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok());
        let bytes = match (headers.contains_key(header::CONTENT_ENCODING), announced) {
            (true, _) => largest,
            (false, None) => UNKNOWN_BYTES,
            (false, Some(length)) => length.parse().unwrap_or(0),
        };
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        if units == 0 {
            return Ok(None);
        }
        // One that is larger than the whole share waits for all of it; the limit of a body is checked elsewhere.
        let share_units = self.units / 2;
        let units = units.min(share_units);
        let share = self
            .shares
            .get_with_by_ref(workspace, || Arc::new(Semaphore::new(share_units as usize)));
        let waiting = async {
            let share = share.acquire_many_owned(units).await.ok()?;
            let room = Arc::clone(&self.free)
                .acquire_many_owned(units)
                .await
                .ok()?;
            Some(Room {
                _share: share,
                _room: room,
            })
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Some(room)) => Ok(Some(room)),
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

    const LARGEST: u64 = 80 * UNIT_BYTES;

    fn announcing(bytes: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, bytes.into());
        headers
    }

    fn workspace(number: u8) -> WorkspaceId {
        WorkspaceId::from_bytes([number; 6])
    }

    #[tokio::test(start_paused = true)]
    async fn large_uploads_of_a_workspace_wait_for_each_other_and_for_nobody_elses() {
        let uploads = Uploads::new(100 * UNIT_BYTES);
        let (slow, other) = (workspace(1), workspace(2));
        let large = announcing(40 * UNIT_BYTES);
        let first = uploads.admit(&slow, &large, LARGEST).await.unwrap();
        assert!(first.is_some());
        let refused = uploads.admit(&slow, &large, LARGEST).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(
            uploads
                .admit(&other, &large, LARGEST)
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            uploads
                .admit(&slow, &announcing(1_000), LARGEST)
                .await
                .unwrap()
                .is_none()
        );
        drop(first);
        let beyond = announcing(600 * UNIT_BYTES);
        assert!(
            uploads
                .admit(&slow, &beyond, LARGEST)
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            uploads
                .admit(&slow, &HeaderMap::new(), LARGEST)
                .await
                .unwrap()
                .is_some()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_compressed_body_needs_room_for_what_it_may_become() {
        let uploads = Uploads::new(100 * UNIT_BYTES);
        let mut small = announcing(1_000);
        small.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        let first = uploads.admit(&workspace(1), &small, LARGEST).await.unwrap();
        assert!(first.is_some());
        assert!(uploads.admit(&workspace(1), &small, LARGEST).await.is_err());
    }
}
