//! The state engine routes: what a state is, and which blocks it has.

use protocol::state_engine::{Inventory, ResolveRequest, ResolveResponse};
use reqwest::Method;

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;

impl Client {
    /// What a state is, and what was last written from `files`.
    pub(crate) async fn resolve_state(
        &self,
        state: &StateAddress,
        files: Vec<String>,
    ) -> Result<ResolveResponse, ApiError> {
        let request = ResolveRequest {
            state: state.path(),
            files,
        };
        let url = self
            .server
            .route(&["v1", "state-engine", "state", "resolve"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(&request)?).await
    }

    /// Every managed block that the state has objects of.
    pub(crate) async fn get_inventory(&self, state: &StateAddress) -> Result<Inventory, ApiError> {
        let mut url = self
            .server
            .route(&["v1", "state-engine", "state", "inventory"]);
        url.query_pairs_mut().append_pair("state", &state.path());
        self.json(Call::get(url)).await
    }
}
