//! Looking at a state for all who watch it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use coordination::StateKey;
use locking::times::{WATCH, WATCH_APART};
use protocol::events::RunEvent;
use protocol::states::WaitingClient;
use protocol::{RunId, WorkspaceId};
use store::{Version, VersionRef};

use super::{Sights, Standing};
use crate::lock::holder;
use crate::runs::shown;
use crate::{Engine, EngineError, Holder};

/// How many versions are remembered for those who come back.
const VERSIONS: i64 = 50;
/// How many of a state's newest runs are looked at. One that is older is not told of.
const RUNS: i64 = 200;
/// How many changes of runs are remembered for those who are slow.
const RUN_CHANGES: usize = 200;

/// What was seen of a state.
pub(super) struct Sight {
    pub(super) head_seq: i64,
    /// The newest, oldest first.
    pub(super) versions: VecDeque<Arc<Version>>,
    /// Whether there may be versions before those.
    pub(super) is_cut: bool,
    /// The same value as before where nothing has changed.
    pub(super) standing: Arc<Standing>,
    /// Changes of runs, numbered.
    pub(super) runs: VecDeque<(u64, Arc<RunEvent>)>,
    /// The number of the last of them.
    pub(super) run_change: u64,
    /// What each of the newest runs was.
    known_runs: HashMap<RunId, Arc<RunEvent>>,
}

impl Engine {
    /// Looks at a state as long as somebody watches it: when told to, and from time to time in any case.
    pub(super) async fn keep_looking(
        &self,
        key: &StateKey,
        workspace: &WorkspaceId,
        sights: &Sights,
    ) {
        // Before the first look, so that no change falls between the look and the wait.
        let mut wake = self.queue.wakes.watch(key);
        loop {
            let before = sights.borrow().clone();
            match self.look_at(key, workspace, before.as_deref()).await {
                Ok(sight) if before.as_deref().is_none_or(|before| sight.is_news(before)) => {
                    sights.send_replace(Some(Arc::new(sight)));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = %telemetry::Chain(&error), "a watched state was not looked at");
                }
            }
            let pause = async {
                // Many changes at once are one look.
                tokio::time::sleep(WATCH_APART.duration()).await;
                wake.wait(WATCH.duration()).await;
            };
            tokio::select! {
                () = pause => {}
                () = sights.closed() => {
                    if self.watches.forget(key, sights) {
                        return;
                    }
                }
            }
        }
    }

    async fn look_at(
        &self,
        key: &StateKey,
        workspace: &WorkspaceId,
        before: Option<&Sight>,
    ) -> Result<Sight, EngineError> {
        telemetry::watched_state_looked_at();
        let mut tx = self.db.begin_read(workspace).await?;
        let head = store::find_version(&mut tx, key.state, VersionRef::Head).await?;
        let head_seq = head.map_or(0, |head| head.seq);
        let mut versions = before.map_or_else(VecDeque::new, |before| before.versions.clone());
        if before.is_none_or(|before| before.head_seq != head_seq) {
            let newest = store::list_versions(&mut tx, key.state, None, VERSIONS).await?;
            versions = newest.into_iter().rev().map(Arc::new).collect();
        }
        let held = store::list_active(&mut tx, key.state).await?;
        let unsettled = store::list_unsettled(&mut tx, key.state).await?.len();
        let runs = store::list_run_standings(&mut tx, key.state, RUNS).await?;
        tx.commit().await?;
        // Where Redis is away nobody is known to have left.
        let waiting = self.waiting_for(key).await;
        let waiting = waiting.unwrap_or_else(|| {
            before.map_or_else(Vec::new, |before| before.standing.waiting.clone())
        });
        let standing = Standing {
            holders: held.iter().map(holder).collect(),
            waiting,
            unsettled,
        };
        let standing = match before {
            Some(before) if is_same(&before.standing, &standing) => Arc::clone(&before.standing),
            _ => Arc::new(standing),
        };
        let mut sight = Sight {
            head_seq,
            is_cut: versions.len() as i64 == VERSIONS,
            versions,
            standing,
            runs: before.map_or_else(VecDeque::new, |before| before.runs.clone()),
            run_change: before.map_or(0, |before| before.run_change),
            known_runs: HashMap::new(),
        };
        // In the order in which they began.
        for run in runs.iter().rev() {
            sight.note_run(shown(run), before);
        }
        Ok(sight)
    }
}

impl Sight {
    fn note_run(&mut self, run: RunEvent, before: Option<&Self>) {
        let known = before.and_then(|before| before.known_runs.get(&run.id));
        if let Some(known) = known
            && **known == run
        {
            self.known_runs.insert(run.id, Arc::clone(known));
            return;
        }
        let run = Arc::new(run);
        self.known_runs.insert(run.id, Arc::clone(&run));
        // What was there at the first look is no news.
        if before.is_some() {
            self.run_change += 1;
            self.runs.push_back((self.run_change, run));
            if self.runs.len() > RUN_CHANGES {
                self.runs.pop_front();
            }
        }
    }

    fn is_news(&self, before: &Self) -> bool {
        self.head_seq != before.head_seq
            || self.run_change != before.run_change
            || !Arc::ptr_eq(&self.standing, &before.standing)
    }
}

/// Whether the same hold and wait. That a lease was renewed is no news.
fn is_same(before: &Standing, now: &Standing) -> bool {
    let held = |holder: &Holder| holder.reservation;
    let waits = |one: &WaitingClient| {
        let about = &one.about;
        (one.since, about.who.clone(), about.command.clone())
    };
    let (before_held, now_held) = (before.holders.iter(), now.holders.iter());
    let (before_waits, now_waits) = (before.waiting.iter(), now.waiting.iter());
    before_held.map(held).eq(now_held.map(held))
        && before_waits.map(waits).eq(now_waits.map(waits))
        && before.unsettled == now.unsettled
}
