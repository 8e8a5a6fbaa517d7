//! The run's own http backend: `GET`, `LOCK` and `UNLOCK`.

use bytes::Bytes;
use protocol::LockInfo;
use protocol::runs::RunKind;

use super::standing::{alive, kind};
use super::{own_run, owned, run_of};
use crate::lock::UnlockTarget;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};

/// What Terraform calls the lock of a plan. It is the only one that changes nothing.
const PLAN: &str = "OperationTypePlan";

impl Engine {
    /// The slice as the run last saw it.
    pub async fn read_run(&self, caller: &Caller) -> Result<Bytes, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_read_run(caller).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_read_run(&self, caller: &Caller) -> Result<Bytes, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = store::find_run(&mut tx, run_of(caller)?).await?;
        let record = owned(record.ok_or(EngineError::NoRun)?, caller)?;
        tx.commit().await?;
        alive(&record)?;
        Ok(self.seen(caller, &record).await?.bytes)
    }

    /// Takes the lock of the run's own backend: one Terraform at a time. With any but that of a plan the apply begins, and a
    /// saved plan is spent: killed before its first upload, Terraform would do everything a second time.
    pub async fn lock_run_backend(
        &self,
        caller: &Caller,
        info: &LockInfo,
    ) -> Result<(), EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_lock_run(caller, info).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_lock_run(&self, caller: &Caller, info: &LockInfo) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let record = own_run(&mut tx, caller).await?;
        alive(&record)?;
        let begins = info.operation != PLAN;
        if begins && kind(&record) == RunKind::Plan {
            return Err(EngineError::RunIsReadOnly);
        }
        if let Some(held) = &record.backend_lock {
            let held = LockInfo::from_slice(held.as_bytes()).unwrap_or_default();
            if held.id != info.id {
                return Err(EngineError::BackendLocked(Box::new(held)));
            }
        }
        let text = super::begin::json(info)?;
        store::set_backend_lock(&mut tx, record.id, Some(&text)).await?;
        if let Some(id) = record.reservation_id {
            let held = store::lock_active(&mut tx, id).await?;
            let held = held.ok_or(store::Error::Moved("the reservation ended meanwhile"))?;
            store::record_activity(&mut tx, id, held.base_seq).await?;
            if begins {
                store::record_beginning(&mut tx, id).await?;
                store::spend_plan(&mut tx, record.id).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    /// Gives up the lock of the run's own backend. Without an ID, whatever lock there is: `terraform force-unlock` names none.
    pub async fn unlock_run_backend(
        &self,
        caller: &Caller,
        target: &UnlockTarget,
    ) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let record = own_run(&mut tx, caller).await?;
        let held = record.backend_lock.as_deref();
        let held = held.and_then(|lock| LockInfo::from_slice(lock.as_bytes()).ok());
        if let (UnlockTarget::Id(id), Some(held)) = (target, held)
            && held.id != *id
        {
            return Err(EngineError::OtherBackendLock(Box::new(held)));
        }
        store::set_backend_lock(&mut tx, record.id, None).await?;
        Ok(tx.commit().await?)
    }
}
