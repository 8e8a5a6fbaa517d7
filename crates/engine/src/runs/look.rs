//! Looking at runs.

use protocol::StateName;
use protocol::runs::{Run, RunPage};
use uuid::Uuid;

use super::run_of;
use super::view::view;
use crate::lock::same_spelling;
use crate::{Caller, Engine, EngineError};

impl Engine {
    /// The run that the request is on.
    pub async fn run(&self, caller: &Caller) -> Result<Run, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = store::find_run(&mut tx, run_of(caller)?).await?;
        let run = view(&mut tx, &record.ok_or(EngineError::NoRun)?).await?;
        tx.commit().await?;
        Ok(run)
    }

    /// The runs of a state, newest first, after the run `before`.
    pub async fn list_runs(
        &self,
        caller: &Caller,
        name: &StateName,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<RunPage, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let records = store::list_runs(&mut tx, state.id, before, limit).await?;
        let mut runs = Vec::with_capacity(records.len());
        for record in &records {
            runs.push(view(&mut tx, record).await?);
        }
        tx.commit().await?;
        let full = runs.len() as i64 == limit;
        let next_cursor = runs.last().filter(|_| full).map(|last| last.id.to_string());
        Ok(RunPage { runs, next_cursor })
    }
}
