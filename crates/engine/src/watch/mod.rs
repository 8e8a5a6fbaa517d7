//! Watching a state: who holds it, who waits, its new versions, and what becomes of its runs.
//!
//! However many watch a state, each process looks at it once: when it is told that there is something to see, and every few
//! seconds in any case, because a message may be lost and Redis may be away. What a watcher has not been sent yet it finds by
//! comparing with what was seen last, so a slow one misses moments and no outcome. Versions go by their numbers: whoever
//! comes back with the last one it was sent gets those after it.
//!
//! Not for: deciding who may watch. That is asked again and again while somebody does, by whoever sends.

mod look;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coordination::StateKey;
use protocol::events::{Missed, RunEvent};
use protocol::runs::RunStatus;
use protocol::states::WaitingClient;
use protocol::{RunId, StateName, WorkspaceId};
use store::Version;
use tokio::sync::watch;

use self::look::Sight;
use crate::lock::same_spelling;
use crate::runs::{run_of, shown};
use crate::{Caller, Engine, EngineError, Holder};

/// How many may watch the states of a workspace by one replica. Each costs a connection and a few kilobytes.
const WATCHERS: usize = 500;

/// Who holds a state and who waits.
#[derive(Debug, Clone)]
pub struct Standing {
    pub holders: Vec<Holder>,
    pub waiting: Vec<WaitingClient>,
    pub unsettled: usize,
}

/// Something to be sent to a watcher.
#[derive(Debug, Clone)]
pub enum Seen {
    Version(Arc<Version>),
    Missed(Missed),
    Standing {
        head_seq: i64,
        standing: Arc<Standing>,
    },
    Run(Arc<RunEvent>),
}

type Sights = watch::Sender<Option<Arc<Sight>>>;

/// What is watched in this process, and by how many.
#[derive(Default)]
pub(crate) struct Watches {
    states: Mutex<HashMap<StateKey, Arc<Sights>>>,
    counts: Arc<Mutex<HashMap<WorkspaceId, usize>>>,
}

/// Somebody who watches.
pub struct Watcher {
    sights: watch::Receiver<Option<Arc<Sight>>>,
    /// The number of the newest version that was sent or that the client has; `None` before the first sight.
    seq: Option<i64>,
    standing: Option<Arc<Standing>>,
    /// The number of the last change of a run that was sent.
    run_change: Option<u64>,
    /// Sends nothing but this run.
    only: Option<RunId>,
    ready: VecDeque<Seen>,
    _counted: Counted,
}

/// One of those counted in a workspace, until it is dropped.
struct Counted {
    counts: Arc<Mutex<HashMap<WorkspaceId, usize>>>,
    workspace: WorkspaceId,
}

impl Engine {
    /// Watches a state. `after` is the number of the last version that the client was sent before.
    ///
    /// # Errors
    ///
    /// [`EngineError::TooManyWatchers`], or that there is no such state.
    pub async fn watch_state(
        &self,
        caller: &Caller,
        name: &StateName,
        after: Option<i64>,
    ) -> Result<Watcher, EngineError> {
        let counted = self.watches.count(caller.workspace())?;
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name).await?;
        tx.commit().await?;
        let state = state.ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let mut watcher = self.watcher(caller, state.id, counted);
        watcher.seq = after;
        Ok(watcher)
    }

    /// Watches the run that the request is on; answers what it is now.
    ///
    /// # Errors
    ///
    /// As [`Self::watch_state`].
    pub async fn watch_run(&self, caller: &Caller) -> Result<(RunEvent, Watcher), EngineError> {
        let counted = self.watches.count(caller.workspace())?;
        let id = run_of(caller)?;
        let mut tx = self.begin_read(caller).await?;
        let found = store::find_run_standing(&mut tx, id).await?;
        tx.commit().await?;
        let state = found.ok_or(EngineError::NoRun)?.state_id;
        let mut watcher = self.watcher(caller, state, counted);
        watcher.only = Some(RunId::from_uuid(id));
        watcher.first_sight().await;
        // Looked at again now that nothing is missed any more.
        let mut tx = self.begin_read(caller).await?;
        let found = store::find_run_standing(&mut tx, id).await?;
        tx.commit().await?;
        let standing = found.ok_or(EngineError::NoRun)?;
        Ok((shown(&standing), watcher))
    }

    fn watcher(&self, caller: &Caller, state: uuid::Uuid, counted: Counted) -> Watcher {
        let key = StateKey {
            workspace: caller.workspace().as_str().to_owned(),
            state,
        };
        Watcher {
            sights: self.look_out(key, caller.workspace()),
            seq: None,
            standing: None,
            run_change: None,
            only: None,
            ready: VecDeque::new(),
            _counted: counted,
        }
    }

    /// What is seen of a state by all who watch it here.
    fn look_out(
        &self,
        key: StateKey,
        workspace: &WorkspaceId,
    ) -> watch::Receiver<Option<Arc<Sight>>> {
        let mut states = lock(&self.watches.states);
        if let Some(sights) = states.get(&key) {
            let mut receiver = sights.subscribe();
            // What was seen last is to be seen by this one, too.
            receiver.mark_changed();
            return receiver;
        }
        let (sights, receiver) = watch::channel(None);
        let sights = Arc::new(sights);
        states.insert(key.clone(), Arc::clone(&sights));
        let (engine, workspace) = (self.clone(), workspace.clone());
        tokio::spawn(async move { engine.keep_looking(&key, &workspace, &sights).await });
        receiver
    }
}

impl Watches {
    fn count(&self, workspace: &WorkspaceId) -> Result<Counted, EngineError> {
        let mut counts = lock(&self.counts);
        let count = counts.entry(workspace.clone()).or_default();
        if *count >= WATCHERS {
            return Err(EngineError::TooManyWatchers);
        }
        *count += 1;
        telemetry::watcher_came();
        Ok(Counted {
            counts: Arc::clone(&self.counts),
            workspace: workspace.clone(),
        })
    }

    /// Forgets a state that nobody watches any more; false if somebody does.
    fn forget(&self, key: &StateKey, sights: &Sights) -> bool {
        let mut states = lock(&self.states);
        let is_idle = sights.receiver_count() == 0;
        if is_idle {
            states.remove(key);
        }
        is_idle
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.workspace) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.workspace);
            }
        }
        telemetry::watcher_left();
    }
}

impl Watcher {
    /// The next thing to be sent. May be given up at any moment without anything being lost. `None`: nobody looks any more.
    pub async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Some(seen);
            }
            self.sights.changed().await.ok()?;
            let sight = self.sights.borrow_and_update().clone();
            if let Some(sight) = sight {
                self.compare(&sight);
            }
        }
    }

    /// Waits until the state was looked at.
    async fn first_sight(&mut self) {
        // What is seen then is no news.
        if let Ok(sight) = self.sights.wait_for(Option::is_some).await {
            self.run_change = sight.as_ref().map(|sight| sight.run_change);
        }
    }

    /// Finds what is new in a sight.
    fn compare(&mut self, sight: &Sight) {
        let before = self.run_change.replace(sight.run_change);
        if let Some(before) = before {
            let runs = sight.runs.iter().filter(|(number, _)| *number > before);
            let meant = runs.filter(|(_, run)| self.only.is_none_or(|only| only == run.id));
            self.ready
                .extend(meant.map(|(_, run)| Seen::Run(Arc::clone(run))));
        }
        if self.only.is_some() {
            return;
        }
        // A number that no version has yet is none that we gave: from a database that was restored, perhaps.
        let known = self
            .seq
            .map_or(sight.head_seq, |seq| seq.min(sight.head_seq));
        self.seq = Some(sight.head_seq);
        let oldest = sight.versions.front().map_or(0, |version| version.seq);
        if known < sight.head_seq && known + 1 < oldest && sight.is_cut {
            self.ready.push_back(Seen::Missed(Missed {
                from_seq: known + 1,
                to_seq: oldest - 1,
            }));
        }
        let new = sight.versions.iter().filter(|version| version.seq > known);
        self.ready
            .extend(new.map(|version| Seen::Version(Arc::clone(version))));
        let is_same = |known: &Arc<Standing>| Arc::ptr_eq(known, &sight.standing);
        if !self.standing.as_ref().is_some_and(is_same) {
            self.standing = Some(Arc::clone(&sight.standing));
            self.ready.push_back(Seen::Standing {
                head_seq: sight.head_seq,
                standing: Arc::clone(&sight.standing),
            });
        }
    }
}

/// Whether nothing more is to be expected of a run.
#[must_use]
pub fn is_over(status: RunStatus) -> bool {
    !matches!(status, RunStatus::Running | RunStatus::Planned)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
