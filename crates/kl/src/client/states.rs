//! The routes of states: lists, status, versions, resources, rollback.

use protocol::states::{
    ForceUnlockAnswer, ForceUnlockRequest, ResourceDetail, ResourcePage, RollbackAnswer,
    RollbackRequest, StatePage, StateStatus, UndeleteAnswer, UndeleteRequest, Version, VersionPage,
};
use protocol::{EnvironmentId, StateId, WorkspaceId};
use reqwest::{Method, Url};

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;

impl Client {
    /// One page of the states of an environment.
    pub(crate) async fn list_states(
        &self,
        workspace: &WorkspaceId,
        environment: &EnvironmentId,
        cursor: Option<&str>,
    ) -> Result<StatePage, ApiError> {
        let url = self
            .server
            .route(&["v1", "states", workspace.as_str(), environment.as_str()]);
        self.json(Call::get(paged(url, None, cursor))).await
    }

    pub(crate) async fn get_state_status(
        &self,
        state: &StateAddress,
    ) -> Result<StateStatus, ApiError> {
        self.json(Call::get(state.route(&["status"]))).await
    }

    /// One page of versions, newest first.
    pub(crate) async fn list_versions(
        &self,
        state: &StateAddress,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<VersionPage, ApiError> {
        self.json(Call::get(paged(state.route(&["versions"]), limit, cursor)))
            .await
    }

    /// One version, by its number, its id, `head`, or `@1` for the one before the head.
    pub(crate) async fn get_version(
        &self,
        state: &StateAddress,
        version: &str,
    ) -> Result<Version, ApiError> {
        self.json(Call::get(state.route(&["versions", version])))
            .await
    }

    /// One page of the instances of a version.
    pub(crate) async fn list_resources(
        &self,
        state: &StateAddress,
        version: &str,
        cursor: Option<&str>,
    ) -> Result<ResourcePage, ApiError> {
        let mut url = paged(state.route(&["resources"]), Some(MOST_RESOURCES), cursor);
        url.query_pairs_mut().append_pair("version", version);
        self.json(Call::get(url)).await
    }

    /// One instance, with what the caller may see of its values.
    pub(crate) async fn get_resource(
        &self,
        state: &StateAddress,
        address: &str,
        version: &str,
        sensitive: bool,
    ) -> Result<ResourceDetail, ApiError> {
        let mut url = state.route(&["resource"]);
        url.query_pairs_mut()
            .append_pair("address", address)
            .append_pair("version", version);
        if sensitive {
            url.query_pairs_mut().append_pair("sensitive", "true");
        }
        self.json(Call::get(url)).await
    }

    /// Makes an old version current again, as a new one on top.
    pub(crate) async fn roll_back(
        &self,
        state: &StateAddress,
        to: &str,
    ) -> Result<RollbackAnswer, ApiError> {
        let request = RollbackRequest { to: to.to_owned() };
        let call = Call::new(
            Method::POST,
            state.route(&["rollback"]),
            Repeat::BeforeArrival,
        );
        self.json(call.json(&request)?).await
    }

    /// Gives a deleted state its name back: the last of that name, or the one of this id.
    pub(crate) async fn undelete_state(
        &self,
        state: &StateAddress,
        state_id: Option<StateId>,
    ) -> Result<UndeleteAnswer, ApiError> {
        let call = Call::new(
            Method::POST,
            state.route(&["undelete"]),
            Repeat::BeforeArrival,
        );
        self.json(call.json(&UndeleteRequest { state_id })?).await
    }

    /// Breaks the lock of this id, or whichever there is.
    pub(crate) async fn force_unlock(
        &self,
        state: &StateAddress,
        lock_id: Option<&str>,
    ) -> Result<ForceUnlockAnswer, ApiError> {
        let request = ForceUnlockRequest {
            lock_id: lock_id.map(str::to_owned),
        };
        let call = Call::new(
            Method::POST,
            state.route(&["force-unlock"]),
            Repeat::BeforeArrival,
        );
        self.json(call.json(&request)?).await
    }
}

/// The largest page the server gives: listing a large state is bound by round trips.
const MOST_RESOURCES: usize = 1_000;

pub(super) fn paged(mut url: Url, limit: Option<usize>, cursor: Option<&str>) -> Url {
    if let Some(limit) = limit {
        url.query_pairs_mut()
            .append_pair("limit", &limit.to_string());
    }
    if let Some(cursor) = cursor {
        url.query_pairs_mut().append_pair("cursor", cursor);
    }
    url
}
