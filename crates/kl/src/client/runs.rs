//! The routes of runs: begin, renew, finish, abort, reopen, and looking at them.
//!
//! Begin, reopen and finish carry a key or an end state, so that sending them twice is the same as
//! sending them once.

use std::time::Duration;

use protocol::RunId;
use protocol::runs::{
    AbortRun, BeginRun, FinishRun, RenewRun, Renewed, ReopenRun, Run, RunPage, Waiting,
};
use reqwest::{Method, Url};

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;

impl Client {
    /// Begins a run, or finds the one that was begun with the same key.
    pub(crate) async fn begin_run(&self, request: &BeginRun) -> Result<Run, ApiError> {
        let url = self.server.route(&["v1", "runs"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(request)?).await
    }

    /// Wakes the run of a saved plan.
    pub(crate) async fn reopen_run(&self, request: &ReopenRun) -> Result<Run, ApiError> {
        let url = self.server.route(&["v1", "runs", "reopen"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(request)?).await
    }

    pub(crate) async fn get_run(&self, run: &RunId) -> Result<Run, ApiError> {
        self.json(Call::get(self.run_route(run, &[]))).await
    }

    /// One page of a state's runs, newest first.
    pub(crate) async fn list_runs(
        &self,
        state: &StateAddress,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<RunPage, ApiError> {
        let url = super::states::paged(state.route(&["runs"]), Some(limit), cursor);
        self.json(Call::get(url)).await
    }

    /// Renews a lease. `patience` bounds the whole exchange: the next renewal is due soon.
    pub(crate) async fn renew_run(
        &self,
        run: &RunId,
        token: i64,
        patience: Duration,
    ) -> Result<Renewed, ApiError> {
        let url = self.run_route(run, &["renew"]);
        let call = Call::new(Method::POST, url, Repeat::Freely).timeout(patience);
        self.json(call.json(&RenewRun { token })?).await
    }

    pub(crate) async fn finish_run(&self, run: &RunId, end: &FinishRun) -> Result<Run, ApiError> {
        let url = self.run_route(run, &["finish"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(end)?).await
    }

    pub(crate) async fn abort_run(&self, run: &RunId, reason: &str) -> Result<Run, ApiError> {
        let url = self.run_route(run, &["abort"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        let reason = reason.to_owned();
        self.json(call.json(&AbortRun { reason })?).await
    }

    fn run_route(&self, run: &RunId, rest: &[&str]) -> Url {
        let run = run.to_string();
        let mut segments = vec!["v1", "runs", &run];
        segments.extend(rest);
        self.server.route(&segments)
    }
}

impl ApiError {
    /// Who stands in the way, where a scope is busy.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let Self::Refused { problem, .. } = self else {
            return None;
        };
        if problem.code != protocol::Code::ReservationConflict {
            return None;
        }
        let extra = serde_json::Value::Object(problem.extra.clone());
        Some(serde_json::from_value(extra).unwrap_or_default())
    }
}
