//! The routes of uploads that were kept instead of committed.

use bytes::Bytes;
use protocol::runs::{AdoptKept, KeptComparison, Run};
use reqwest::{Method, Url};
use uuid::Uuid;

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;

impl Client {
    /// A kept upload beside the state, address by address.
    pub(crate) async fn compare_kept(
        &self,
        state: &StateAddress,
        kept: Uuid,
    ) -> Result<KeptComparison, ApiError> {
        let url = kept_route(state, kept, &["comparison"]);
        self.json(Call::get(url)).await
    }

    /// The bytes as they were uploaded.
    pub(crate) async fn get_kept_document(
        &self,
        state: &StateAddress,
        kept: Uuid,
    ) -> Result<Bytes, ApiError> {
        let response = self.send(Call::get(kept_route(state, kept, &[]))).await?;
        let bytes = response.bytes().await;
        bytes.map_err(|error| ApiError::unreachable(&self.server, &error))
    }

    /// Takes a kept upload over. The request carries a key, so that twice is the same as once.
    pub(crate) async fn adopt_kept(
        &self,
        state: &StateAddress,
        kept: Uuid,
        request: &AdoptKept,
    ) -> Result<Run, ApiError> {
        let url = kept_route(state, kept, &["adopt"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(call.json(request)?).await
    }

    /// Lets a kept upload go.
    pub(crate) async fn discard_kept(
        &self,
        state: &StateAddress,
        kept: Uuid,
    ) -> Result<(), ApiError> {
        let url = kept_route(state, kept, &["discard"]);
        self.done(Call::new(Method::POST, url, Repeat::Freely))
            .await
    }
}

fn kept_route(state: &StateAddress, kept: Uuid, rest: &[&str]) -> Url {
    let kept = kept.to_string();
    let mut segments = vec!["kept", &kept];
    segments.extend(rest);
    state.route(&segments)
}
