//! Writing restored versions beside the reading. Small ones share a transaction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use archive::VersionMeta;
use protocol::VersionId;
use serde_json::Value;
use store::queue::Claimed;
use store::{Form, NewInstance, NewOutput, RestoredVersion, WorkspaceTx};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument as _;
use uuid::Uuid;

use super::seq_of;
use crate::archive::Archives;
use crate::archive::attempt::{Attempt, begin_kept};
use crate::archive::outcome::Failure;
use crate::write::prepare::Births;

/// For so long, and for so many bytes of rows, versions are added to a transaction.
const BATCH_TIME: Duration = Duration::from_millis(500);
const BATCH_BYTES: usize = 8 << 20;
/// For so long a transaction stays open while the next version is read; after that what is written is committed. Reading a large
/// one takes minutes, and what a transaction holds keeps other workers from taking over if this one dies.
const LONGEST_READING: Duration = Duration::from_secs(5);

/// What is written while the next version is read is held beside it, so it has no more bytes than this.
const BESIDE_BYTES: usize = 8 << 20;

/// What is stored of a version beside its facts.
#[derive(Default)]
pub(super) struct Prepared<'v> {
    pub(super) closed: Vec<Vec<u8>>,
    pub(super) outputs_closed: Vec<String>,
    pub(super) births: Births<'v>,
    pub(super) header: Option<Vec<u8>>,
    pub(super) opaque_reason: Option<String>,
    pub(super) instance_count: u64,
}

/// A version to be written.
pub(super) struct Item<'v> {
    pub(super) meta: VersionMeta,
    pub(super) form: Form,
    pub(super) prepared: Prepared<'v>,
    pub(super) rows_digest: [u8; 32],
    /// Compressed and sealed, where it is kept whole.
    pub(super) document: Option<Vec<u8>>,
    pub(super) provenance: Value,
}

impl Prepared<'_> {
    fn into_owned(self) -> Prepared<'static> {
        let Births {
            instances,
            outputs,
            parts,
        } = self.births;
        let parts = parts.into_iter();
        let births = Births {
            instances: instances.into_iter().map(NewInstance::into_owned).collect(),
            outputs: outputs.into_iter().map(NewOutput::into_owned).collect(),
            parts: parts
                .map(|(digest, body)| (digest, Cow::Owned(body.into_owned())))
                .collect(),
        };
        Prepared {
            closed: self.closed,
            outputs_closed: self.outputs_closed,
            births,
            header: self.header,
            opaque_reason: self.opaque_reason,
            instance_count: self.instance_count,
        }
    }
}

impl Item<'_> {
    /// About what it adds to a transaction, and what a copy of it takes: texts that rows share are counted for each.
    fn bytes(&self) -> usize {
        let prepared = &self.prepared;
        let births = &prepared.births;
        let closed = prepared.closed.iter().map(Vec::len);
        let outputs_closed = prepared.outputs_closed.iter().map(String::len);
        let instances = births.instances.iter().map(NewInstance::size_bytes);
        let outputs = births.outputs.iter().map(|row| row.body.len());
        let parts = births.parts.iter().map(|(_, body)| body.len());
        let rows: usize = instances.chain(outputs).chain(parts).sum();
        let gone: usize = closed.chain(outputs_closed).sum();
        rows + gone + self.document.as_ref().map_or(0, Vec::len)
    }

    fn into_owned(self) -> Item<'static> {
        Item {
            meta: self.meta,
            form: self.form,
            prepared: self.prepared.into_owned(),
            rows_digest: self.rows_digest,
            document: self.document,
            provenance: self.provenance,
        }
    }
}

/// Writes versions in their order, at most one of them while the next one is read.
pub(super) struct Writing<'a> {
    attempt: &'a Attempt,
    turn: Turn,
    ids: HashMap<u64, Uuid>,
}

/// Where the writer is.
enum Turn {
    Idle(Box<Writer>),
    Busy {
        task: JoinHandle<(Box<Writer>, Result<Written, Failure>)>,
        /// Tells it that the next version has been read.
        next: oneshot::Sender<()>,
    },
    /// It failed, and nothing is written any more.
    Over,
}

/// The number of a version, and its id here.
type Written = (u64, Uuid);

impl<'a> Writing<'a> {
    pub(super) fn new(attempt: &'a Attempt) -> Self {
        let writer = Writer {
            archives: attempt.archives.clone(),
            claimed: attempt.claimed.clone(),
            state: attempt.job.state_id,
            principal: attempt.job.principal.as_str().to_owned(),
            batch: None,
        };
        Self {
            attempt,
            turn: Turn::Idle(Box::new(writer)),
            ids: HashMap::new(),
        }
    }

    /// Has a version written, and waits only for the one before. A large one is waited for, too.
    pub(super) fn write(&mut self, item: Item<'_>) -> Result<(), Failure> {
        let mut writer = self.idle()?;
        if item.bytes() <= BESIDE_BYTES {
            let item = item.into_owned();
            let (next, is_next) = oneshot::channel();
            let task = async move {
                let mut written = writer.write(&item).await;
                if written.is_ok() && timeout(LONGEST_READING, is_next).await.is_err() {
                    let committed = writer.commit().await;
                    written = committed.and(written);
                }
                (writer, written)
            };
            let task = self.attempt.handle.spawn(task.in_current_span());
            self.turn = Turn::Busy { task, next };
            return Ok(());
        }
        let (seq, id) = self.attempt.wait(writer.write(&item))?;
        self.ids.insert(seq, id);
        self.turn = Turn::Idle(writer);
        Ok(())
    }

    /// Commits what is written.
    pub(super) fn commit(&mut self) -> Result<(), Failure> {
        let mut writer = self.idle()?;
        self.attempt.wait(writer.commit())?;
        self.turn = Turn::Idle(writer);
        Ok(())
    }

    /// The ids of the versions that were written. Those not committed are among them.
    pub(super) fn into_ids(mut self) -> HashMap<u64, Uuid> {
        std::mem::take(&mut self.ids)
    }

    /// Waits for the writer.
    fn idle(&mut self) -> Result<Box<Writer>, Failure> {
        match std::mem::replace(&mut self.turn, Turn::Over) {
            Turn::Idle(writer) => Ok(writer),
            Turn::Busy { task, next } => {
                // It may be waiting for that, or writing yet.
                let _ = next.send(());
                // What a panic says may hold data; where it was is in the log.
                let panicked = |_| Failure::Passing("the writing panicked".to_owned());
                let (writer, written) = self.attempt.wait(task).map_err(panicked)?;
                let (seq, id) = written?;
                self.ids.insert(seq, id);
                Ok(writer)
            }
            Turn::Over => Err(Failure::Passing("the writing had failed".to_owned())),
        }
    }
}

impl Drop for Writing<'_> {
    /// Waits until nothing is written any more: whoever comes next may clean up.
    fn drop(&mut self) {
        // Not aborted: the database would go on with the statement that it has.
        if let Turn::Busy { task, next } = std::mem::replace(&mut self.turn, Turn::Over) {
            drop(next);
            let _ = self.attempt.wait(task);
        }
    }
}

struct Writer {
    archives: Archives,
    claimed: Claimed,
    state: Uuid,
    principal: String,
    batch: Option<Batch>,
}

/// A transaction with the last versions in it.
struct Batch {
    tx: WorkspaceTx,
    began: Instant,
    bytes: usize,
}

impl Writer {
    async fn commit(&mut self) -> Result<(), Failure> {
        match self.batch.take() {
            Some(batch) => Ok(batch.tx.commit().await?),
            None => Ok(()),
        }
    }

    async fn write(&mut self, item: &Item<'_>) -> Result<Written, Failure> {
        let Batch {
            mut tx,
            began,
            bytes,
        } = match self.batch.take() {
            Some(batch) => batch,
            None => Batch {
                tx: begin_kept(&self.archives, &self.claimed).await?,
                began: Instant::now(),
                bytes: 0,
            },
        };
        let bytes = bytes + item.bytes();
        let id = self.insert(&mut tx, item).await?;
        if bytes >= BATCH_BYTES || began.elapsed() >= BATCH_TIME {
            tx.commit().await?;
        } else {
            self.batch = Some(Batch { tx, began, bytes });
        }
        Ok((item.meta.seq, id))
    }

    async fn insert(&self, tx: &mut WorkspaceTx, item: &Item<'_>) -> Result<Uuid, Failure> {
        let (state, prepared, meta) = (self.state, &item.prepared, &item.meta);
        let seq = seq_of(meta.seq);
        let births = &prepared.births;
        let changed = prepared.closed.len().max(births.instances.len())
            + prepared.outputs_closed.len().max(births.outputs.len());
        let wanted = meta.id.parse::<VersionId>().ok().map(|id| id.as_uuid());
        let id = match wanted {
            Some(id) if !store::version_id_is_taken(tx, id).await? => id,
            _ => Uuid::now_v7(),
        };
        let restored = RestoredVersion {
            state_id: state,
            seq,
            id,
            serial: meta.serial,
            lineage: meta.lineage.as_deref(),
            terraform_version: meta.terraform_version.as_deref(),
            source: &meta.source,
            created_at: meta.created_at,
            created_by: &meta.created_by,
            principal_id: &self.principal,
            forced: meta.forced,
            unlocked: meta.unlocked,
            form: item.form,
            opaque_reason: prepared.opaque_reason.as_deref(),
            header: prepared.header.as_deref(),
            rows_digest: &item.rows_digest,
            sha256: &meta.sha256.0,
            byte_size: i64::try_from(meta.bytes).unwrap_or(i64::MAX),
            instance_count: i64::try_from(prepared.instance_count).unwrap_or(i64::MAX),
            rows_changed: i64::try_from(changed).unwrap_or(i64::MAX),
            provenance: item.provenance.clone(),
        };
        store::insert_restored_version(tx, &restored).await?;
        store::close_instances(tx, state, seq, &prepared.closed).await?;
        store::close_outputs(tx, state, seq, &prepared.outputs_closed).await?;
        store::insert_instances(tx, state, seq, &births.instances).await?;
        store::insert_outputs(tx, state, seq, &births.outputs).await?;
        store::insert_parts(tx, state, &births.parts).await?;
        if let Some(document) = &item.document {
            store::insert_document(tx, state, seq, document).await?;
        }
        Ok(id)
    }
}
