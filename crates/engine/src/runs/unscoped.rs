//! Runs whose client works out its own scope: the primitives of the state engine, one by one.
//!
//! Such a run begins without a scope and without claims. It reserves what its client names, commits under that, and ends
//! like any other; what holds for runs holds for it.

use graph::claims::ClaimSet;
use protocol::runs::{Run, RunKind, RunReservation};
use protocol::scope::{ScopeClaim, ScopeConfidence, ScopeContract, ScopeDiagnostics, ScopeRequest};
use protocol::{LockInfo, RunId, StateName};
use store::{
    End, LockedRun, NewRun, Reservation, RunStanding, State, VersionRef, WaitingRun, WorkspaceTx,
};
use uuid::Uuid;

use super::begin::{Asking, json, native};
use super::keys::{begun_before, begun_meanwhile};
use super::standing::{alive, kind_text};
use super::view::{view, view_reservation};
use super::{is_own, may_write, run_of};
use crate::lock::same_spelling;
use crate::reservations::{
    Ask, end_held, extend, grant_at_once, insert, make_room, read_claims, reserve_at_once,
};
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};

/// Why the reservation of a run ends that goes on.
const GIVEN_UP: &str = "its run gave it up";

/// What keeps the grants of a state apart by their keys.
const KEYS: &str = "reservations_workspace_id_state_id_idem_key_key";

/// A run, and what its client knows it by.
#[derive(Debug, Clone)]
pub struct UnscopedRun {
    pub run: Run,
    pub state: Uuid,
    /// The version it began on, if there was one.
    pub from_version: Option<Uuid>,
}

/// Who begins a run, as others see it.
#[derive(Debug, Clone)]
pub struct Beginner<'a> {
    /// The same key is the same run.
    pub key: &'a str,
    pub command: &'a str,
    pub who: &'a str,
    /// SHA-256 of the request: the same key with another one is refused.
    pub request_digest: [u8; 32],
}

impl Engine {
    /// Begins a run that reserves nothing yet.
    pub async fn begin_unscoped_run(
        &self,
        caller: &Caller,
        name: &StateName,
        beginner: &Beginner<'_>,
    ) -> Result<UnscopedRun, EngineError> {
        may_write(caller)?;
        let asking = Asking::new(beginner.key, beginner.command, beginner.who, None)?
            .with_request(beginner.request_digest);
        let mut tries = Tries::default();
        loop {
            match self.try_begin_unscoped(caller, name, &asking).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_begin_unscoped(
        &self,
        caller: &Caller,
        name: &StateName,
        asking: &Asking<'_>,
    ) -> Result<UnscopedRun, EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_or_create_state(&mut tx, caller.environment(), name).await?;
        same_spelling(&state, name)?;
        let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        if let Some(head) = &head {
            native(head)?;
        }
        let record = match begun_before(&mut tx, caller, &state, asking).await? {
            Some(known) => known,
            None => {
                let run = Uuid::now_v7();
                store::insert_run(
                    &mut tx,
                    &NewRun {
                        id: run,
                        state_id: state.id,
                        kind: kind_text(RunKind::Apply),
                        idem_key: asking.key,
                        command: asking.command,
                        who: asking.who,
                        principal_id: caller.principal().as_str(),
                        scope: &json(&ScopeRequest::default())?,
                        contract: &json(&no_contract())?,
                        base_seq: state.head_seq,
                        reservation_id: None,
                        request_digest: &asking.request_digest,
                    },
                )
                .await
                .map_err(begun_meanwhile)?;
                let record = store::find_run(&mut tx, run).await?;
                record.ok_or(EngineError::NoRun)?
            }
        };
        let run = view(&mut tx, &record).await?;
        tx.commit().await?;
        Ok(UnscopedRun {
            run,
            state: state.id,
            from_version: head.map(|head| head.id),
        })
    }

    /// Reserves claims for a run: all of them or none, beside those that it has already. The first ones in turn: who is
    /// refused gets a place in the queue when it comes back, and with its ticket the place it had.
    pub async fn reserve_for_run(
        &self,
        caller: &Caller,
        name: &StateName,
        run: Uuid,
        claims: &[ScopeClaim],
        lease_seconds: i64,
        ticket: Option<&str>,
    ) -> Result<Option<RunReservation>, EngineError> {
        may_write(caller)?;
        let claims = read_claims(claims)?;
        let mut tries = Tries::default();
        loop {
            let want = Want::new(run, &claims, lease_seconds);
            match self.reserve_in_turn(caller, name, &want, ticket).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Reserves when it is the run's turn. One that holds something already does not wait.
    async fn reserve_in_turn(
        &self,
        caller: &Caller,
        name: &StateName,
        want: &Want<'_>,
        ticket: Option<&str>,
    ) -> Result<Option<RunReservation>, EngineError> {
        let place = (caller.environment(), name);
        let found = store::find_run_at_once(&self.db, caller.workspace(), place, want.run).await?;
        let found = found.ok_or(EngineError::NoRun)?;
        is_own(&found.principal_id, &found.who, caller)?;
        if want.claims.is_empty() || found.holds {
            return self.try_reserve(caller, name, want).await;
        }
        let key = format!("state-engine {}", want.run);
        let asking = Asking::new(&key, &found.command, &found.who, None)?.waiting(ticket, 0);
        let waiting = asking.in_queue(&found.state, want.claims);
        let (_pass, queued) = self.wait_in_queue(caller, &waiting).await?;
        let reserved = self.reserve_first(caller, name, &found, want).await;
        self.after_queue(caller, &queued, &reserved).await;
        reserved
    }

    /// Reserves for a run that held nothing a moment ago.
    async fn reserve_first(
        &self,
        caller: &Caller,
        name: &StateName,
        found: &WaitingRun,
        want: &Want<'_>,
    ) -> Result<Option<RunReservation>, EngineError> {
        same_spelling(&found.state, name)?;
        let info = want.lock_info(&found.command, &found.who)?;
        let ask = want.ask(&info);
        if let Some(held) = reserve_at_once(&self.db, caller, &found.state, &ask).await? {
            locking::point!(ReserveAfterCommit);
            return Ok(Some(view_reservation(&held, want.claims)?));
        }
        self.try_reserve(caller, name, want).await
    }

    async fn try_reserve(
        &self,
        caller: &Caller,
        name: &StateName,
        want: &Want<'_>,
    ) -> Result<Option<RunReservation>, EngineError> {
        let claims = want.claims;
        let mut tx = self.begin(caller).await?;
        let LockedRun {
            run: record,
            state,
            reservation,
        } = lock_own(&mut tx, caller, want.run, Some(name)).await?;
        alive(&record)?;
        let granted = match reservation.filter(Reservation::is_active) {
            Some(held) if claims.is_empty() => {
                let known = store::find_claims(&mut tx, &[held.id]).await?;
                let claims = known.get(&held.id).cloned().unwrap_or_default();
                Some((held, claims))
            }
            Some(held) => {
                let held = (held.id, held.token);
                let (held, claims, _) = extend(&mut tx, caller, &state, held, claims).await?;
                Some((held, claims))
            }
            None if claims.is_empty() => None,
            None => {
                let reserved = reserve(&mut tx, caller, &state, &record, want).await;
                Some((reserved.map_err(granted_meanwhile)?, claims.clone()))
            }
        };
        tx.commit().await?;
        locking::point!(ReserveAfterCommit);
        granted
            .map(|(held, claims)| view_reservation(&held, &claims))
            .transpose()
    }

    /// Starts the lease of a run anew; answers how many claims live on. None is no error.
    pub async fn renew_unscoped_run(&self, caller: &Caller) -> Result<usize, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = find_own(&mut tx, caller, run_of(caller)?, None).await?;
        let held = held(&mut tx, &record).await?;
        let Some(Reservation { id, token, .. }) = held else {
            return Ok(0);
        };
        let claims = store::find_claims(&mut tx, &[id]).await?;
        tx.commit().await?;
        match self.renew_lease(caller, id, token).await {
            Ok(_) => Ok(claims.get(&id).map_or(0, |claims| claims.iter().len())),
            Err(EngineError::LeaseLost { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Gives up what a run holds; it may reserve anew. Nothing held is no error.
    pub async fn release_unscoped_run(&self, caller: &Caller) -> Result<(), EngineError> {
        let run = run_of(caller)?;
        if self.release_at_once(caller, run).await? {
            return Ok(());
        }
        let mut tx = self.begin(caller).await?;
        let locked = lock_own(&mut tx, caller, run, None).await?;
        let record = locked.run;
        if let Some(held) = locked.reservation.filter(Reservation::is_active) {
            // All that can be done before others have to wait for the ledger.
            store::set_run_reservation(&mut tx, record.id, None, record.base_seq).await?;
            if !end_held(&mut tx, &held, End::Released, GIVEN_UP).await? {
                // Somebody else has ended it, which is to be seen.
                return Ok(tx.rollback().await?);
            }
        }
        Ok(tx.commit().await?)
    }

    async fn release_at_once(&self, caller: &Caller, run: Uuid) -> Result<bool, EngineError> {
        if locking::is_any_armed() {
            return Ok(false);
        }
        let (workspace, principal) = (caller.workspace(), caller.principal());
        match store::release_at_once(&self.db, workspace, run, principal, GIVEN_UP).await {
            // Where it was done after all, the long way finds nothing to be done.
            Err(store::Error::Disconnected(_)) => Ok(false),
            outcome => Ok(outcome?),
        }
    }

    /// Fails while somebody else holds the whole state: what plain Terraform is shown follows from the reservations, so
    /// there is nothing to be taken.
    pub async fn confirm_visibility(
        &self,
        caller: &Caller,
        name: &StateName,
        run: Uuid,
    ) -> Result<(), EngineError> {
        may_write(caller)?;
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoRun)?;
        same_spelling(&state, name)?;
        let record = find_own(&mut tx, caller, run, Some(&state)).await?;
        alive(&record)?;
        let holders = store::list_active(&mut tx, state.id).await?;
        tx.commit().await?;
        match holders.iter().find(|held| !held.is_native() && !held.due) {
            Some(held) => Err(EngineError::Locked(Box::new(crate::lock::holder(held)))),
            None => Ok(()),
        }
    }
}

/// Locks a run, one of the state of this name if one is given, if it is the caller's own.
pub(super) async fn lock_own(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    run: Uuid,
    name: Option<&StateName>,
) -> Result<LockedRun, EngineError> {
    let named = name.map(|name| (caller.environment(), name));
    let locked = store::lock_run_of(tx, run, named).await?;
    let locked = locked.ok_or(EngineError::NoRun)?;
    if let Some(name) = name {
        same_spelling(&locked.state, name)?;
    }
    is_own(&locked.run.principal_id, &locked.run.who, caller)?;
    Ok(locked)
}

/// Finds a run, of this state where one is given, if it is the caller's own. Of a run of another state nothing is said.
async fn find_own(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    run: Uuid,
    state: Option<&State>,
) -> Result<RunStanding, EngineError> {
    let record = store::find_run_standing(tx, run).await?;
    let record = record.filter(|record| state.is_none_or(|state| state.id == record.state_id));
    let record = record.ok_or(EngineError::NoRun)?;
    is_own(&record.principal_id, &record.who, caller)?;
    Ok(record)
}

/// What a run holds.
async fn held(
    tx: &mut WorkspaceTx,
    record: &RunStanding,
) -> Result<Option<Reservation>, EngineError> {
    let Some(id) = record.reservation_id else {
        return Ok(None);
    };
    let held = store::find_reservation(tx, id).await?;
    Ok(held.filter(Reservation::is_active))
}

async fn reserve(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    record: &RunStanding,
    want: &Want<'_>,
) -> Result<Reservation, EngineError> {
    let info = want.lock_info(&record.command, &record.who)?;
    let ask = want.ask(&info);
    if let Some(granted) = grant_at_once(tx, caller, state, &ask, None).await? {
        return Ok(granted);
    }
    let room = make_room(tx, caller, state, want.claims).await?;
    let locked = store::lock_state(tx, state.id).await?;
    let reservation = insert(tx, caller, &locked, &room, &ask).await?;
    let base = locked.head_seq;
    store::set_run_reservation(tx, record.id, Some(reservation.id), base).await?;
    Ok(reservation)
}

/// What a run wants to hold.
struct Want<'a> {
    run: Uuid,
    claims: &'a ClaimSet,
    lease_seconds: i64,
    /// A run may reserve more than once, and each grant has a key of its own.
    key: String,
}

impl<'a> Want<'a> {
    fn new(run: Uuid, claims: &'a ClaimSet, lease_seconds: i64) -> Self {
        let key = format!("{}/{}", RunId::from_uuid(run), Uuid::now_v7().simple());
        Self {
            run,
            claims,
            lease_seconds,
            key,
        }
    }

    /// What plain Terraform is shown of it.
    fn lock_info(&self, command: &str, who: &str) -> Result<LockInfo, EngineError> {
        Ok(Asking::new("reserve", command, who, None)?.lock_info(self.run))
    }

    fn ask<'b>(&'b self, info: &'b LockInfo) -> Ask<'b> {
        Ask {
            run: self.run,
            key: &self.key,
            claims: self.claims,
            lease_seconds: self.lease_seconds,
            info,
        }
    }
}

/// Of a grant whose answer was lost, and which has ended since.
fn granted_meanwhile(error: EngineError) -> EngineError {
    match error {
        EngineError::Store(error) if error.is_constraint(KEYS) => {
            store::Error::Moved("the run was granted this before").into()
        }
        error => error,
    }
}

/// Nothing is proven of what a client works out for itself.
fn no_contract() -> ScopeContract {
    ScopeContract {
        fetch_addresses: Vec::new(),
        write_addresses: Vec::new(),
        read_addresses: Vec::new(),
        config_required_nodes: Vec::new(),
        removed_config_nodes: Vec::new(),
        missing_from_state: Vec::new(),
        undeployed_candidates: Vec::new(),
        unknown_missing_from_state: Vec::new(),
        reservation_candidates: Vec::new(),
        write_targets: Vec::new(),
        outputs_inside: Vec::new(),
        outputs_written: Vec::new(),
        outputs_beyond: Vec::new(),
        dependents: Vec::new(),
        confidence: ScopeConfidence::Unsafe,
        notes: vec!["the client works out the scope itself".to_owned()],
        diagnostics: ScopeDiagnostics::default(),
    }
}
