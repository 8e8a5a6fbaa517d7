//! Keeping a run alive.
//!
//! A thousand runs renew fifty times a second. Those that come within a moment are written by one statement; what it leaves
//! out, because somebody works on that row or because it is to be refused, is looked at by itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol::WorkspaceId;
use protocol::runs::{RenewRun, Renewed};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::standing::alive;
use super::{owned, run_of};
use crate::{Caller, Engine, EngineError};

/// The renewals of this process that wait to be written, by workspace: row security lets a transaction see one.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<HashMap<WorkspaceId, Vec<Waiting>>>);

struct Waiting {
    id: Uuid,
    token: i64,
    written: oneshot::Sender<store::RenewedLease>,
}

impl Engine {
    /// Starts the lease of a run anew.
    pub async fn renew_run(
        &self,
        caller: &Caller,
        request: &RenewRun,
    ) -> Result<Renewed, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = store::find_run(&mut tx, run_of(caller)?).await?;
        tx.commit().await?;
        let record = owned(record.ok_or(EngineError::NoRun)?, caller)?;
        alive(&record)?;
        let id = record.reservation_id.ok_or(EngineError::RunIsReadOnly)?;
        let lease = self.renew_lease(caller, id, request.token).await?;
        Ok(Renewed {
            lease_seconds: u32::try_from(lease.lease_seconds).unwrap_or_default(),
            expires_at: lease.expires_at,
            kept_count: u32::try_from(record.kept_count).unwrap_or(u32::MAX),
        })
    }

    /// Starts a lease anew: together with others, or by itself where it was left out.
    pub(super) async fn renew_lease(
        &self,
        caller: &Caller,
        id: Uuid,
        token: i64,
    ) -> Result<store::RenewedLease, EngineError> {
        match self.renew_with_others(caller, id, token).await {
            Some(lease) => Ok(lease),
            None => self.renew_alone(caller, id, token).await,
        }
    }

    /// Renews together with whoever else does within a moment. `None`: it is not among those that were written.
    async fn renew_with_others(
        &self,
        caller: &Caller,
        id: Uuid,
        token: i64,
    ) -> Option<store::RenewedLease> {
        let (written, answer) = oneshot::channel();
        let waiting = Waiting { id, token, written };
        let workspace = caller.workspace();
        let is_first = {
            let mut gathering = self
                .renewals
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let batch = gathering.entry(workspace.clone()).or_default();
            batch.push(waiting);
            batch.len() == 1
        };
        if is_first {
            // Not by the request itself: its client may hang up, and others wait for it.
            let (engine, workspace) = (self.clone(), workspace.clone());
            tokio::spawn(async move { engine.write_renewals(workspace).await });
        }
        answer.await.ok()
    }

    async fn write_renewals(self, workspace: WorkspaceId) {
        tokio::time::sleep(locking::times::RENEWALS_GATHER.duration()).await;
        let batch = {
            let mut gathering = self
                .renewals
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            gathering.remove(&workspace).unwrap_or_default()
        };
        let (ids, tokens): (Vec<Uuid>, Vec<i64>) =
            batch.iter().map(|one| (one.id, one.token)).unzip();
        let renewed = async {
            let mut tx = self.db.begin(&workspace).await?;
            locking::point!(RenewBefore);
            let renewed = store::renew_reservations(&mut tx, &ids, &tokens).await?;
            locking::point!(RenewAfterUpdate);
            tx.commit().await?;
            locking::point!(RenewAfterCommit);
            Ok::<_, EngineError>(renewed)
        };
        match renewed.await {
            Ok(renewed) => {
                let renewed: HashMap<(Uuid, i64), store::RenewedLease> = renewed
                    .into_iter()
                    .map(|lease| ((lease.id, lease.token), lease))
                    .collect();
                for one in batch {
                    if let Some(lease) = renewed.get(&(one.id, one.token)) {
                        // Whoever has hung up is renewed all the same.
                        let _ = one.written.send(*lease);
                    }
                }
            }
            // Each tries by itself, and says what is wrong.
            Err(error) => tracing::debug!(%error, "renewals were not written together"),
        }
    }

    /// Renews by itself; waits for whoever works on the reservation.
    async fn renew_alone(
        &self,
        caller: &Caller,
        id: Uuid,
        token: i64,
    ) -> Result<store::RenewedLease, EngineError> {
        let mut tx = self.begin(caller).await?;
        if let Some(renewed) = store::renew_reservation(&mut tx, id, token).await? {
            tx.commit().await?;
            return Ok(renewed);
        }
        let ended = store::find_reservation(&mut tx, id).await?;
        Err(EngineError::LeaseLost {
            reason: ended
                .and_then(|ended| ended.end_reason)
                .unwrap_or_else(|| "the token is not that of the reservation".to_owned()),
            kept: false,
        })
    }
}
