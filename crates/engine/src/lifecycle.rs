//! Deleting a state and taking that back.

use protocol::StateName;
use store::Lifecycle;
use uuid::Uuid;

use crate::lock::{end_due, holder, is_own, same_spelling};
use crate::{Caller, Engine, EngineError, WriteLock, audit};

impl Engine {
    /// Deletes a state softly: its name is free at once, its history stays until it is purged. A lock
    /// that the caller holds on it ends with it.
    pub async fn delete_state(
        &self,
        caller: &Caller,
        name: &StateName,
        lock: WriteLock<'_>,
    ) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        if state.lifecycle == Lifecycle::Importing {
            return Err(EngineError::NotWritable("being imported"));
        }
        store::lock_ledger(&mut tx, state.id).await?;
        end_due(&mut tx, caller, &state).await?;
        let active = store::list_active(&mut tx, state.id).await?;
        match (lock, active.first()) {
            (WriteLock::None, None) => {
                if self.lock_policy(&mut tx, caller).await?.require_locks {
                    return Err(EngineError::LockRequired);
                }
            }
            (WriteLock::None, Some(held)) => {
                return Err(EngineError::Locked(Box::new(holder(held))));
            }
            (WriteLock::Id(id), Some(held)) if is_own(held, caller, id) => {
                store::lock_active(&mut tx, held.id).await?;
                store::end_reservation(
                    &mut tx,
                    state.id,
                    held.id,
                    store::End::Released,
                    "the state was deleted",
                )
                .await?;
            }
            (WriteLock::Id(_), held) => {
                return Err(EngineError::LockIdMismatch(
                    held.map(|held| Box::new(holder(held))),
                ));
            }
        }
        store::lock_state(&mut tx, state.id).await?;
        store::delete_state(&mut tx, state.id).await?;
        audit::record(&mut tx, caller, state.id, &state.name, audit::What::Deleted).await?;
        Ok(tx.commit().await?)
    }

    /// Gives the latest deleted state of this name (or the one named by id) its name back.
    pub async fn undelete_state(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Option<Uuid>,
    ) -> Result<Uuid, EngineError> {
        let mut tx = self.begin(caller).await?;
        if let Some(other) = store::find_state(&mut tx, caller.environment(), name).await? {
            // A name that was only locked, and never written to, gives way; judged under the locks that writers take.
            store::lock_ledger(&mut tx, other.id).await?;
            let active = store::list_active(&mut tx, other.id).await?;
            let other = store::lock_state(&mut tx, other.id).await?;
            let importing = other.lifecycle == Lifecycle::Importing;
            if other.head_seq > 0 || importing || !active.is_empty() {
                return Err(EngineError::NameTaken);
            }
            store::delete_state(&mut tx, other.id).await?;
        }
        let deleted = store::find_deleted(&mut tx, caller.environment(), name).await?;
        let id = match id {
            Some(id) => deleted.into_iter().find(|known| *known == id),
            None => self.latest_written(&mut tx, deleted).await?,
        };
        let id = id.ok_or(EngineError::NoState)?;
        let state = store::lock_state(&mut tx, id).await?;
        match store::undelete_state(&mut tx, id).await {
            Ok(true) => {}
            Ok(false) => return Err(EngineError::NoState),
            // Somebody else took the name since it was looked at.
            Err(error) if error.is_constraint("states_live_name") => {
                return Err(EngineError::NameTaken);
            }
            Err(error) => return Err(error.into()),
        }
        audit::record(
            &mut tx,
            caller,
            state.id,
            &state.name,
            audit::What::Undeleted,
        )
        .await?;
        tx.commit().await?;
        Ok(id)
    }

    async fn latest_written(
        &self,
        tx: &mut store::WorkspaceTx,
        deleted: Vec<Uuid>,
    ) -> Result<Option<Uuid>, EngineError> {
        for id in deleted {
            if store::find_version(tx, id, store::VersionRef::Head)
                .await?
                .is_some()
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
