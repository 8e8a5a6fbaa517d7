//! Data keys of workspaces, and packing of whole bodies with them.

use bytes::Bytes;
use moka::sync::Cache;
use protocol::WorkspaceId;
use store::{KeptResult, Reservation, SealedKind, SealedPlace, SealingKey, WorkspaceTx};
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
        if let Some(key) = self.data_keys.unwrapped.get(caller.workspace()) {
            return Ok(key);
        }
        let wrapped = store::wrapped_key(tx)
            .await?
            .ok_or(EngineError::NoDataKey)?;
        self.unwrap(caller, &wrapped)
    }

    /// Makes sure that the workspace has a data key, in a transaction of its own: whatever the caller's does later, the key
    /// that may already be in memory elsewhere must stay. Before the caller's own transaction, because a request that holds
    /// one connection and waits for a second stops a whole pool.
    pub(crate) async fn prepare_data_key(&self, caller: &Caller) -> Result<(), EngineError> {
        if self.data_keys.unwrapped.contains_key(caller.workspace()) {
            return Ok(());
        }
        let mut tx = self.begin(caller).await?;
        let wrapped = match store::wrapped_key(&mut tx).await? {
            Some(wrapped) => wrapped,
            None => {
                let new = self.data_keys.deployment.new_data_key(caller.workspace())?;
                store::adopt_wrapped_key(&mut tx, &new).await?
            }
        };
        tx.commit().await?;
        self.unwrap(caller, &wrapped).map(drop)
    }

    fn unwrap(&self, caller: &Caller, wrapped: &[u8]) -> Result<SealingKey, EngineError> {
        let key = self
            .data_keys
            .deployment
            .unwrap(caller.workspace(), wrapped)?;
        self.data_keys
            .unwrapped
            .insert(caller.workspace().clone(), key.clone());
        Ok(key)
    }

    /// Compresses and seals a document for its place.
    pub(crate) async fn pack_document(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        state: Uuid,
        seq: i64,
        body: &Bytes,
    ) -> Result<Vec<u8>, EngineError> {
        let key = self.data_key(tx, caller).await?;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state,
            seq,
            kind: SealedKind::Document,
        };
        Ok(tokio::task::block_in_place(|| key.pack(&place, body))?)
    }

    /// Keeps the body of a write that came too late.
    pub(crate) async fn keep_result(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        late: &Reservation,
        body: &Bytes,
        sha256: &[u8; 32],
    ) -> Result<(), EngineError> {
        let key = self.data_key(tx, caller).await?;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state: late.state_id,
            seq: late.base_seq,
            kind: SealedKind::KeptResult,
        };
        let packed = tokio::task::block_in_place(|| key.pack(&place, body))?;
        store::keep_result(
            tx,
            &KeptResult {
                state_id: late.state_id,
                reservation_id: late.id,
                base_seq: late.base_seq,
                digest: sha256,
                packed: &packed,
                byte_size: body.len() as i64,
                kept_by: caller.display(),
            },
        )
        .await?;
        Ok(())
    }
}
