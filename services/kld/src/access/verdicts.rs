//! Tokens resolved lately.
//!
//! A verdict is believed for [`MAX_AGE`] after it was read, on every replica by itself, so a revoked token or a removed
//! grant stops working everywhere within that time, whatever else is down. A refusal is never decided on a remembered
//! verdict: see [`Verdicts::resolve_afresh`].

use std::sync::Arc;
use std::time::Duration;

use auth::{Token, TokenMac};
use moka::future::Cache;
use store::Db;
use store::tenancy::verdicts::{Verdict, find_verdict};
use telemetry::{AuthRefusal, VerdictSource};

use super::credentials::unauthenticated;
use crate::error::ApiError;

/// How long a verdict is believed. Revocation is promised within five seconds; this leaves two for a slow read.
const MAX_AGE: Duration = Duration::from_secs(3);
/// How many are remembered. More callers than this at once cost reads, nothing else.
const MAX_ENTRIES: u64 = 20_000;

/// The verdicts of one replica.
#[derive(Clone)]
pub struct Verdicts {
    db: Db,
    // Keyed by the token's MAC: nobody who can read this memory can log in with what is in it.
    cache: Cache<[u8; 32], Arc<Verdict>>,
}

impl Verdicts {
    /// An empty memory.
    #[must_use]
    pub fn new(db: Db) -> Self {
        let cache = Cache::builder()
            .max_capacity(MAX_ENTRIES)
            .time_to_live(MAX_AGE)
            .build();
        Self { db, cache }
    }

    /// What the token stands for, from memory or from the database. Requests that come together read once.
    ///
    /// # Errors
    ///
    /// 401, or 503 when the database is away and the token is not remembered.
    pub(super) async fn resolve(
        &self,
        token: &Token,
        mac: &TokenMac,
    ) -> Result<(Arc<Verdict>, VerdictSource), ApiError> {
        let key = *mac.as_bytes();
        if let Some(verdict) = self.cache.get(&key).await {
            telemetry::verdict_resolved(VerdictSource::Cache);
            return Ok((verdict, VerdictSource::Cache));
        }
        let read = self.cache.try_get_with(key, self.read(token, mac)).await;
        let verdict = read.map_err(|error: Arc<ApiError>| (*error).clone())?;
        Ok((verdict, VerdictSource::Store))
    }

    /// What the token stands for right now.
    ///
    /// # Errors
    ///
    /// As [`Self::resolve`].
    pub(super) async fn resolve_afresh(
        &self,
        token: &Token,
        mac: &TokenMac,
    ) -> Result<Arc<Verdict>, ApiError> {
        let verdict = self.read(token, mac).await?;
        self.cache
            .insert(*mac.as_bytes(), Arc::clone(&verdict))
            .await;
        Ok(verdict)
    }

    /// Forgets everything, so that this replica acts at once on a change made through it. The others follow within
    /// [`MAX_AGE`].
    pub fn forget_all(&self) {
        self.cache.invalidate_all();
    }

    async fn read(&self, token: &Token, mac: &TokenMac) -> Result<Arc<Verdict>, ApiError> {
        telemetry::verdict_resolved(VerdictSource::Store);
        match find_verdict(&self.db, token.id(), mac).await? {
            None => Err(unauthenticated(AuthRefusal::Unknown)),
            Some(verdict) if verdict.revoked => Err(unauthenticated(AuthRefusal::Revoked)),
            Some(verdict) if verdict.expired => Err(unauthenticated(AuthRefusal::Expired)),
            Some(verdict) => Ok(Arc::new(verdict)),
        }
    }
}
