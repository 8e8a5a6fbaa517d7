//! What a run last saw: its slice, then its own last upload.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use store::{RunDocument, RunRecord, SealedKind, SealedPlace, SealingKey, VersionRef, WorkspaceTx};
use uuid::Uuid;

use super::contract_of;
use crate::slice::{SliceSpec, render_slice};
use crate::{Caller, Engine, EngineError};

/// A run's document, opened.
pub(super) struct Seen {
    pub(super) serial: u64,
    pub(super) sha256: Vec<u8>,
    pub(super) bytes: Bytes,
}

impl Engine {
    /// What the run last saw. Rendered and stored now where the replica that began the run did not get there.
    pub(super) async fn seen(
        &self,
        caller: &Caller,
        record: &RunRecord,
    ) -> Result<Seen, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let stored = store::find_run_document(&mut tx, record.id).await?;
        if let Some(stored) = stored {
            let key = self.data_key(&mut tx, caller).await?;
            tx.commit().await?;
            return open(caller, &key, record.id, &stored);
        }
        let rendered = render(&mut tx, record).await?;
        tx.commit().await?;
        let (serial, bytes) = rendered;
        let key = self.sealing_key(caller).await?;
        let document = seal(caller, &key, record.id, serial, &bytes)?;
        let mut tx = self.begin(caller).await?;
        store::lock_run(&mut tx, record.id).await?;
        if store::find_run_document(&mut tx, record.id)
            .await?
            .is_some()
        {
            return Err(store::Error::Moved("the slice was rendered meanwhile").into());
        }
        store::put_run_document(&mut tx, record.id, &document).await?;
        tx.commit().await?;
        Ok(Seen {
            serial,
            sha256: document.sha256,
            bytes,
        })
    }
}

/// Renders the slice of the run's own version.
pub(super) async fn render(
    tx: &mut WorkspaceTx,
    record: &RunRecord,
) -> Result<(u64, Bytes), EngineError> {
    let contract = contract_of(record)?;
    let base = match record.base_seq {
        0 => None,
        seq => store::find_version(tx, record.state_id, VersionRef::Seq(seq)).await?,
    };
    let serial = record.base_serial.as_deref();
    let serial = serial.and_then(|serial| serial.parse().ok()).unwrap_or(0);
    let lineage = match &base {
        Some(base) => base.lineage.clone().unwrap_or_default(),
        None => first_lineage(record.state_id),
    };
    let terraform_version = base.and_then(|base| base.terraform_version);
    let rendered = render_slice(
        tx,
        &SliceSpec {
            state: record.state_id,
            seq: record.base_seq,
            addresses: &contract.fetch_addresses,
            outputs: &contract.outputs_inside,
            lineage: &lineage,
            serial,
            terraform_version: terraform_version.as_deref().unwrap_or_default(),
        },
    )
    .await?;
    Ok((serial, rendered.document))
}

/// The lineage of a state that nobody has written to: the same for all its first runs.
pub(super) fn first_lineage(state: Uuid) -> String {
    state.hyphenated().to_string()
}

fn place<'a>(caller: &'a Caller, run: Uuid) -> SealedPlace<'a> {
    SealedPlace {
        workspace: caller.workspace(),
        state: run,
        seq: 0,
        kind: SealedKind::RunDocument,
    }
}

fn open(
    caller: &Caller,
    key: &SealingKey,
    run: Uuid,
    stored: &RunDocument,
) -> Result<Seen, EngineError> {
    let size = usize::try_from(stored.byte_size).unwrap_or_default();
    let bytes =
        tokio::task::block_in_place(|| key.unpack(&place(caller, run), &stored.packed, size))?;
    Ok(Seen {
        serial: stored.serial.parse().unwrap_or_default(),
        sha256: stored.sha256.clone(),
        bytes: Bytes::from(bytes),
    })
}

/// Compresses and seals a document for the run.
pub(super) fn seal(
    caller: &Caller,
    key: &SealingKey,
    run: Uuid,
    serial: u64,
    bytes: &[u8],
) -> Result<RunDocument, EngineError> {
    let packed = tokio::task::block_in_place(|| key.pack(&place(caller, run), bytes))?;
    Ok(RunDocument {
        serial: serial.to_string(),
        sha256: Sha256::digest(bytes).to_vec(),
        packed,
        byte_size: bytes.len() as i64,
    })
}
