//! Giving a lock up, and breaking it.

use protocol::{ReservationId, RunId, StateName};
use store::{End, Lane, Reservation, State, WorkspaceTx};

use super::{end_due, holder, same_spelling};
use crate::reservations::end_held;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, Holder, audit};

/// What an UNLOCK names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlockTarget {
    /// The holder's own lock ID.
    Id(String),
    /// Whatever Terraform lock there is: `terraform force-unlock` sends no ID.
    Any,
}

/// How an unlock went.
#[derive(Debug, Clone)]
pub enum Unlocked {
    Released(Box<Holder>),
    /// Somebody's lock was ended by force.
    Broken(Box<Holder>),
    /// The same unlock had been done before, or nothing was held.
    Nothing,
}

impl Engine {
    /// Gives up or breaks the Terraform lock of a state.
    ///
    /// # Errors
    ///
    /// A force-unlock where something else holds the state: nothing of that is broken, and nobody is to think so.
    pub async fn unlock(
        &self,
        caller: &Caller,
        name: &StateName,
        target: &UnlockTarget,
    ) -> Result<Unlocked, EngineError> {
        self.unlock_with(caller, name, target, false).await
    }

    /// By force, what a holder gives up is broken as well: whoever says so does not know that its Terraform is done.
    async fn unlock_with(
        &self,
        caller: &Caller,
        name: &StateName,
        target: &UnlockTarget,
        by_force: bool,
    ) -> Result<Unlocked, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_unlock(caller, name, target, by_force).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_unlock(
        &self,
        caller: &Caller,
        name: &StateName,
        target: &UnlockTarget,
        forced: bool,
    ) -> Result<Unlocked, EngineError> {
        let mut tx = self.begin(caller).await?;
        let Some(state) = store::find_state(&mut tx, caller.environment(), name).await? else {
            // A destroyed state took its lock along; its holder still unlocks.
            return Ok(Unlocked::Nothing);
        };
        same_spelling(&state, name)?;
        store::lock_ledger(&mut tx, state.id).await?;
        let active = store::list_active(&mut tx, state.id).await?;
        let held = active
            .iter()
            .find(|held| held.lane == Lane::Terraform.as_str());
        let (held, by_force) = match (target, held) {
            (UnlockTarget::Any, None) => {
                end_due(&mut tx, caller, &state).await?;
                let held = store::list_active(&mut tx, state.id).await?;
                tx.commit().await?;
                return match held.first() {
                    Some(held) => Err(EngineError::NotByForceUnlock(Box::new(holder(held)))),
                    None => Ok(Unlocked::Nothing),
                };
            }
            (UnlockTarget::Any, Some(held)) => (held, true),
            (UnlockTarget::Id(id), Some(held)) if held.idem_key == *id => {
                let own = held.principal_id == caller.principal().as_str();
                (held, forced || !own)
            }
            (UnlockTarget::Id(id), held) => {
                let ended = store::find_by_key(&mut tx, state.id, id).await?;
                if ended.is_some_and(|known| {
                    !known.is_active() && known.lane == Lane::Terraform.as_str()
                }) {
                    return Ok(Unlocked::Nothing);
                }
                let other = held.or(active.first()).map(|held| Box::new(holder(held)));
                return Err(EngineError::LockIdMismatch(other));
            }
        };
        let unlocked = self.end(&mut tx, caller, &state, held, by_force).await?;
        tx.commit().await?;
        locking::point!(ReleaseAfterCommit);
        Ok(unlocked)
    }

    /// Breaks what this names: a native reservation by its own id or that of its run, else the Terraform lock as
    /// [`Engine::unlock`] does.
    pub async fn force_unlock(
        &self,
        caller: &Caller,
        name: &StateName,
        target: &UnlockTarget,
    ) -> Result<Unlocked, EngineError> {
        if let UnlockTarget::Id(id) = target
            && let Some(unlocked) = self.break_native(caller, name, id).await?
        {
            return Ok(unlocked);
        }
        self.unlock_with(caller, name, target, true).await
    }

    async fn break_native(
        &self,
        caller: &Caller,
        name: &StateName,
        id: &str,
    ) -> Result<Option<Unlocked>, EngineError> {
        let mut tx = self.begin(caller).await?;
        let Some(state) = store::find_state(&mut tx, caller.environment(), name).await? else {
            return Ok(None);
        };
        same_spelling(&state, name)?;
        store::lock_ledger(&mut tx, state.id).await?;
        let active = store::list_active(&mut tx, state.id).await?;
        let Some(held) = active.iter().find(|held| is_called(held, id)) else {
            return Ok(None);
        };
        let unlocked = self.end(&mut tx, caller, &state, held, true).await?;
        tx.commit().await?;
        locking::point!(BreakAfterCommit);
        Ok(Some(unlocked))
    }

    /// Takes the administrative lock of a state away.
    pub async fn admin_unlock(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Unlocked, EngineError> {
        let mut tx = self.begin(caller).await?;
        let Some(state) = store::find_state(&mut tx, caller.environment(), name).await? else {
            return Err(EngineError::NoState);
        };
        same_spelling(&state, name)?;
        store::lock_ledger(&mut tx, state.id).await?;
        let active = store::list_active(&mut tx, state.id).await?;
        let Some(held) = active.iter().find(|held| held.lane == Lane::Admin.as_str()) else {
            return Ok(Unlocked::Nothing);
        };
        let by_force = held.principal_id != caller.principal().as_str();
        let unlocked = self.end(&mut tx, caller, &state, held, by_force).await?;
        tx.commit().await?;
        Ok(unlocked)
    }

    async fn end(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        state: &State,
        held: &Reservation,
        by_force: bool,
    ) -> Result<Unlocked, EngineError> {
        let broken = Box::new(holder(held));
        let own = held.principal_id == caller.principal().as_str();
        if by_force && !own && !caller.may_break_locks() {
            return Err(EngineError::MayNotBreak(broken));
        }
        let (end, reason) = if by_force {
            (End::Broken, format!("broken by {}", caller.display()))
        } else {
            (End::Released, "released by its holder".to_owned())
        };
        end_held(tx, held, end, &reason).await?;
        let what = if by_force {
            audit::What::LockBroken {
                lock: &broken.info,
                holder: &broken.principal,
            }
        } else {
            audit::What::Unlocked { lock: &broken.info }
        };
        audit::record(tx, caller, state.id, &state.name, what).await?;
        Ok(if by_force {
            Unlocked::Broken(broken)
        } else {
            Unlocked::Released(broken)
        })
    }
}

/// Whether this is the native reservation that people call so.
fn is_called(held: &Reservation, id: &str) -> bool {
    let run = held.run_id.map(RunId::from_uuid);
    held.is_native()
        && (id.parse() == Ok(ReservationId::from_uuid(held.id))
            || run.is_some_and(|run| id.parse() == Ok(run)))
}
