//! Granting claims: all of them or none.

use graph::claims::{Access, ClaimSet, Path};
use locking::{Rule, holds, times};
use protocol::LockInfo;
use store::{Db, Lane, Lifecycle, NewReservation, Reservation, State, UnsettledMark, WorkspaceTx};
use uuid::Uuid;

use crate::error::Conflict;
use crate::lock::{end_those_due, holder};
use crate::{Caller, EngineError, audit};

/// What a run asks for.
pub(crate) struct Ask<'a> {
    pub(crate) run: Uuid,
    /// The same key is the same grant.
    pub(crate) key: &'a str,
    pub(crate) claims: &'a ClaimSet,
    pub(crate) lease_seconds: i64,
    /// What plain Terraform is shown of it.
    pub(crate) info: &'a LockInfo,
}

/// Locks the ledger and grants the claims if nobody is in the way, not even one who is due, and the state is at version `head`
/// where that is given; with it the run, if it is recorded, has them. `None`: the long way is to be gone, and the caller
/// holds the ledger.
pub(crate) async fn grant_at_once(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    ask: &Ask<'_>,
    head: Option<i64>,
) -> Result<Option<Reservation>, EngineError> {
    if !is_plain() {
        store::lock_ledger(tx, state.id).await?;
        return Ok(None);
    }
    let info = serde_json::to_string(ask.info).unwrap_or_default();
    let new = ask.reservation(caller, state, &info);
    let entry = audit::entry(caller, state.id, &state.name, &ask.what());
    let granted = store::grant_if_free(tx, &new, ask.claims, head, entry).await?;
    if granted.is_some() {
        locking::point!(ReserveAfterHeadLock);
        locking::point!(ReserveAfterExpiry);
        locking::point!(ReserveAfterCheck);
        locking::point!(ReserveAfterInsert);
    }
    Ok(granted)
}

/// The same as a transaction of its own, in one round trip, for a run that is recorded and holds nothing. `None`: nothing was
/// done as far as is known, and the long way is to be gone, on which whatever was done after all is found.
pub(crate) async fn reserve_at_once(
    db: &Db,
    caller: &Caller,
    state: &State,
    ask: &Ask<'_>,
) -> Result<Option<Reservation>, EngineError> {
    if !is_plain() || locking::is_any_armed() {
        return Ok(None);
    }
    let info = serde_json::to_string(ask.info).unwrap_or_default();
    let new = ask.reservation(caller, state, &info);
    let entry = audit::entry(caller, state.id, &state.name, &ask.what());
    match store::reserve_at_once(db, caller.workspace(), &new, ask.claims, entry).await {
        Err(store::Error::Disconnected(_)) => Ok(None),
        outcome => Ok(outcome?),
    }
}

/// Whether no rule is taken away of those that only the long way can do without.
fn is_plain() -> bool {
    let rules = [Rule::LedgerCheck, Rule::MixedLanes, Rule::TokenRise];
    rules.into_iter().all(holds)
}

impl Ask<'_> {
    fn what(&self) -> audit::What<'_> {
        audit::What::Reserved {
            lock: self.info,
            claims: self.claims,
        }
    }

    fn reservation<'r>(
        &'r self,
        caller: &'r Caller,
        state: &State,
        info: &'r str,
    ) -> NewReservation<'r> {
        NewReservation {
            id: Uuid::now_v7(),
            state_id: state.id,
            run_id: Some(self.run),
            lane: Lane::Native,
            idem_key: self.key,
            lease_seconds: Some(times::lease(self.lease_seconds)),
            base_seq: state.head_seq,
            info,
            principal_id: caller.principal().as_str(),
        }
    }
}

/// Room for claims, as long as the caller holds the ledger.
pub(crate) struct Room(ClaimSet);

/// Makes room; fails while somebody is in the way who is not due. The caller holds the ledger.
pub(crate) async fn make_room(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    claims: &ClaimSet,
) -> Result<Room, EngineError> {
    locking::point!(ReserveAfterHeadLock);
    let conflicts = clear_way(tx, caller, state, claims, None).await?;
    locking::point!(ReserveAfterExpiry);
    if conflicts.is_empty() || !holds(Rule::LedgerCheck) {
        Ok(Room(claims.clone()))
    } else {
        Err(EngineError::ScopeBusy(conflicts.into()))
    }
}

/// Grants the claims, or says who stands in the way. The caller holds the ledger, has made room, and holds the state: its
/// head is the base of every claim, and cannot change beneath the claims before the reservation ends.
pub(crate) async fn insert(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    locked: &State,
    room: &Room,
    ask: &Ask<'_>,
) -> Result<Reservation, EngineError> {
    match locked.lifecycle {
        Lifecycle::Active => {}
        Lifecycle::Deleted => {
            return Err(store::Error::Moved("the state was deleted meanwhile").into());
        }
        Lifecycle::Archived => return Err(EngineError::NotWritable("archived")),
        Lifecycle::Importing => return Err(EngineError::NotWritable("being imported")),
    }
    // The state may have moved since, and the claims with it.
    if room.0 != *ask.claims {
        let held = conflicting(tx, locked, &ask.claims.nodes(), None).await?;
        if !held.is_empty() && holds(Rule::LedgerCheck) {
            let conflicts = describe(tx, held, ask.claims).await?;
            return Err(EngineError::ScopeBusy(conflicts.into()));
        }
    }
    locking::point!(ReserveAfterCheck);
    let info = serde_json::to_string(ask.info).unwrap_or_default();
    let new = ask.reservation(caller, locked, &info);
    let reservation = store::insert_native(tx, &new, ask.claims).await?;
    audit::record(tx, caller, locked.id, &locked.name, ask.what()).await?;
    locking::point!(ReserveAfterInsert);
    Ok(reservation)
}

/// Ends what stands in the way and is due; answers what still does. The caller holds the ledger.
pub(crate) async fn clear_way(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    claims: &ClaimSet,
    own: Option<Uuid>,
) -> Result<Vec<Conflict>, EngineError> {
    let nodes = claims.nodes();
    let mut held = conflicting(tx, state, &nodes, own).await?;
    if held.iter().any(|held| held.due) {
        end_those_due(tx, caller, state, held).await?;
        held = conflicting(tx, state, &nodes, own).await?;
    }
    describe(tx, held, claims).await
}

/// Who stands in the way of these claims by now, and whether one of them is overdue. Locks nothing.
pub(crate) async fn in_the_way(
    tx: &mut WorkspaceTx,
    state: &State,
    claims: &ClaimSet,
) -> Result<(Vec<Conflict>, bool), EngineError> {
    let held = conflicting(tx, state, &claims.nodes(), None).await?;
    let any_due = held.iter().any(|held| held.due);
    Ok((describe(tx, held, claims).await?, any_due))
}

async fn conflicting(
    tx: &mut WorkspaceTx,
    state: &State,
    nodes: &graph::claims::Nodes,
    own: Option<Uuid>,
) -> Result<Vec<Reservation>, EngineError> {
    let ids = store::list_conflicting(tx, state.id, nodes, own).await?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut held = store::list_active(tx, state.id).await?;
    held.retain(|held| ids.contains(&held.id));
    if !holds(Rule::MixedLanes) {
        held.retain(Reservation::is_native);
    }
    Ok(held)
}

/// Says of each holder which of the claims it excludes.
async fn describe(
    tx: &mut WorkspaceTx,
    held: Vec<Reservation>,
    asked: &ClaimSet,
) -> Result<Vec<Conflict>, EngineError> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = held.iter().map(|held| held.id).collect();
    let claims = store::find_claims(tx, &ids).await?;
    let whole = ClaimSet::whole_state();
    let conflict = |held: &Reservation| {
        let theirs = claims.get(&held.id).unwrap_or(&whole);
        let (path, access) = match theirs.first_overlap(asked) {
            Some(overlap) => (overlap.asked.0.clone(), overlap.held.1),
            // A lock of the whole state excludes also those who ask for nothing.
            None => (Path::root(), Access::Write),
        };
        Conflict {
            holder: holder(held),
            path,
            access,
        }
    };
    Ok(held.iter().map(conflict).collect())
}

/// The marks of a state that have to do with these claims.
pub(crate) async fn overlapping(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    claims: &ClaimSet,
) -> Result<Vec<UnsettledMark>, EngineError> {
    let mut marks = store::list_unsettled(tx, state_id).await?;
    marks.retain(|mark| claims.iter().any(|(path, _)| path.overlaps(&mark.path)));
    Ok(marks)
}
