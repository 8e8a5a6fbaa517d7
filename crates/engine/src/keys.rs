//! Data keys of workspaces, and packing of whole bodies with them.

use moka::sync::Cache;
use protocol::WorkspaceId;
use store::{Reservation, SealedKind, SealedPlace, SealingKey, WorkspaceTx};
use uuid::Uuid;

use crate::{Caller, Engine, EngineError};

/// Unwrapped data keys kept by one process.
const KEYS: u64 = 1_000;

pub(crate) struct DataKeys {
    deployment: SealingKey,
    unwrapped: Cache<WorkspaceId, SealingKey>,
}

impl DataKeys {
    pub(crate) fn new(deployment_key: &[u8; 32]) -> Self {
        Self {
            deployment: SealingKey::new(deployment_key),
            unwrapped: Cache::new(KEYS),
        }
    }
}

impl Engine {
    /// The data key of the caller's workspace, which has one: whatever is read with it was sealed with it, and who seals
    /// prepares it first.
    pub(crate) async fn data_key(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
    ) -> Result<SealingKey, EngineError> {
        self.data_key_of(tx, caller.workspace()).await
    }

    /// The same of any workspace, for work that no request asks for right now.
    pub(crate) async fn data_key_of(
        &self,
        tx: &mut WorkspaceTx,
        workspace: &WorkspaceId,
    ) -> Result<SealingKey, EngineError> {
        if let Some(key) = self.data_keys.unwrapped.get(workspace) {
            return Ok(key);
        }
        let wrapped = store::wrapped_key(tx)
            .await?
            .ok_or(EngineError::NoDataKey)?;
        self.unwrap(workspace, &wrapped)
    }

    /// The data key of the caller's workspace, made if need be, in a transaction of its own: whatever the caller's does
    /// later, the key that may already be in memory elsewhere must stay. To be called before the caller's own transaction,
    /// because a request that holds one connection and waits for a second stops a whole pool.
    pub(crate) async fn sealing_key(&self, caller: &Caller) -> Result<SealingKey, EngineError> {
        self.sealing_key_of(caller.workspace()).await
    }

    /// The same of any workspace.
    pub(crate) async fn sealing_key_of(
        &self,
        workspace: &WorkspaceId,
    ) -> Result<SealingKey, EngineError> {
        if let Some(key) = self.data_keys.unwrapped.get(workspace) {
            return Ok(key);
        }
        let mut tx = self.db.begin(workspace).await?;
        let wrapped = match store::wrapped_key(&mut tx).await? {
            Some(wrapped) => wrapped,
            None => {
                let new = self.data_keys.deployment.new_data_key(workspace)?;
                store::adopt_wrapped_key(&mut tx, &new).await?
            }
        };
        tx.commit().await?;
        self.unwrap(workspace, &wrapped)
    }

    fn unwrap(&self, workspace: &WorkspaceId, wrapped: &[u8]) -> Result<SealingKey, EngineError> {
        let key = self.data_keys.deployment.unwrap(workspace, wrapped)?;
        self.data_keys
            .unwrapped
            .insert(workspace.clone(), key.clone());
        Ok(key)
    }

    /// Compresses and seals a document for its place.
    pub(crate) fn pack_document(
        &self,
        key: &SealingKey,
        caller: &Caller,
        state: Uuid,
        seq: i64,
        body: &[u8],
    ) -> Result<Vec<u8>, EngineError> {
        let kind = SealedKind::Document;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state,
            seq,
            kind,
        };
        Ok(tokio::task::block_in_place(|| key.pack(&place, body))?)
    }

    /// Compresses and seals the body of a write that came too late.
    pub(crate) fn pack_late_body(
        &self,
        key: &SealingKey,
        caller: &Caller,
        late: &Reservation,
        body: &[u8],
    ) -> Result<Vec<u8>, EngineError> {
        let (state, seq, kind) = (late.state_id, late.base_seq, SealedKind::KeptResult);
        let place = SealedPlace {
            workspace: caller.workspace(),
            state,
            seq,
            kind,
        };
        Ok(tokio::task::block_in_place(|| key.pack(&place, body))?)
    }
}
