//! Terraform's own lock, taken and given up the way Terraform does it.

use protocol::LockInfo;
use reqwest::Method;

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;

impl Client {
    /// Takes the lock of the whole state. Sending the same lock again is the same grant.
    pub(crate) async fn lock(&self, state: &StateAddress, lock: &LockInfo) -> Result<(), ApiError> {
        self.lock_call("LOCK", state, lock).await
    }

    /// Gives the lock up. Giving up one that is gone already is no error.
    pub(crate) async fn unlock(
        &self,
        state: &StateAddress,
        lock: &LockInfo,
    ) -> Result<(), ApiError> {
        self.lock_call("UNLOCK", state, lock).await
    }

    async fn lock_call(
        &self,
        method: &'static str,
        state: &StateAddress,
        lock: &LockInfo,
    ) -> Result<(), ApiError> {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::POST);
        let call = Call::new(method, state.url(), Repeat::Freely);
        self.done(call.json(lock)?).await
    }
}
