//! Asking the index whether a request may go to the ledger, and loading the index where it has to be.

use std::sync::atomic::Ordering;
use std::time::Instant;

use coordination::{
    Admission, Ask, Away, Contention, Held, Index, Loaded, Place, Queueing, StateKey,
};
use graph::claims::{ClaimSet, Nodes};
use locking::times::SETTLING_LOOK;
use locking::{Rule, holds};
use protocol::LockInfo;
use store::{Lane, LedgerChange, LedgerEvent, State};

use super::{Pass, Queue, Settling, state_key};
use crate::{Caller, Engine, EngineError};

/// How often a request asks the index before it goes without: it may have to be loaded first, and be lost again.
const ASKS: usize = 3;

/// A request for a reservation, as the queue knows it.
pub(crate) struct Request<'a> {
    pub(crate) state: &'a State,
    /// Stays the same when the request is repeated.
    pub(crate) key: String,
    pub(crate) nodes: Nodes,
    pub(crate) queueing: Queueing,
    /// What others are shown of it while it waits.
    pub(crate) about: String,
}

/// The index's answer.
pub(crate) enum Entry<'q> {
    Open(Pass<'q>),
    Wait(Place),
}

impl Engine {
    /// Asks the index. Where it is away or keeps being lost, the way is open, for a few at a time.
    pub(crate) async fn enter(
        &self,
        caller: &Caller,
        request: &Request<'_>,
    ) -> Result<Entry<'_>, EngineError> {
        let Some(index) = &self.queue.index else {
            return Ok(Entry::Open(Pass::open()));
        };
        let key = state_key(caller, request.state);
        self.queue.touched.insert(key.clone(), Instant::now());
        locking::point!(ReserveBeforeAdmit);
        for _ in 0..ASKS {
            let ask = Ask {
                key: &key,
                incarnation: self.queue.incarnation(),
                idem_key: &request.key,
                nodes: &request.nodes,
                queue: request.queueing,
                about: &request.about,
            };
            match index.admit(&ask).await {
                Ok(Admission::Admitted { .. }) => {
                    locking::point!(ReserveAfterAdmit);
                    return Ok(Entry::Open(Pass::open()));
                }
                Ok(Admission::Wait(place)) => return Ok(Entry::Wait(place)),
                Ok(Admission::Rebuild) => {
                    let contention = self.contention(&key, request.queueing);
                    if self.load_index(&key, contention).await?.is_err() {
                        break;
                    }
                }
                Err(Away) => break,
            }
        }
        Ok(Entry::Open(Pass {
            degraded: true,
            _place: self.queue.without_index.acquire().await.ok(),
        }))
    }

    /// Whether somebody is known to have waited before the index of a state was lost: by a ticket, or here. Many who ask at
    /// the same moment for a state that nobody has asked for in a while have not waited.
    fn contention(&self, key: &StateKey, queueing: Queueing) -> Contention {
        let has_ticket = matches!(queueing, Queueing::Native(Some(_)));
        if has_ticket || self.queue.wakes.count_places(key) > 0 {
            Contention::Seen
        } else {
            Contention::Unknown
        }
    }

    /// Brings the index of a state to what the ledger holds, if it knows less.
    pub(crate) async fn load_index(
        &self,
        key: &StateKey,
        contention: Contention,
    ) -> Result<Result<(), Away>, EngineError> {
        let (Some(index), Ok(workspace)) = (&self.queue.index, key.workspace.parse()) else {
            return Ok(Err(Away));
        };
        let mut tx = self.db.begin_read(&workspace).await?;
        let incarnation = store::incarnation(&mut tx).await?;
        let r#gen = store::ledger_gen(&mut tx, key.state).await?;
        let active = store::list_active(&mut tx, key.state).await?;
        let ids: Vec<_> = active.iter().map(|held| held.id).collect();
        let claims = store::find_claims(&mut tx, &ids).await?;
        tx.commit().await?;
        locking::point!(LoadAfterSnapshot);
        let whole = ClaimSet::whole_state();
        let held: Vec<Held> = active
            .into_iter()
            .map(|held| Held {
                id: held.id,
                granted_gen: held.granted_gen,
                nodes: claims.get(&held.id).unwrap_or(&whole).nodes(),
                info: held.info,
            })
            .collect();
        self.queue.incarnation.store(incarnation, Ordering::Relaxed);
        let loaded = index.load(key, incarnation, r#gen, &held, contention).await;
        locking::point!(LoadAfter);
        Ok(match loaded {
            Ok(Loaded::Yes | Loaded::Kept) => Ok(()),
            // Another replica has seen a restore that happened since.
            Ok(Loaded::Newer) | Err(Away) => Err(Away),
        })
    }

    /// Loads the index of a state whose ledger was further when the index was asked: it has missed something, and would turn
    /// away and order by what is no more. Best effort.
    pub(crate) async fn catch_up(
        &self,
        caller: &Caller,
        state: &State,
        place: &Place,
        ledger_gen: i64,
    ) -> bool {
        if place.known_gen >= ledger_gen || !holds(Rule::EndIndex) {
            return false;
        }
        match self.load_index_of(caller, state).await {
            Ok(loaded) => loaded.is_ok(),
            Err(error) => {
                tracing::debug!(%error, "the index was not loaded");
                false
            }
        }
    }

    /// The same of a state that the ledger has just said something else of than the index.
    pub(crate) async fn load_index_of(
        &self,
        caller: &Caller,
        state: &State,
    ) -> Result<Result<(), Away>, EngineError> {
        let key = state_key(caller, state);
        self.load_index(&key, Contention::Unknown).await
    }

    /// Asks the index for plain Terraform's lock. The ledger is asked in any case: it knows whether this is a repetition.
    pub(crate) async fn enter_with_lock<'a>(
        &self,
        caller: &Caller,
        state: &'a State,
        info: &LockInfo,
    ) -> Result<(Entry<'_>, Request<'a>), EngineError> {
        let request = Request {
            state,
            key: info.id.clone(),
            nodes: ClaimSet::whole_state().nodes(),
            queueing: Queueing::Terraform,
            about: about(&info.who, &info.operation, Lane::Terraform),
        };
        let mut settling = Settling::default();
        loop {
            match self.enter(caller, &request).await? {
                Entry::Wait(place) if settling.goes_on(&place) => {
                    tokio::time::sleep(SETTLING_LOOK.duration()).await;
                }
                entry => return Ok((entry, request)),
            }
        }
    }

    /// Gives a place in the queue, or an admission, back: the ledger has refused, or nobody waits any more.
    pub(crate) fn leave_queue(&self, caller: &Caller, request: &Request<'_>) {
        self.leave(state_key(caller, request.state), request.key.clone());
    }

    /// The same where the ledger has granted: once the index knows of the grant, and not before.
    pub(crate) fn served(&self, caller: &Caller, request: &Request<'_>) {
        self.db.tell_ledger(LedgerChange {
            workspace: caller.workspace().clone(),
            state_id: request.state.id,
            incarnation: self.queue.incarnation(),
            event: LedgerEvent::Served {
                key: request.key.clone(),
            },
        });
    }

    /// The same by name.
    pub(super) fn leave(&self, key: StateKey, request: String) {
        let Queue {
            index: Some(index), ..
        } = &self.queue
        else {
            return;
        };
        let index = Index::clone(index);
        // Best effort: it lapses by itself. A request does not wait for that.
        let wakes = self.queue.wakes.clone();
        tokio::spawn(async move {
            let _ = index.leave(&key, &request).await;
            wakes.wake_watching(&key);
            let _ = index.tell_watchers(&key).await;
        });
    }

    /// Has those who watch a state look at who waits.
    pub(super) fn tell_watchers(&self, key: &StateKey) {
        self.queue.wakes.wake_watching(key);
        if let Some(index) = self.queue.index.clone() {
            let key = key.clone();
            tokio::spawn(async move { index.tell_watchers(&key).await });
        }
    }
}

/// What others are shown of a request while it waits.
pub(crate) fn about(who: &str, command: &str, lane: Lane) -> String {
    let about = protocol::states::About {
        who: who.to_owned(),
        command: command.to_owned(),
        lane: lane.as_str().to_owned(),
    };
    serde_json::to_string(&about).unwrap_or_default()
}
