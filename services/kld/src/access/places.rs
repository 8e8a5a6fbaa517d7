//! Where the runs are that were asked about lately.

use moka::sync::Cache;
use protocol::{EnvironmentId, RunId, WorkspaceId};
use store::Db;

/// How many runs are remembered. More of them at once cost reads, nothing else.
const MAX_ENTRIES: u64 = 20_000;

/// The environments of runs. A run stays in the one it was begun in, so what was read once is true for ever; what a caller
/// may do there is asked each time.
#[derive(Clone)]
pub struct RunPlaces {
    db: Db,
    known: Cache<(WorkspaceId, RunId), EnvironmentId>,
}

impl RunPlaces {
    /// An empty memory.
    #[must_use]
    pub fn new(db: Db) -> Self {
        let known = Cache::new(MAX_ENTRIES);
        Self { db, known }
    }

    /// The environment of a run; `None` where the workspace has no such run.
    pub(super) async fn environment(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
    ) -> Result<Option<EnvironmentId>, store::Error> {
        let key = (workspace.clone(), run);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known));
        }
        let found = store::environment_of_run(&self.db, workspace, run.as_uuid()).await?;
        if let Some(environment) = &found {
            self.known.insert(key, environment.clone());
        }
        Ok(found)
    }
}
