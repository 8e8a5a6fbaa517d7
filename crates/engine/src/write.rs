//! Writing a whole document: a Terraform POST, or a snapshot that is brought in.
//!
//! Everything that costs time in proportion to the document happens before the transaction: hashing,
//! splitting, comparing with the rows of the head, compressing. The transaction itself touches the rows
//! that change, one version row and the head, and starts over when the head moved meanwhile.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::StateName;
use sha2::{Digest as _, Sha256};
use store::{
    Form, Head, Lane, NewInstance, NewOutput, NewVersion, Reservation, Source, Version, WorkspaceTx,
};
use tfstate::{Document, Opaque, OpaqueReason, RowKind, State};
use uuid::Uuid;

use crate::compare::{Changes, Known, compare};
use crate::lock::{end_due, holder, lock_info, same_spelling};
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError, HeadFacts, audit};

/// What a write presents as its right to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteLock<'a> {
    /// `?ID=…`, exactly one.
    Id(&'a str),
    /// No lock: allowed where the environment does not require one and nobody holds the state.
    None,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The document is the head already: a repeat, and no new version.
    Unchanged { seq: i64 },
    Version {
        seq: i64,
        serial: Option<u64>,
        rows_changed: usize,
        forced: bool,
    },
}

/// A write and where its time went, its receipt apart.
#[derive(Debug, Clone)]
pub struct WriteReport {
    pub written: Written,
    /// Hashing, splitting, comparing, proving: grows with the document.
    pub prepare: Duration,
    /// The transaction that writes: grows with the change.
    pub commit: Duration,
}

/// The right under which one attempt writes.
enum Right {
    Held(Box<Reservation>),
    Unlocked,
}

impl Engine {
    /// Makes `body` the next version of the state.
    ///
    /// # Errors
    ///
    /// Every refusal leaves state, history and locks as they were; a body that comes under a lock that
    /// has ended is kept before it is refused.
    pub async fn write_document(
        &self,
        caller: &Caller,
        name: &StateName,
        lock: WriteLock<'_>,
        body: Bytes,
        source: Source,
    ) -> Result<WriteReport, EngineError> {
        let began = Instant::now();
        let _large = self.admit_document(body.len()).await;
        let hashing = tokio::task::spawn_blocking({
            let body = body.clone();
            move || <[u8; 32]>::from(Sha256::digest(&body))
        });
        let mut document = tokio::task::block_in_place(|| tfstate::parse(&body))?;
        // The task only hashes: it cannot fail but by a panic, which is carried on.
        let sha256 = hashing
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));

        let mut commit = Duration::ZERO;
        let mut tries = Tries::default();
        let written = loop {
            let tried = self
                .try_write(
                    caller,
                    name,
                    lock,
                    &body,
                    &sha256,
                    &mut document,
                    source,
                    &mut commit,
                )
                .await;
            match tried {
                Err(error) if tries.another(&error).await => {}
                outcome => break outcome?,
            }
        };
        Ok(WriteReport {
            written,
            prepare: began.elapsed().saturating_sub(commit),
            commit,
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one attempt of write_document, with all it has prepared"
    )]
    async fn try_write(
        &self,
        caller: &Caller,
        name: &StateName,
        lock: WriteLock<'_>,
        body: &Bytes,
        sha256: &[u8; 32],
        document: &mut Document<'_>,
        source: Source,
        commit: &mut Duration,
    ) -> Result<Written, EngineError> {
        let mut tx = self.begin(caller).await?;
        let head = store::find_head(&mut tx, caller.environment(), name).await?;
        if let Some(head) = &head {
            if head.name != name.as_str() {
                return Err(EngineError::NameCase {
                    stored: head.name.clone(),
                });
            }
            match head.lifecycle {
                store::Lifecycle::Active | store::Lifecycle::Deleted => {}
                store::Lifecycle::Archived => return Err(EngineError::NotWritable("archived")),
                store::Lifecycle::Importing => {
                    return Err(EngineError::NotWritable("being imported"));
                }
            }
        }
        let version = head.as_ref().and_then(|head| head.version.as_ref());
        let repeats = version.is_some_and(|head| head.sha256.as_deref() == Some(sha256));
        let right = match find_right(&mut tx, caller, head.as_ref(), lock).await {
            Ok(right) => right,
            Err(Refusal::Ended(late)) => {
                tx.commit().await?;
                if repeats {
                    return Ok(Written::Unchanged {
                        seq: version.map_or(0, |head| head.seq),
                    });
                }
                return Err(self
                    .keep_late_body(caller, name, &late, body, sha256)
                    .await?);
            }
            Err(Refusal::Other(error)) => return Err(error),
        };
        if let Some(head) = version
            && repeats
        {
            if let Right::Held(held) = &right {
                store::record_activity(&mut tx, held.id, held.base_seq).await?;
                tx.commit().await?;
            }
            return Ok(Written::Unchanged { seq: head.seq });
        }
        if matches!(right, Right::Unlocked)
            && self.lock_policy(&mut tx, caller).await?.require_locks
        {
            return Err(EngineError::LockRequired);
        }
        let facts = Facts::of(document);
        let forced = judge(&facts, version, &right)?;
        let base_seq = version.map_or(0, |head| head.seq);
        let state_id = head.as_ref().map(|head| head.state_id);
        let (rows, outputs) = match (state_id, &document) {
            (Some(id), Document::State(_)) => {
                let rows = store::list_live_rows(&mut tx, id).await?;
                (rows, store::list_live_outputs(&mut tx, id).await?)
            }
            _ => Default::default(),
        };
        tx.commit().await?;

        let carried = version.map_or([0; 32], |head| {
            head.rows_digest.as_slice().try_into().unwrap_or([0; 32])
        });
        let prepared =
            tokio::task::block_in_place(|| prepare(document, body, rows, outputs, carried));
        let births = prepared.births(document);
        let seq = base_seq + 1;

        let committing = Instant::now();
        let mut tx = self.begin(caller).await?;
        let known = store::find_or_create_state(&mut tx, caller.environment(), name).await?;
        let state = known.id;
        if state_id.is_some_and(|id| id != state) {
            return Err(store::Error::Moved("the state was deleted meanwhile").into());
        }
        let packed = if prepared.form == Form::Rows {
            None
        } else {
            Some(
                self.pack_document(&mut tx, caller, state, seq, body)
                    .await?,
            )
        };
        let held = match &right {
            Right::Held(held) => match store::lock_active(&mut tx, held.id).await? {
                Some(held) => Some(held),
                // It ended while the body was being prepared: the next attempt sees that and keeps it.
                None => return Err(store::Error::Moved("the lock ended meanwhile").into()),
            },
            Right::Unlocked => {
                store::lock_ledger(&mut tx, state).await?;
                end_due(&mut tx, caller, &known).await?;
                if let Some(held) = store::list_active(&mut tx, state).await?.first() {
                    return Err(EngineError::Locked(Box::new(holder(held))));
                }
                None
            }
        };
        let locked = store::lock_state(&mut tx, state).await?;
        same_spelling(&locked, name)?;
        if locked.head_seq != base_seq {
            return Err(store::Error::Moved("the head moved").into());
        }
        if let Some(held) = &held
            && held.base_seq != base_seq
        {
            return Err(EngineError::VersionConflict {
                head: head_facts(version),
            });
        }

        let Changes {
            closed,
            outputs_closed,
            ..
        } = &prepared.changes;
        let rows_changed = prepared.changes.count();
        store::insert_version(
            &mut tx,
            &NewVersion {
                state_id: state,
                seq,
                id: Uuid::now_v7(),
                serial: facts.serial,
                lineage: facts.lineage.as_deref(),
                terraform_version: facts.terraform_version.as_deref(),
                source,
                created_by: caller.display(),
                principal_id: caller.principal().as_str(),
                reservation: held.as_ref().map(|held| (held.id, held.token)),
                forced,
                unlocked: held.is_none(),
                form: prepared.form,
                opaque_reason: prepared.opaque_reason.as_deref(),
                header: prepared.header.as_deref(),
                rows_digest: &prepared.rows_digest,
                sha256: Some(sha256),
                byte_size: Some(body.len() as i64),
                instance_count: prepared.instance_count as i64,
                rows_changed: rows_changed as i64,
            },
        )
        .await?;
        store::close_instances(&mut tx, state, seq, closed).await?;
        store::close_outputs(&mut tx, state, seq, outputs_closed).await?;
        if let Some(births) = &births {
            store::insert_instances(&mut tx, state, seq, &births.instances).await?;
            store::insert_outputs(&mut tx, state, seq, &births.outputs).await?;
            store::insert_parts(&mut tx, state, &births.parts).await?;
        }
        if let Some(packed) = &packed {
            store::insert_document(&mut tx, state, seq, packed).await?;
        }
        store::advance_head(&mut tx, state, base_seq, seq).await?;
        if let Some(held) = &held {
            store::record_activity(&mut tx, held.id, seq).await?;
        }
        audit::record(
            &mut tx,
            caller,
            state,
            &locked.name,
            audit::What::Written {
                seq,
                before: version,
                sha256,
                forced,
                unlocked: held.is_none(),
                source,
            },
        )
        .await?;
        tx.commit().await?;
        *commit = committing.elapsed();
        Ok(Written::Version {
            seq,
            serial: facts.serial,
            rows_changed,
            forced,
        })
    }

    /// Stores the body of a write whose lock has ended, and says so.
    async fn keep_late_body(
        &self,
        caller: &Caller,
        name: &StateName,
        late: &Reservation,
        body: &Bytes,
        sha256: &[u8; 32],
    ) -> Result<EngineError, EngineError> {
        let mut tx = self.begin(caller).await?;
        self.keep_result(&mut tx, caller, late, body, sha256)
            .await?;
        audit::record_kept(&mut tx, caller, name.as_str(), late, sha256).await?;
        tx.commit().await?;
        Ok(EngineError::LockEnded {
            info: Box::new(lock_info(late)),
            reason: late.end_reason.clone().unwrap_or_default(),
            kept: true,
        })
    }
}

/// Why a write has no right to the state.
enum Refusal {
    /// Its lock existed and has ended.
    Ended(Box<Reservation>),
    Other(EngineError),
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Finds what entitles this write: the lock it names, or that nobody holds the state.
async fn find_right(
    tx: &mut WorkspaceTx,
    _caller: &Caller,
    head: Option<&Head>,
    lock: WriteLock<'_>,
) -> Result<Right, Refusal> {
    let Some(head) = head else {
        return match lock {
            WriteLock::None => Ok(Right::Unlocked),
            WriteLock::Id(_) => Err(Refusal::Other(EngineError::LockIdMismatch(None))),
        };
    };
    let mut active = store::list_active(tx, head.state_id).await?;
    let id = match lock {
        WriteLock::None => {
            return match active.iter().find(|held| !held.due) {
                Some(held) => Err(Refusal::Other(EngineError::Locked(Box::new(holder(held))))),
                None => Ok(Right::Unlocked),
            };
        }
        WriteLock::Id(id) => id,
    };
    let own = active
        .iter()
        .position(|held| held.idem_key == id && held.lane == Lane::Terraform.as_str());
    if let Some(own) = own {
        return Ok(Right::Held(Box::new(active.swap_remove(own))));
    }
    match store::find_by_key(tx, head.state_id, id).await? {
        Some(known) if known.lane == Lane::Terraform.as_str() => {
            Err(Refusal::Ended(Box::new(known)))
        }
        _ => {
            let other = active.first().map(|held| Box::new(holder(held)));
            Err(Refusal::Other(EngineError::LockIdMismatch(other)))
        }
    }
}

/// What a document says of itself.
struct Facts {
    serial: Option<u64>,
    lineage: Option<String>,
    terraform_version: Option<String>,
    ambiguous: Option<String>,
}

impl Facts {
    fn of(document: &Document<'_>) -> Self {
        match document {
            Document::State(state) => Self {
                serial: Some(state.serial),
                lineage: Some(state.lineage.clone()),
                terraform_version: Some(state.terraform_version.clone()),
                ambiguous: state.ambiguous.clone(),
            },
            Document::Opaque(opaque) => Self {
                serial: opaque.serial,
                lineage: opaque.lineage.clone(),
                terraform_version: opaque.terraform_version.clone(),
                ambiguous: opaque.ambiguous.clone(),
            },
        }
    }
}

/// Whether the document may follow the head under this right, and whether doing so is a *forced* write.
///
/// Under a lock, serial and lineage are Terraform's to judge: `state push -force` looks like any other
/// write, so a lower serial or another lineage is accepted and marked. Without a lock they are all there
/// is to guard by: same lineage, serial above the head's.
fn judge(facts: &Facts, head: Option<&Version>, right: &Right) -> Result<bool, EngineError> {
    let Some(head) = head else { return Ok(false) };
    let head_serial = head
        .serial
        .as_deref()
        .and_then(|serial| serial.parse::<u64>().ok());
    let other_lineage = matches!(
        (facts.lineage.as_deref(), head.lineage.as_deref()),
        (Some(offered), Some(current)) if offered != current
    );
    let not_above =
        matches!((facts.serial, head_serial), (Some(offered), Some(current)) if offered <= current);
    match right {
        Right::Held(_) => Ok(other_lineage || not_above),
        Right::Unlocked => {
            if let Some(field) = &facts.ambiguous {
                return Err(EngineError::AmbiguousField {
                    field: field.clone(),
                    head: head_facts(Some(head)),
                });
            }
            if other_lineage {
                return Err(EngineError::LineageMismatch {
                    head: head_facts(Some(head)),
                });
            }
            if not_above {
                let offered = facts
                    .serial
                    .map(|serial| serial.to_string())
                    .unwrap_or_default();
                return Err(EngineError::StaleSerial {
                    offered,
                    head: head_facts(Some(head)),
                });
            }
            Ok(false)
        }
    }
}

pub(crate) fn head_facts(version: Option<&Version>) -> HeadFacts {
    HeadFacts {
        seq: version.map_or(0, |version| version.seq),
        serial: version.and_then(|version| version.serial.clone()),
        lineage: version.and_then(|version| version.lineage.clone()),
        sha256: version
            .and_then(|version| version.sha256.as_deref())
            .map(hex),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A document compared with the head: what the transaction will write.
struct Prepared {
    changes: Changes,
    form: Form,
    opaque_reason: Option<String>,
    header: Option<Vec<u8>>,
    rows_digest: [u8; 32],
    instance_count: usize,
}

/// Rows to be born, borrowed from the document.
struct Births<'a> {
    instances: Vec<NewInstance<'a>>,
    outputs: Vec<NewOutput<'a>>,
    parts: Vec<([u8; 32], &'a [u8])>,
}

/// Compares with the head, brings what is new into rendered form, and proves that rendering gives the
/// posted bytes; where it does not, those are kept beside the rows. `carried` is the rows digest of the
/// head: an opaque document leaves the rows as they are. Takes the lists of live rows for good: they grow with the
/// state, and so does giving them back, which must not wait until the rows of the state are locked.
fn prepare(
    document: &mut Document<'_>,
    posted: &[u8],
    rows: Vec<store::LiveRow>,
    outputs: Vec<store::LiveOutput>,
    carried: [u8; 32],
) -> Prepared {
    let state = match document {
        Document::Opaque(opaque) => return Prepared::opaque(opaque, carried),
        Document::State(state) => state,
    };
    let known = Known::new(&rows);
    state.canonicalise(|ord, digest| known.contains(ord, &digest.0));
    let reproduces = state.reproduces(posted);
    Prepared {
        changes: compare(state, &rows, &outputs),
        form: if reproduces { Form::Rows } else { Form::Kept },
        opaque_reason: None,
        header: Some(state.header.encode()),
        rows_digest: state.rows_digest().to_bytes(),
        instance_count: state
            .instances
            .iter()
            .filter(|row| row.kind != RowKind::Shell)
            .count(),
    }
}

impl Prepared {
    fn opaque(opaque: &Opaque, carried: [u8; 32]) -> Self {
        Self {
            changes: Changes::default(),
            form: Form::Opaque,
            opaque_reason: Some(opaque_reason(&opaque.reason)),
            header: None,
            rows_digest: carried,
            instance_count: 0,
        }
    }

    fn births<'a>(&self, document: &'a Document<'_>) -> Option<Births<'a>> {
        let Document::State(state) = document else {
            return None;
        };
        Some(Births {
            instances: self
                .changes
                .born
                .iter()
                .map(|&index| new_instance(state, index))
                .collect(),
            outputs: self
                .changes
                .outputs_born
                .iter()
                .map(|&index| {
                    let output = &state.outputs[index];
                    NewOutput {
                        name: &output.name,
                        name_token: output.name_token,
                        body: &output.body,
                        digest: output.digest.0,
                    }
                })
                .collect(),
            parts: state
                .parts
                .iter()
                .map(|part| (part.digest.0, &*part.body))
                .collect(),
        })
    }
}

/// For people and for the column.
fn opaque_reason(reason: &OpaqueReason) -> String {
    match reason {
        OpaqueReason::Encrypted => "the client encrypted it".to_owned(),
        OpaqueReason::OlderVersion(version) => format!("its format is version {version}"),
        OpaqueReason::NewerVersion(version) => {
            format!("its format is version {version}, newer than 4")
        }
        OpaqueReason::NotReadable(why) => why.replace('\0', "\u{fffd}"),
    }
}

fn new_instance<'a>(state: &'a State<'_>, index: usize) -> NewInstance<'a> {
    let instance = &state.instances[index];
    let block = &state.blocks[instance.block as usize];
    let address = state.address(instance);
    NewInstance {
        ord: &instance.ord,
        kind: match instance.kind {
            RowKind::Current => "current",
            RowKind::Deposed => "deposed",
            RowKind::Shell => "shell",
        },
        address: address.to_string(),
        config_address: address.config_address(),
        module: &block.module,
        mode: block.mode.as_str(),
        resource_type: &block.kind,
        name: &block.name,
        index_key: instance
            .index_key
            .and_then(|token| std::str::from_utf8(token).ok()),
        deposed: instance.deposed.as_deref(),
        provider: block.provider.as_deref(),
        block: &block.text,
        body: &instance.body,
        digest: instance.digest.0,
        dependencies: state.dependencies(instance),
    }
}
