//! What a state holds and how it came to: lists, single instances, outputs, the history.

use protocol::StateName;
use protocol::runs::Unsettled;
use protocol::states::WaitingClient;
use store::{
    Form, KeptRecord, OutputRow, ResourceRow, SealedKind, SealedPlace, StateRecord, Version,
    VersionRef, WorkspaceTx,
};
use uuid::Uuid;

use crate::lock::{holder, same_spelling};
use crate::{Caller, Engine, EngineError, Holder, audit, runs};

/// A state, its head, who holds it, and what is kept of late writes.
#[derive(Debug, Clone)]
pub struct Status {
    pub state: store::State,
    pub head: Option<Version>,
    pub version_count: i64,
    pub holders: Vec<Holder>,
    pub kept: Vec<KeptRecord>,
    pub unsettled: Vec<Unsettled>,
    /// Who waits for a part of it, in their order.
    pub waiting: Vec<WaitingClient>,
    /// For how long a run usually holds its scope.
    pub usual_hold_seconds: Option<f64>,
}

impl Engine {
    pub async fn list_states(
        &self,
        caller: &Caller,
        after: &str,
        limit: i64,
    ) -> Result<Vec<StateRecord>, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let states = store::list_states(&mut tx, caller.environment(), after, limit).await?;
        tx.commit().await?;
        Ok(states)
    }

    pub async fn list_deleted_states(
        &self,
        caller: &Caller,
        limit: i64,
    ) -> Result<Vec<StateRecord>, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let states = store::list_deleted(&mut tx, caller.environment(), limit).await?;
        tx.commit().await?;
        Ok(states)
    }

    pub async fn status(&self, caller: &Caller, name: &StateName) -> Result<Status, EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        let holders = store::list_active(&mut tx, state.id)
            .await?
            .iter()
            .map(holder)
            .collect();
        let kept = store::list_kept(&mut tx, state.id).await?;
        let unsettled = store::list_unsettled(&mut tx, state.id).await?;
        let version_count = store::count_versions(&mut tx, state.id).await?;
        let usual_hold_seconds = store::usual_hold_seconds(&mut tx, state.id).await?;
        tx.commit().await?;
        let waiting = self.waiting_clients(caller, &state).await;
        Ok(Status {
            waiting,
            usual_hold_seconds,
            state,
            head,
            version_count,
            holders,
            kept,
            unsettled: unsettled.iter().map(runs::mark).collect(),
        })
    }

    pub async fn list_versions(
        &self,
        caller: &Caller,
        name: &StateName,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Version>, EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let versions = store::list_versions(&mut tx, state.id, before, limit).await?;
        tx.commit().await?;
        Ok(versions)
    }

    pub async fn version(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: VersionRef,
    ) -> Result<Version, EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let version = store::find_version(&mut tx, state.id, wanted).await?;
        tx.commit().await?;
        version.ok_or(EngineError::NoSuchVersion)
    }

    /// Instances of a version in document order, behind the place `after`.
    pub async fn list_resources(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: VersionRef,
        after: &[u8],
        limit: i64,
    ) -> Result<(Version, Vec<ResourceRow>), EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let version = rows_version(&mut tx, &state, wanted).await?;
        let rows = store::list_resources(&mut tx, state.id, version.seq, after, limit).await?;
        tx.commit().await?;
        Ok((version, rows))
    }

    /// The current object at an address, and deposed ones beside it.
    pub async fn instance(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: VersionRef,
        address: &str,
    ) -> Result<(Version, Vec<ResourceRow>), EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let version = rows_version(&mut tx, &state, wanted).await?;
        let rows = store::find_instance(&mut tx, state.id, version.seq, address).await?;
        tx.commit().await?;
        if rows.is_empty() {
            Err(EngineError::NoSuchInstance)
        } else {
            Ok((version, rows))
        }
    }

    /// Records that the caller is about to be shown sensitive values of an instance.
    pub async fn record_sensitive_read(
        &self,
        caller: &Caller,
        name: &StateName,
        seq: i64,
        address: &str,
    ) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        let what = audit::What::SensitiveRead { seq, address };
        audit::record(&mut tx, caller, state.id, &state.name, what).await?;
        Ok(tx.commit().await?)
    }

    /// Root outputs of the head, with the head itself.
    pub async fn outputs(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<(Version, Vec<OutputRow>), EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let head = store::find_head(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoVersion)?;
        if head.name != name.as_str() {
            return Err(EngineError::NameCase { stored: head.name });
        }
        let version = head.version.ok_or(EngineError::NoVersion)?;
        if version.form == Form::Opaque {
            return Err(EngineError::Opaque(
                version.opaque_reason.unwrap_or_default(),
            ));
        }
        let outputs = store::outputs_at(&mut tx, head.state_id, version.seq).await?;
        tx.commit().await?;
        Ok((version, outputs))
    }

    /// The body of a write that came too late.
    pub async fn kept_document(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
    ) -> Result<Vec<u8>, EngineError> {
        let (mut tx, state) = self.begin_on(caller, name).await?;
        let (packed, seq, size) = store::find_kept(&mut tx, state.id, id)
            .await?
            .ok_or(EngineError::NoSuchVersion)?;
        let key = self.data_key(&mut tx, caller).await?;
        tx.commit().await?;
        let kind = SealedKind::KeptResult;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state: state.id,
            seq,
            kind,
        };
        Ok(tokio::task::block_in_place(|| {
            key.unpack(&place, &packed, size as usize)
        })?)
    }

    async fn begin_on(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<(WorkspaceTx, store::State), EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        Ok((tx, state))
    }
}

/// A version that has rows to speak of.
async fn rows_version(
    tx: &mut WorkspaceTx,
    state: &store::State,
    wanted: VersionRef,
) -> Result<Version, EngineError> {
    let version = store::find_version(tx, state.id, wanted)
        .await?
        .ok_or(match wanted {
            VersionRef::Head => EngineError::NoVersion,
            _ => EngineError::NoSuchVersion,
        })?;
    match version.form {
        Form::Opaque => Err(EngineError::Opaque(
            version.opaque_reason.unwrap_or_default(),
        )),
        Form::Rows | Form::Kept => Ok(version),
    }
}
