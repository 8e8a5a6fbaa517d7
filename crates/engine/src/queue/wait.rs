//! Waiting in one request until a scope is free, or until the request may wait no longer.

use coordination::{Contention, Place, Queueing, StateKey, Ticket};
use graph::claims::ClaimSet;
use locking::times::{DOUBT, FIRST_LOOK, LOOK, PENDING, SAFETY_NET, SETTLING_LOOK};
use locking::{Rule, holds};
use protocol::states::WaitingClient;
use store::{Lane, State};
use tokio::time::Instant;

use super::admission::about;
use super::{Entry, Pass, Request, Settling, state_key};
use crate::error::Busy;
use crate::reservations::{clear_way, in_the_way};
use crate::{Caller, Engine, EngineError};

/// A native request that waits.
pub(crate) struct Waiting<'a> {
    pub(crate) state: &'a State,
    pub(crate) claims: &'a ClaimSet,
    pub(crate) key: &'a str,
    pub(crate) who: &'a str,
    pub(crate) command: &'a str,
    pub(crate) ticket: Option<&'a str>,
    pub(crate) until: Instant,
}

/// What a waiter finds in the ledger.
struct Seen {
    conflicts: Vec<crate::Conflict>,
    /// Whether one of them is overdue.
    any_due: bool,
    ledger_gen: i64,
    /// For how long runs of the state usually hold their scope.
    usual_seconds: Option<f64>,
}

impl Seen {
    /// About how long it takes until those are done who hold something, and those who wait in front, one after the other.
    fn expected_seconds(&self, ahead: u32) -> Option<u32> {
        let usual = self.usual_seconds?;
        let now = chrono::Utc::now();
        let left = |conflict: &crate::Conflict| {
            let gone = (now - conflict.holder.since).as_seconds_f64();
            (usual - gone).max(0.0)
        };
        let held = self.conflicts.iter().map(left).fold(0.0, f64::max);
        // Saturates, and is for people alone.
        Some((held + usual * f64::from(ahead)).ceil() as u32)
    }
}

impl Engine {
    /// Waits until the index lets the request through.
    ///
    /// # Errors
    ///
    /// [`EngineError::ScopeBusy`] with a ticket when the time is up.
    pub(crate) async fn wait_in_queue<'a>(
        &self,
        caller: &Caller,
        waiting: &Waiting<'a>,
    ) -> Result<(Pass<'_>, Request<'a>), EngineError> {
        let key = state_key(caller, waiting.state);
        let own_key = format!("{}/{}", caller.principal(), waiting.key);
        let ticket = waiting
            .ticket
            .and_then(|ticket| self.queue.tickets.verify(&key, &own_key, ticket));
        let mut request = Request {
            state: waiting.state,
            key: own_key,
            nodes: waiting.claims.nodes(),
            queueing: match ticket {
                None if waiting.until <= Instant::now() => Queueing::Once,
                ticket => Queueing::Native(ticket),
            },
            about: about(waiting.who, waiting.command, Lane::Native),
        };
        let mut place_kept = GivesUp::new(self, caller, &request);
        // Before the first look, so that no end falls between the look and the wait.
        let mut wake = self.queue.wakes.listen(&key);
        let began = Instant::now();
        let (mut looked, mut doubted, mut told) = (None, false, false);
        let mut settling = Settling::default();
        loop {
            let place = match self.enter(caller, &request).await? {
                Entry::Open(pass) => {
                    place_kept.disarm();
                    return Ok((pass, request));
                }
                Entry::Wait(place) => place,
            };
            wake.take_place();
            if !std::mem::replace(&mut told, true) {
                self.tell_watchers(&key);
            }
            if let Queueing::Native(_) = request.queueing {
                // The index may be lost while this request waits, and its place is to be the same then.
                request.queueing = Queueing::Native(Some(Ticket {
                    first_seen_ms: place.first_seen_ms,
                }));
            }
            if settling.goes_on(&place) {
                // That passes by itself, so also one that does not wait, waits.
                wake.wait(SETTLING_LOOK.duration()).await;
                continue;
            }
            let now = Instant::now();
            if !doubted && now - began >= DOUBT.duration() && holds(Rule::EndIndex) {
                doubted = true;
                let _ = self.load_index(&key, Contention::Seen).await?;
                continue;
            }
            let next_look = looked.map_or(began + FIRST_LOOK.duration(), |looked| {
                looked + LOOK.duration()
            });
            if now >= waiting.until || now >= next_look {
                looked = Some(now);
                let seen = self.look(caller, waiting).await?;
                // What is overdue only the ledger can end. Whose turn it is then, the index says: who goes around it because
                // of that would overtake those in front, and lose its own place where others are still in the way.
                let has_ended = seen.any_due && self.end_overdue(caller, waiting).await?;
                let state = waiting.state;
                let has_caught_up = self.catch_up(caller, state, &place, seen.ledger_gen).await;
                // An index that says nonsense may do so for ever.
                if has_ended || (has_caught_up && now < waiting.until) {
                    continue;
                }
                // What the index has not heard of yet is free. Whom it let through just now, and knows all else, the ledger has
                // not heard of.
                let knows_more =
                    place.is_behind_an_admission() && place.known_gen >= seen.ledger_gen;
                let nobody_holds = seen.conflicts.is_empty() && place.ahead == 0;
                if nobody_holds && !knows_more && holds(Rule::EndIndex) {
                    place_kept.disarm();
                    return Ok((Pass::open(), request));
                }
                let may_pass = nobody_holds && matches!(request.queueing, Queueing::Once);
                if may_pass && now < waiting.until + PENDING.duration() {
                    // Who was let through is granted or forgotten soon. Nobody is turned away for it who does not come back.
                    wake.wait(SETTLING_LOOK.duration()).await;
                    continue;
                }
                if now >= waiting.until {
                    place_kept.disarm();
                    return Err(self.busy(&key, &request.key, seen, &place));
                }
            }
            let left = waiting.until - now;
            if holds(Rule::Wake) {
                wake.wait(left.min(SAFETY_NET.duration())).await;
            } else {
                tokio::time::sleep(left).await;
            }
        }
    }

    async fn look(&self, caller: &Caller, waiting: &Waiting<'_>) -> Result<Seen, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let ledger_gen = store::ledger_gen(&mut tx, waiting.state.id).await?;
        let (conflicts, any_due) = in_the_way(&mut tx, waiting.state, waiting.claims).await?;
        let usual_seconds = store::usual_hold_seconds(&mut tx, waiting.state.id).await?;
        tx.commit().await?;
        Ok(Seen {
            conflicts,
            any_due,
            ledger_gen,
            usual_seconds,
        })
    }

    /// Ends what is overdue in the way of a waiter; whether there was anything that may end now.
    async fn end_overdue(
        &self,
        caller: &Caller,
        waiting: &Waiting<'_>,
    ) -> Result<bool, EngineError> {
        let mut tx = self.begin(caller).await?;
        store::lock_ledger(&mut tx, waiting.state.id).await?;
        let before = store::ledger_gen(&mut tx, waiting.state.id).await?;
        clear_way(&mut tx, caller, waiting.state, waiting.claims, None).await?;
        let after = store::ledger_gen(&mut tx, waiting.state.id).await?;
        tx.commit().await?;
        Ok(after > before)
    }

    fn busy(
        &self,
        key: &coordination::StateKey,
        own_key: &str,
        seen: Seen,
        place: &Place,
    ) -> EngineError {
        let ticket = Ticket {
            first_seen_ms: place.first_seen_ms,
        };
        EngineError::ScopeBusy(Busy {
            expected_seconds: seen.expected_seconds(place.ahead),
            conflicts: seen.conflicts,
            ticket: Some(self.queue.tickets.sign(key, own_key, ticket)),
            ahead: Some(place.ahead),
        })
    }

    /// Those who wait for a part of a state, in their order. Empty where the index is away: they go on waiting, unseen.
    pub(crate) async fn waiting_clients(
        &self,
        caller: &Caller,
        state: &State,
    ) -> Vec<WaitingClient> {
        let waiting = self.waiting_for(&state_key(caller, state)).await;
        waiting.unwrap_or_default()
    }

    /// The same by the state's name in the index; `None` where the index is away.
    pub(crate) async fn waiting_for(&self, key: &StateKey) -> Option<Vec<WaitingClient>> {
        let Some(index) = &self.queue.index else {
            return Some(Vec::new());
        };
        let waiters = index.waiting(key).await.ok()?;
        let shown = |waiter: coordination::Waiter| {
            let since = i64::try_from(waiter.first_seen_ms).ok()?;
            Some(WaitingClient {
                about: serde_json::from_str(&waiter.about).ok()?,
                since: chrono::DateTime::from_timestamp_millis(since)?,
            })
        };
        Some(waiters.into_iter().filter_map(shown).collect())
    }
}

/// Gives the place in the queue back when its request is dropped half-way: the client has hung up, and is not to hold up
/// those behind it.
struct GivesUp(Option<(Engine, coordination::StateKey, String)>);

impl GivesUp {
    fn new(engine: &Engine, caller: &Caller, request: &Request<'_>) -> Self {
        let key = state_key(caller, request.state);
        Self(Some((engine.clone(), key, request.key.clone())))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for GivesUp {
    fn drop(&mut self) {
        if let Some((engine, key, request)) = self.0.take() {
            engine.leave(key, request);
        }
    }
}
