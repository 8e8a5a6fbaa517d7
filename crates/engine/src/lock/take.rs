//! Taking the lock of a whole state.

use locking::{Rule, holds, times};
use protocol::{LockInfo, StateName};
use store::{Lane, Lifecycle, NewReservation, Reservation, State, WorkspaceTx};
use uuid::Uuid;

use super::{end_due, holder, lock_info, not_read_only, same_spelling};
use crate::queue::Entry;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, Holder, audit};

impl Engine {
    /// Takes the Terraform lock. The same ID again is the same grant; an ID that ended is a delayed
    /// duplicate and never locks anew.
    pub async fn lock(
        &self,
        caller: &Caller,
        name: &StateName,
        info: &LockInfo,
    ) -> Result<(), EngineError> {
        self.reserve_with_tries(caller, name, Lane::Terraform, info)
            .await
            .map(drop)
    }

    /// Takes the administrative lock: it stays until somebody takes it away by hand.
    pub async fn admin_lock(
        &self,
        caller: &Caller,
        name: &StateName,
        info: &LockInfo,
    ) -> Result<Holder, EngineError> {
        self.reserve_with_tries(caller, name, Lane::Admin, info)
            .await
    }

    async fn reserve_with_tries(
        &self,
        caller: &Caller,
        name: &StateName,
        lane: Lane,
        info: &LockInfo,
    ) -> Result<Holder, EngineError> {
        if lane == Lane::Terraform {
            return self.lock_in_turn(caller, name, info).await;
        }
        self.reserve_whole_state(caller, name, lane, info, None)
            .await
    }

    /// Takes the Terraform lock when it is its turn in the queue.
    async fn lock_in_turn(
        &self,
        caller: &Caller,
        name: &StateName,
        info: &LockInfo,
    ) -> Result<Holder, EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_or_create_state(&mut tx, caller.environment(), name).await?;
        let ledger_gen = store::ledger_gen(&mut tx, state.id).await?;
        tx.commit().await?;
        let (entry, request) = self.enter_with_lock(caller, &state, info).await?;
        // Whom the index takes for a holder may have let go just now; who waits in front is the index's to know.
        let ahead = match &entry {
            Entry::Open(_) => None,
            Entry::Wait(place) => {
                self.catch_up(caller, &state, place, ledger_gen).await;
                Some(place.ahead)
            }
        };
        let granted = self
            .reserve_whole_state(caller, name, Lane::Terraform, info, ahead)
            .await;
        // One that is refused keeps its place; one that was let through has none any more.
        if granted.is_ok() {
            self.served(caller, &request);
        } else if ahead.is_none() {
            self.leave_queue(caller, &request);
        }
        granted
    }

    async fn reserve_whole_state(
        &self,
        caller: &Caller,
        name: &StateName,
        lane: Lane,
        info: &LockInfo,
        ahead: Option<u32>,
    ) -> Result<Holder, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self
                .try_reserve_whole_state(caller, name, lane, info, ahead)
                .await
            {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Where others wait in front, only what is overdue makes way.
    async fn try_reserve_whole_state(
        &self,
        caller: &Caller,
        name: &StateName,
        lane: Lane,
        info: &LockInfo,
        ahead: Option<u32>,
    ) -> Result<Holder, EngineError> {
        let mut tx = self.begin(caller).await?;
        locking::point!(ReserveAfterBegin);
        let state = store::find_or_create_state(&mut tx, caller.environment(), name).await?;
        same_spelling(&state, name)?;
        not_read_only(&state)?;
        // A busy state answers its waiters without a row lock: what is active and not due conflicts.
        if let Some(answer) = known_key(&mut tx, caller, &state, name, info).await? {
            tx.commit().await?;
            return Ok(answer);
        }
        let active = store::list_active(&mut tx, state.id).await?;
        if let Some(held) = active.iter().find(|held| !held.due && excludes(held)) {
            return Err(EngineError::Locked(Box::new(holder(held))));
        }
        if let Some(ahead) = ahead.filter(|ahead| *ahead > 0 && active.is_empty()) {
            return Err(EngineError::Queued { ahead });
        }

        store::lock_ledger(&mut tx, state.id).await?;
        locking::point!(ReserveAfterHeadLock);
        if let Some(answer) = known_key(&mut tx, caller, &state, name, info).await? {
            tx.commit().await?;
            return Ok(answer);
        }
        locking::point!(ReserveAfterKey);
        end_due(&mut tx, caller, &state).await?;
        locking::point!(ReserveAfterExpiry);
        let active = store::list_active(&mut tx, state.id).await?;
        if let Some(held) = active.iter().find(|held| excludes(held)) {
            return Err(EngineError::Locked(Box::new(holder(held))));
        }
        if let Some(ahead) = ahead.filter(|ahead| *ahead > 0) {
            // What was overdue has made way, for those in front.
            tx.commit().await?;
            return Err(EngineError::Queued { ahead });
        }
        locking::point!(ReserveAfterCheck);
        let state = store::lock_state(&mut tx, state.id).await?;
        not_read_only(&state)?;
        if state.lifecycle != Lifecycle::Active {
            // Deleted during the wait: its name means another state now, or none.
            return Err(store::Error::Moved("the state was deleted meanwhile").into());
        }
        let lease_seconds = match lane {
            Lane::Terraform => {
                self.lock_policy(&mut tx, caller)
                    .await?
                    .terraform_lock_ttl_seconds
            }
            Lane::Native | Lane::Admin => None,
        };
        let idem_key = fresh_key(&mut tx, state.id, &info.id).await?;
        let granted = store::insert_whole_state(
            &mut tx,
            &NewReservation {
                id: Uuid::now_v7(),
                state_id: state.id,
                run_id: None,
                lane,
                idem_key: &idem_key,
                lease_seconds: lease_seconds.map(times::lease),
                base_seq: state.head_seq,
                info: &serde_json::to_string(info).unwrap_or_default(),
                principal_id: caller.principal().as_str(),
            },
        )
        .await?;
        audit::record(
            &mut tx,
            caller,
            state.id,
            &state.name,
            audit::What::Locked { lock: info },
        )
        .await?;
        locking::point!(ReserveAfterInsert);
        tx.commit().await?;
        locking::point!(ReserveAfterCommit);
        Ok(holder(&granted))
    }
}

/// Whether a reservation of either lane excludes one of the whole state: all do.
fn excludes(held: &Reservation) -> bool {
    holds(Rule::LedgerCheck) && (holds(Rule::MixedLanes) || !held.is_native())
}

/// The key under which a grant is recorded: the request's own, which no reservation of the state has had.
async fn fresh_key(tx: &mut WorkspaceTx, state: Uuid, key: &str) -> Result<String, EngineError> {
    if !holds(Rule::IdemKey) && store::find_by_key(tx, state, key).await?.is_some() {
        return Ok(format!("{key} {}", Uuid::now_v7()));
    }
    Ok(key.to_owned())
}

/// The answer to a key that was used before: the same grant while it is active, a refusal after.
async fn known_key(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    name: &StateName,
    info: &LockInfo,
) -> Result<Option<Holder>, EngineError> {
    if !holds(Rule::IdemKey) {
        return Ok(None);
    }
    let known = match store::find_by_key(tx, state.id, &info.id).await? {
        Some(known) => known,
        // A state of this name that was deleted since may have had it.
        None => match store::find_ended_by_name(tx, caller.environment(), name, &info.id).await? {
            Some(ended) => ended,
            None => return Ok(None),
        },
    };
    // Ended comes first: nobody may be told to wait for a holder that is gone.
    if !known.is_active() {
        return Err(EngineError::LockEnded {
            info: Box::new(lock_info(&known)),
            reason: known.end_reason.unwrap_or_default(),
            kept: false,
        });
    }
    if known.principal_id != caller.principal().as_str() {
        return Err(EngineError::Locked(Box::new(holder(&known))));
    }
    Ok(Some(holder(&known)))
}
