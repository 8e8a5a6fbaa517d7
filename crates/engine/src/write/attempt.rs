//! One attempt at a write: look at the head, prepare, commit.

use std::mem::take;
use std::time::{Duration, Instant};

use bytes::Bytes;
use graph::claims::Path;
use locking::{Rule, holds};
use protocol::StateName;
use store::{
    Changed, Form, Head, Lifecycle, LiveOutput, LiveRow, NewVersion, Reservation, Source, State,
    Version, WorkspaceTx,
};
use tfstate::Document;
use uuid::Uuid;

use super::judge::{Facts, head_facts, judge};
use super::prepare::{Births, Prepared, prepare};
use super::right::{Refusal, Right, find_right};
use super::{WriteLock, Written};
use crate::lock::{TERRAFORM_APPLY, end_due, holder, lock_info, not_read_only, same_spelling};
use crate::{Caller, Engine, EngineError, audit};

/// A write with everything that does not change between attempts.
pub(super) struct Attempt<'a> {
    pub(super) engine: &'a Engine,
    pub(super) caller: &'a Caller,
    pub(super) name: &'a StateName,
    pub(super) lock: WriteLock<'a>,
    pub(super) body: &'a Bytes,
    pub(super) sha256: &'a [u8; 32],
    pub(super) source: Source,
}

/// What the first look found.
enum Look {
    /// The document is the head already.
    Repeats {
        seq: i64,
    },
    Writes(Box<Base>),
}

/// The head that a write is compared with, and the right to replace it.
struct Base {
    state: State,
    version: Option<Version>,
    right: Right,
    forced: bool,
    rows: Vec<LiveRow>,
    outputs: Vec<LiveOutput>,
}

impl Base {
    fn seq(&self) -> i64 {
        self.version.as_ref().map_or(0, |version| version.seq)
    }
}

impl Attempt<'_> {
    /// Looks, prepares and commits; also says how long the commit took.
    pub(super) async fn run(
        &self,
        document: &mut Document<'_>,
    ) -> Result<(Written, Duration), EngineError> {
        let facts = Facts::of(document);
        let mut base = match self.look(document, &facts).await? {
            Look::Repeats { seq } => return Ok((Written::Unchanged { seq }, Duration::ZERO)),
            Look::Writes(base) => base,
        };
        let carried = base.version.as_ref().map_or([0; 32], |head| {
            head.rows_digest.as_slice().try_into().unwrap_or([0; 32])
        });
        // The lists of what lives at the head are given back here, before the transaction that writes.
        let (rows, outputs) = (take(&mut base.rows), take(&mut base.outputs));
        let prepared = tokio::task::block_in_place(|| {
            let prepared = prepare(document, self.body, &rows, &outputs, carried);
            drop((rows, outputs));
            prepared
        });
        let packed = match prepared.form {
            Form::Rows => None,
            Form::Kept | Form::Opaque => {
                let key = self.engine.sealing_key(self.caller).await?;
                let seq = base.state.next_seq();
                Some(
                    self.engine
                        .pack_document(&key, self.caller, base.state.id, seq, self.body)?,
                )
            }
        };
        let births = prepared.births(document);

        locking::point!(HttpPrepared);
        let began = Instant::now();
        let written = self
            .commit(&base, &facts, &prepared, births.as_ref(), packed.as_deref())
            .await?;
        Ok((written, began.elapsed()))
    }

    /// Finds the head, the right to write, and the live rows to compare with.
    async fn look(&self, document: &Document<'_>, facts: &Facts) -> Result<Look, EngineError> {
        let (engine, caller) = (self.engine, self.caller);
        let mut tx = engine.begin(caller).await?;
        let state = store::find_or_create_state(&mut tx, caller.environment(), self.name).await?;
        same_spelling(&state, self.name)?;
        not_read_only(&state)?;
        let head = store::find_head(&mut tx, caller.environment(), self.name).await?;
        let version = head.and_then(|Head { version, .. }| version);
        let repeats = version
            .as_ref()
            .filter(|head| head.sha256.as_deref() == Some(&self.sha256[..]));
        let right = match find_right(&mut tx, caller, &state, self.name, self.lock).await {
            Ok(right) => right,
            Err(Refusal::Ended(late)) => {
                tx.commit().await?;
                return match repeats {
                    Some(head) => Ok(Look::Repeats { seq: head.seq }),
                    None => Err(self.keep_late_body(&late).await?),
                };
            }
            Err(Refusal::Other(error)) => return Err(error),
        };
        if let Some(head) = repeats {
            if let Right::Held(held) = &right {
                store::record_activity(&mut tx, held.id, held.base_seq).await?;
                tx.commit().await?;
            }
            return Ok(Look::Repeats { seq: head.seq });
        }
        if let Right::Held(held) = &right
            && facts.serial.is_some()
            && holds(Rule::LateDuplicates)
            && store::was_written_under(&mut tx, state.id, held.id, self.sha256).await?
        {
            // Each write has another serial. These bytes were a version of this lock, and another came after it: a
            // duplicate that was delayed on its way.
            return Err(EngineError::LateDuplicate {
                head: head_facts(version.as_ref()),
            });
        }
        if matches!(right, Right::Unlocked)
            && engine.lock_policy(&mut tx, caller).await?.require_locks
        {
            return Err(EngineError::LockRequired);
        }
        let forced = judge(facts, version.as_ref(), &right)?;
        let (rows, outputs) = match document {
            Document::State(_) => {
                let rows = store::list_live_rows(&mut tx, state.id).await?;
                (rows, store::list_live_outputs(&mut tx, state.id).await?)
            }
            Document::Opaque(_) => Default::default(),
        };
        // A name that is new stays, even if the write comes to nothing: it holds nothing and is not listed.
        tx.commit().await?;
        Ok(Look::Writes(Box::new(Base {
            state,
            version,
            right,
            forced,
            rows,
            outputs,
        })))
    }

    /// The transaction that writes. Its cost follows the change.
    async fn commit(
        &self,
        base: &Base,
        facts: &Facts,
        prepared: &Prepared,
        births: Option<&Births<'_>>,
        packed: Option<&[u8]>,
    ) -> Result<Written, EngineError> {
        let caller = self.caller;
        let (id, seq) = (base.state.id, base.state.next_seq());
        let mut tx = self.engine.begin(caller).await?;
        let held = self.hold(&mut tx, base).await?;
        locking::point!(HttpAfterReservation);
        let locked = store::lock_state(&mut tx, id).await?;
        locking::point!(HttpAfterStateLock);
        if locked.lifecycle != Lifecycle::Active || locked.head_seq != base.seq() {
            return Err(store::Error::Moved("the head moved").into());
        }
        if held
            .as_ref()
            .is_some_and(|held| held.base_seq != base.seq())
            && holds(Rule::HttpVersionCheck)
        {
            return Err(EngineError::VersionConflict {
                head: head_facts(base.version.as_ref()),
            });
        }
        locking::point!(HttpAfterVersion);
        let rows_changed = prepared.changes.count();
        store::close_outputs(&mut tx, id, seq, &prepared.changes.outputs_closed).await?;
        if let Some(births) = births {
            store::insert_outputs(&mut tx, id, seq, &births.outputs).await?;
            store::insert_parts(&mut tx, id, &births.parts).await?;
        }
        let what = audit::What::Written {
            seq,
            before: base.version.as_ref(),
            sha256: self.sha256,
            forced: base.forced,
            unlocked: held.is_none(),
            source: self.source,
        };
        store::insert_version(
            &mut tx,
            &NewVersion {
                state_id: id,
                seq,
                id: Uuid::now_v7(),
                serial: facts.serial,
                lineage: facts.lineage.as_deref(),
                terraform_version: facts.terraform_version.as_deref(),
                source: self.source,
                created_by: caller.display(),
                principal_id: caller.principal().as_str(),
                reservation: held.as_ref().map(|held| (held.id, held.token)),
                run_id: None,
                forced: base.forced,
                unlocked: held.is_none(),
                form: prepared.form,
                opaque_reason: prepared.opaque_reason.as_deref(),
                header: prepared.header.as_deref(),
                rows_digest: &prepared.rows_digest,
                sha256: Some(self.sha256),
                byte_size: Some(self.body.len() as i64),
                instance_count: prepared.instance_count as i64,
                rows_changed: rows_changed as i64,
                after: base.seq(),
                was_applied: false,
                receipt: None,
            },
            Changed {
                closed: &prepared.changes.closed,
                born: births.map_or(&[], |births| &births.instances),
            },
            audit::entry(caller, id, &locked.name, &what),
        )
        .await?;
        if let Some(packed) = packed {
            store::insert_document(&mut tx, id, seq, packed).await?;
        }
        if let Some(held) = &held {
            settle_whole_state(&mut tx, caller, held).await?;
        }
        locking::point!(HttpBeforeCommit);
        tx.commit().await?;
        locking::point!(HttpAfterCommit);
        Ok(Written::Version {
            seq,
            serial: facts.serial,
            rows_changed,
            forced: base.forced,
        })
    }

    /// Makes the right of this write last until the transaction ends: its reservation's row, or the ledger with nobody in
    /// it.
    async fn hold(
        &self,
        tx: &mut store::WorkspaceTx,
        base: &Base,
    ) -> Result<Option<Reservation>, EngineError> {
        match &base.right {
            Right::Held(held) => match store::lock_active(tx, held.id).await? {
                Some(held) => Ok(Some(held)),
                None if !holds(Rule::Liveness) => Ok(Some(Reservation::clone(held))),
                // The next attempt sees that it has ended, and keeps the body.
                None => Err(store::Error::Moved("the lock ended meanwhile").into()),
            },
            Right::Unlocked => {
                store::lock_ledger(tx, base.state.id).await?;
                end_due(tx, self.caller, &base.state).await?;
                match store::list_active(tx, base.state.id).await?.first() {
                    Some(held) => Err(EngineError::Locked(Box::new(holder(held)))),
                    None => Ok(None),
                }
            }
        }
    }

    /// Stores the body of a write whose lock has ended; the refusal says so.
    async fn keep_late_body(&self, late: &Reservation) -> Result<EngineError, EngineError> {
        let (engine, caller) = (self.engine, self.caller);
        let refusal = EngineError::LockEnded {
            info: Box::new(lock_info(late)),
            reason: late.end_reason.clone().unwrap_or_default(),
            kept: true,
        };
        if !holds(Rule::KeptResults) {
            return Ok(refusal);
        }
        let key = engine.sealing_key(caller).await?;
        let packed = engine.pack_late_body(&key, caller, late, self.body)?;
        locking::point!(KeepBefore);
        let mut tx = engine.begin(caller).await?;
        store::keep_result(
            &mut tx,
            &store::KeptResult {
                state_id: late.state_id,
                reservation_id: late.id,
                base_seq: late.base_seq,
                digest: self.sha256,
                packed: &packed,
                byte_size: self.body.len() as i64,
                kept_by: caller.display(),
            },
        )
        .await?;
        audit::record_kept(&mut tx, caller, self.name.as_str(), late, self.sha256).await?;
        locking::point!(KeepBeforeCommit);
        tx.commit().await?;
        locking::point!(KeepAfterCommit);
        Ok(refusal)
    }
}

/// Clears what an earlier apply of plain Terraform left unsettled: this one has looked at the whole state since. Marks on
/// parts of it stay, for an apply may have been on other parts.
async fn settle_whole_state(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    held: &Reservation,
) -> Result<(), EngineError> {
    if lock_info(held).operation != TERRAFORM_APPLY {
        return Ok(());
    }
    let marks = store::list_unsettled(tx, held.state_id).await?;
    let seen: Vec<_> = marks
        .iter()
        .filter(|mark| mark.since < held.created_at && mark.path == Path::root())
        .collect();
    Ok(store::clear_unsettled(tx, held.state_id, &seen, caller.display()).await?)
}
