//! Terraform's lock and the administrative lock: reservations of a whole state in the ledger.
//!
//! Terraform re-sends LOCK and UNLOCK with the same bytes when an answer was lost, never renews, and
//! force-unlocks with an empty body that names nothing; every rule here follows from that
//! (docs/http-lane.md).

use locking::{Rule, holds, times};
use protocol::{LockInfo, ReservationId, RunId, StateName};
use store::{End, Lane, Lifecycle, NewReservation, Reservation, State, WorkspaceTx};
use uuid::Uuid;

use crate::queue::Entry;
use crate::reservations::end_held;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, Holder, audit};

/// What Terraform calls the lock of an apply, be it one that destroys.
pub(crate) const TERRAFORM_APPLY: &str = "OperationTypeApply";

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
        if ahead.is_none() || granted.is_ok() {
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

/// Ends every reservation of the state whose lease and lock delay have run out, unless the service has
/// been away lately. The caller holds the ledger.
pub(crate) async fn end_due(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
) -> Result<(), EngineError> {
    let active = store::list_active(tx, state.id).await?;
    end_those_due(tx, caller, state, active).await
}

/// As [`end_due`], of these reservations.
pub(crate) async fn end_those_due(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    held: Vec<Reservation>,
) -> Result<(), EngineError> {
    let due: Vec<_> = held.into_iter().filter(|held| held.due).collect();
    if due.is_empty() {
        return Ok(());
    }
    // A renewal may be on its way until its row is locked, so who is due is read again once none can be.
    for held in &due {
        store::lock_active(tx, held.id).await?;
    }
    let active = store::list_active(tx, state.id).await?;
    if !store::may_expire(tx).await? {
        return Ok(());
    }
    let still_due = active
        .into_iter()
        .filter(|held| held.due && due.iter().any(|known| known.id == held.id));
    for held in still_due {
        end_held(tx, &held, End::Expired, "its lease ran out").await?;
        audit::record(
            tx,
            caller,
            state.id,
            &state.name,
            audit::What::LockExpired {
                lock: &lock_info(&held),
            },
        )
        .await?;
    }
    Ok(())
}

/// Names are one segment, unique without regard to case: another spelling is a mistake, and must not
/// look like a state that was never written.
pub(crate) fn same_spelling(state: &State, name: &StateName) -> Result<(), EngineError> {
    if state.name == name.as_str() {
        Ok(())
    } else {
        Err(EngineError::NameCase {
            stored: state.name.clone(),
        })
    }
}

/// Whether this is the Terraform lock that the caller itself took under this ID. An ID is shown to everybody who meets
/// the lock, so it proves nothing without the principal.
pub(crate) fn is_own(held: &Reservation, caller: &Caller, id: &str) -> bool {
    held.idem_key == id
        && held.lane == Lane::Terraform.as_str()
        && held.principal_id == caller.principal().as_str()
}

/// Whether this is the native reservation that people call so.
fn is_called(held: &Reservation, id: &str) -> bool {
    let run = held.run_id.map(RunId::from_uuid);
    held.is_native()
        && (id.parse() == Ok(ReservationId::from_uuid(held.id))
            || run.is_some_and(|run| id.parse() == Ok(run)))
}

pub(crate) fn lock_info(held: &Reservation) -> LockInfo {
    LockInfo::from_slice(held.info.as_bytes()).unwrap_or_else(|_| LockInfo {
        id: held.idem_key.clone(),
        created: Some(held.created_at),
        ..LockInfo::default()
    })
}

pub(crate) fn holder(held: &Reservation) -> Holder {
    Holder {
        info: lock_info(held),
        reservation: held.id,
        run: held.run_id,
        lane: held.lane.clone(),
        principal: held.principal_id.clone(),
        since: held.created_at,
        last_active: held.last_active_at,
        expires_at: held.expires_at,
    }
}

/// A state that takes no writes is not locked either: nothing would come of it.
pub(crate) fn not_read_only(state: &State) -> Result<(), EngineError> {
    match state.lifecycle {
        Lifecycle::Active | Lifecycle::Deleted => Ok(()),
        Lifecycle::Archived => Err(EngineError::NotWritable("archived")),
        Lifecycle::Importing => Err(EngineError::NotWritable("being imported")),
    }
}
