//! The state engine routes: what a state is, and which blocks it has.

use protocol::operations::{MoveRequest, OperationAnswer, RemoveRequest};
use protocol::state_engine::{Inventory, ResolveRequest, ResolveResponse};
use reqwest::Method;
use serde::Serialize;

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

    /// Forgets what stands at some addresses, or shows what that would do.
    pub(crate) async fn remove_addresses(
        &self,
        request: &RemoveRequest,
        apply: bool,
    ) -> Result<OperationAnswer, ApiError> {
        self.operate("resource-remove", request, apply).await
    }

    /// Lets an object stand elsewhere, or shows what that would do.
    pub(crate) async fn move_address(
        &self,
        request: &MoveRequest,
        apply: bool,
    ) -> Result<OperationAnswer, ApiError> {
        self.operate("resource-move", request, apply).await
    }

    /// The key in the request makes a repetition harmless.
    async fn operate(
        &self,
        operation: &str,
        request: &impl Serialize,
        apply: bool,
    ) -> Result<OperationAnswer, ApiError> {
        let step = if apply { "apply" } else { "preview" };
        let url = self.server.route(&["v1", "state-engine", operation, step]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(request)?).await
    }

    /// Asks whether the server has the state engine at all. Anybody with a token may.
    pub(crate) async fn ask_capabilities(&self) -> Result<(), ApiError> {
        let url = self.server.route(&["v1", "state-engine", "capabilities"]);
        self.done(Call::get(url)).await
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
