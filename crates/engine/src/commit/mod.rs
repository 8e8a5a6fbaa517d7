//! The delta commit: a version that costs what it changes, whatever the size of the state.
//!
//! A [`Delta`] says what is to stand at each of some places. It is made outside of any transaction; [`commit`] judges it and
//! writes it under the locks of the ledger.

mod base;
mod rows;

use graph::claims::{Access, ClaimSet, Path};
use locking::{Rule, holds};
use store::tenancy::audit::Entry;
use store::{
    Changed, Form, Lifecycle, LockedState, NewInstance, NewOutput, NewReceipt, NewVersion, Receipt,
    RecordedSource, Reservation, Source, State, Version, WorkspaceTx,
};
use tfstate::Header;
use uuid::Uuid;

use crate::reservations::hold;
use crate::write::head_facts;
use crate::{Caller, EngineError, audit};
use rows::Rows;

/// What is to stand at some places of a state afterwards. Places it does not name stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Delta<'a> {
    pub(crate) instances: Vec<Place<'a>>,
    pub(crate) outputs: Vec<OutputPlace<'a>>,
}

/// One place of the document order.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) ord: Vec<u8>,
    pub(crate) path: Path,
    /// `None`: nothing is to stand there.
    pub(crate) row: Option<NewInstance<'a>>,
}

/// One root output.
#[derive(Debug)]
pub(crate) struct OutputPlace<'a> {
    pub(crate) name: String,
    pub(crate) row: Option<NewOutput<'a>>,
}

impl Delta<'_> {
    fn paths(&self) -> impl Iterator<Item = Path> {
        let instances = self.instances.iter().map(|place| place.path.clone());
        instances.chain(self.outputs.iter().map(|place| Path::output(&place.name)))
    }
}

/// A commit: on whose behalf, under which reservation, and what.
pub(crate) struct Commit<'a> {
    pub(crate) run: Uuid,
    pub(crate) state: Uuid,
    /// Reservation and fencing token.
    pub(crate) held: (Uuid, i64),
    /// The same key is the same commit.
    pub(crate) key: &'a str,
    /// What the key was used for.
    pub(crate) request_digest: [u8; 32],
    pub(crate) delta: &'a Delta<'a>,
    /// For a state without a version.
    pub(crate) first: First<'a>,
    /// Whether it says what was done to real infrastructure.
    pub(crate) was_applied: bool,
    /// From which file each block was written.
    pub(crate) sources: &'a [RecordedSource],
}

/// What the first version of a state says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First<'a> {
    pub(crate) terraform_version: &'a str,
    pub(crate) lineage: &'a str,
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) seq: i64,
    pub(crate) serial: u64,
    /// The id of a version that was made by this; `None`: all that was to be written stood there already.
    pub(crate) made: Option<Uuid>,
}

/// Judges the delta and writes it as the next version, and keeps the reservation alive.
///
/// Who means to end the reservation in the same transaction holds the ledger.
pub(crate) async fn commit(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    wanted: &Commit<'_>,
) -> Result<Committed, EngineError> {
    let (id, token) = wanted.held;
    let held = hold(tx, id, token).await?;
    locking::point!(CommitAfterReservation);
    let (claims, receipt) = store::find_grounds(tx, id, wanted.run, wanted.key).await?;
    let is_known = receipt.is_some();
    if let Some(receipt) = receipt
        && holds(Rule::Receipts)
    {
        let committed = repeated(&receipt, wanted)?;
        if wanted.was_applied {
            store::record_beginning(tx, id).await?;
        }
        return Ok(committed);
    }
    locking::point!(CommitAfterReceipt);
    if holds(Rule::WriteCover) {
        covered(&claims, wanted.delta)?;
    }
    locking::point!(CommitAfterScope);
    // Before others have to wait: what is claimed stays what it is.
    let rows = Rows::resolve(tx, wanted.state, wanted.delta).await?;

    let LockedState {
        state,
        head,
        touched,
    } = store::lock_to_commit(tx, wanted.state, held.base_seq).await?;
    locking::point!(CommitAfterStateLock);
    if state.lifecycle != Lifecycle::Active {
        return Err(EngineError::NotWritable(state.lifecycle.as_str()));
    }
    if base::moved(&claims, &touched) && holds(Rule::VersionCheck) {
        return Err(EngineError::VersionConflict {
            head: head_facts(head.as_ref()),
        });
    }
    locking::point!(CommitAfterVersions);
    let committed = if rows.is_empty() && !is_known {
        confirm(tx, wanted, &held, &state, head.as_ref()).await?
    } else {
        let next = Next::after(head.as_ref(), state.next_seq(), wanted.first)?;
        let step = Step {
            held: &held,
            head: head.as_ref(),
            next: &next,
            receipt: Some(wanted.receipt()).filter(|_| !is_known),
        };
        let what = audit::What::Committed {
            seq: next.seq,
            before: head.as_ref(),
            run: wanted.run,
            rows: rows.count(),
        };
        let entry = audit::entry(caller, state.id, &state.name, &what);
        write(tx, caller, wanted, &step, &rows, entry).await?;
        locking::point!(CommitAfterWrite);
        Committed {
            seq: next.seq,
            serial: next.serial,
            made: Some(next.id),
        }
    };
    locking::point!(CommitBeforeCommit);
    Ok(committed)
}

impl Commit<'_> {
    fn receipt(&self) -> NewReceipt<'_> {
        NewReceipt {
            run_id: self.run,
            commit_key: self.key,
            request_digest: &self.request_digest,
        }
    }
}

/// A commit of what stands there already: the head is its outcome.
async fn confirm(
    tx: &mut WorkspaceTx,
    wanted: &Commit<'_>,
    held: &Reservation,
    state: &State,
    head: Option<&Version>,
) -> Result<Committed, EngineError> {
    let seq = state.head_seq;
    let serial = head.and_then(serial_of).unwrap_or_default();
    if wanted.was_applied {
        store::record_beginning(tx, held.id).await?;
    }
    store::record_activity(tx, held.id, seq).await?;
    store::insert_receipt(tx, &wanted.receipt(), seq, serial).await?;
    Ok(Committed {
        seq,
        serial,
        made: None,
    })
}

fn repeated(receipt: &Receipt, wanted: &Commit<'_>) -> Result<Committed, EngineError> {
    if receipt.request_digest != wanted.request_digest {
        return Err(EngineError::KeyReused);
    }
    Ok(Committed {
        seq: receipt.seq,
        serial: receipt.serial.parse().unwrap_or_default(),
        made: None,
    })
}

/// Fails unless a write claim covers everything that is written.
fn covered(claims: &ClaimSet, delta: &Delta<'_>) -> Result<(), EngineError> {
    let outside: Vec<String> = delta
        .paths()
        .filter(|path| !claims.grants(path, Access::Write))
        .map(|path| path.to_string())
        .collect();
    if outside.is_empty() {
        Ok(())
    } else {
        Err(EngineError::OutsideScope(outside))
    }
}

fn serial_of(version: &Version) -> Option<u64> {
    version.serial.as_deref()?.parse().ok()
}

/// What the next version says of itself.
struct Next {
    id: Uuid,
    seq: i64,
    serial: u64,
    header: Header,
    lineage: String,
    terraform_version: String,
}

impl Next {
    fn after(head: Option<&Version>, seq: i64, first: First<'_>) -> Result<Self, EngineError> {
        let Some(head) = head else {
            return Ok(Self {
                id: Uuid::now_v7(),
                seq,
                serial: 1,
                header: Header::new(first.terraform_version, 1, first.lineage),
                lineage: first.lineage.to_owned(),
                terraform_version: first.terraform_version.to_owned(),
            });
        };
        let (Some(header), Form::Rows | Form::Kept) = (&head.header, head.form) else {
            let reason = head.opaque_reason.clone();
            return Err(EngineError::NotNative(reason.unwrap_or_default()));
        };
        let header = Header::decode(header).map_err(|_| EngineError::Damaged {
            seq: head.seq,
            what: "its header cannot be read",
        })?;
        // At the end of the range it stays: Terraform itself wraps there, and a repeated serial is legal.
        let serial = serial_of(head).unwrap_or_default().saturating_add(1);
        Ok(Self {
            id: Uuid::now_v7(),
            seq,
            serial,
            header: header.with_serial(serial),
            lineage: head.lineage.clone().unwrap_or_default(),
            terraform_version: head.terraform_version.clone().unwrap_or_default(),
        })
    }
}

/// From which version to which, and by whose right.
struct Step<'a> {
    held: &'a Reservation,
    head: Option<&'a Version>,
    next: &'a Next,
    receipt: Option<NewReceipt<'a>>,
}

/// Writes the version: one row for itself, and those that change.
async fn write(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    wanted: &Commit<'_>,
    step: &Step<'_>,
    rows: &Rows<'_>,
    entry: Entry,
) -> Result<(), EngineError> {
    let Step {
        held, head, next, ..
    } = *step;
    let (id, seq) = (wanted.state, next.seq);
    let rows_digest = rows.digest_after(head.map(|head| head.rows_digest.as_slice()));
    store::close_outputs(tx, id, seq, &rows.outputs_closed).await?;
    store::insert_outputs(tx, id, seq, &rows.outputs_born).await?;
    store::record_sources(tx, id, seq, &rows.sources(wanted.sources)).await?;
    store::insert_version(
        tx,
        &NewVersion {
            state_id: id,
            seq,
            id: next.id,
            serial: Some(next.serial),
            lineage: Some(&next.lineage),
            terraform_version: Some(&next.terraform_version),
            source: Source::Native,
            created_by: caller.display(),
            principal_id: caller.principal().as_str(),
            reservation: Some((held.id, held.token)),
            run_id: Some(wanted.run),
            forced: false,
            unlocked: false,
            form: Form::Rows,
            opaque_reason: None,
            header: Some(&next.header.encode()),
            rows_digest: &rows_digest.to_bytes(),
            // Known once it is rendered: rendering it here would cost the whole state.
            sha256: None,
            byte_size: None,
            instance_count: head.map_or(0, |head| head.instance_count) + rows.added(),
            rows_changed: rows.count() as i64,
            // Not `seq - 1`: after a restore the numbers leap.
            after: head.map_or(0, |head| head.seq),
            was_applied: wanted.was_applied,
            receipt: step.receipt,
        },
        Changed {
            closed: &rows.closed,
            born: &rows.born,
        },
        entry,
    )
    .await?;
    Ok(())
}
