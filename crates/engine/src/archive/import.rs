//! Taking an archive in: everything is verified first, but that versions render to what they were; that shows while they are
//! restored into a state that nobody sees, which is made visible in the one transaction that ends the job.
//!
//! An attempt that begins again finds the versions that were restored before, and goes on behind them.

use std::collections::HashMap;

use archive::{Origin, OriginRule, Policy, Verified, inspect, read_versions};
use protocol::archives::{ImportedState, Remapped};
use protocol::{JobId, StateId, StateName, VersionId};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::jobs::{JobEnd, JobStatus};
use store::queue::{self, Task};
use store::{Lifecycle, VersionRef, WorkspaceTx};
use uuid::Uuid;

use super::assemble::assemble;
use super::attempt::{Attempt, Incoming, Sent};
use super::outcome::Failure;
use super::restore::Restorer;
use super::{ImportInput, audit_job, stored};
use crate::lock::holder;
use crate::read::Rendering;
use crate::tags::is_tag;
use crate::{EngineError, hex};

/// When what comes after the end is cleaned up. An address of a part given out right before it is good for a quarter of an
/// hour more, and the slowest body that is taken needs 64 MiB ÷ 16 KiB/s, a good hour.
pub(super) const CLEAN_AFTER_SECONDS: i64 = 90 * 60;

/// How the version's rows say it came to be; anything else is from another product.
const SOURCES: [&str; 4] = ["terraform", "import", "rollback", "native"];

/// The longest text of a run, in bytes: it is recorded with every version that the run made. A run of ours has none longer.
const LONGEST_TEXT: usize = 1_024;

/// Takes the archive in and ends the job.
pub(super) fn run(attempt: &Attempt) -> Result<(), Failure> {
    let input: ImportInput = stored(&attempt.job.input)?;
    attempt.counts.begin(0, input.size_bytes);
    let sent = assemble(attempt, &input)?;
    let stop = || attempt.stop.raised().is_some();
    let limits = attempt.archives.limits;
    let policy = Policy {
        versions: limits.versions,
        memory_bytes: limits.memory_bytes,
        origin: if input.allow_foreign {
            OriginRule::Any
        } else {
            OriginRule::Trusted
        },
        stop: Some(&stop),
        ..Policy::trusting(&attempt.archives.trusted, limits.unpacked_bytes)
    };
    let verified = inspect(open(attempt, &sent), &policy).map_err(|error| attempt.sorted(error))?;
    check(&verified)?;
    let ids = restore(attempt, &sent, &verified, &policy)?;
    prove_head(attempt, &verified)?;
    publish(attempt, &input, &verified, &ids, &sent)
}

fn open<'a>(attempt: &'a Attempt, sent: &Sent) -> Incoming<'a> {
    Incoming::new(attempt, sent.key.clone(), sent.size_bytes)
}

/// What the format leaves open and this service does not.
fn check(verified: &Verified) -> Result<(), Failure> {
    for entry in &verified.versions {
        if !SOURCES.contains(&entry.meta.source.as_str()) {
            let detail = format!(
                "versions/{}.json: {:?} is no way in which a version comes to be",
                entry.meta.seq, entry.meta.source
            );
            return Err(Failure::last("unknown_source", detail));
        }
        if entry.meta.created_by.is_empty() {
            let detail = format!("versions/{}.json: it has no author", entry.meta.seq);
            return Err(Failure::last("bad_json", detail));
        }
    }
    if let Some(run) = verified.runs.iter().find(|run| !is_short(run)) {
        let detail = format!(
            "runs.json: run {:?} has a text of more than {LONGEST_TEXT} bytes",
            run.id.chars().take(40).collect::<String>()
        );
        return Err(Failure::last("invalid_run", detail));
    }
    match verified.tags.iter().find(|tag| !is_tag(&tag.name)) {
        Some(tag) => {
            let detail = format!("tags.json: {:?} cannot be a tag", tag.name);
            Err(Failure::last("invalid_tag", detail))
        }
        None => Ok(()),
    }
}

fn is_short(run: &archive::Run) -> bool {
    [&run.id, &run.kind, &run.status, &run.actor]
        .iter()
        .all(|text| text.len() <= LONGEST_TEXT)
}

/// Restores what is not restored yet, and proves every version; answers the id of every version here.
fn restore(
    attempt: &Attempt,
    sent: &Sent,
    verified: &Verified,
    policy: &Policy<'_>,
) -> Result<HashMap<u64, Uuid>, Failure> {
    attempt
        .counts
        .begin(verified.counts.versions, verified.counts.document_bytes);
    let mut tx = attempt.begin()?;
    let restored = attempt.wait(store::list_restored(&mut tx, attempt.job.state_id))?;
    attempt.wait(tx.commit())?;
    let mut ids: HashMap<u64, Uuid> = restored
        .into_iter()
        .map(|(seq, id)| (seq.unsigned_abs(), id))
        .collect();
    let mut restorer = Restorer::new(attempt, verified);
    let mut versions = read_versions(open(attempt, sent), verified, policy)
        .map_err(|error| attempt.sorted(error))?;
    while let Some(version) = versions
        .next_version()
        .map_err(|error| attempt.sorted(error))?
    {
        attempt.check()?;
        let (seq, bytes) = (version.entry.meta.seq, version.entry.meta.bytes);
        if ids.contains_key(&seq) {
            restorer.step_over(&version);
        } else {
            restorer.restore(&version)?;
        }
        attempt.counts.advance(1, bytes);
    }
    ids.extend(restorer.finish()?);
    Ok(ids)
}

/// The newest version, as it is stored now, still renders to what it was.
fn prove_head(attempt: &Attempt, verified: &Verified) -> Result<(), Failure> {
    let state = attempt.job.state_id;
    let seq = seq_of(verified.info.versions.last);
    let engine = &attempt.archives.engine;
    let mut tx = attempt.begin_read()?;
    let version = attempt
        .wait(store::find_version(&mut tx, state, VersionRef::Seq(seq)))?
        .ok_or_else(|| Failure::last("internal", "the newest version was not restored"))?;
    if version.form != store::Form::Rows {
        let kept = engine.open_kept_of(attempt.workspace(), &mut tx, state, &version);
        let mut kept = attempt.wait(kept)?;
        attempt.wait(tx.commit())?;
        let mut hash = Sha256::new();
        let read = std::io::copy(&mut kept, &mut HashSink(&mut hash));
        let sound = read.is_ok() && version.sha256.as_deref() == Some(hash.finalize().as_slice());
        return if sound {
            Ok(())
        } else {
            let detail = "the newest version is not stored as it was";
            Err(Failure::last("internal", detail))
        };
    }
    let mut rendering = attempt.wait(Rendering::start(&mut tx, state, &version))?;
    attempt.wait(tx.commit())?;
    let mut page = Vec::new();
    loop {
        page.clear();
        let mut tx = attempt.begin_read()?;
        let more = attempt.wait(rendering.next_page(&mut tx, &mut page))?;
        attempt.wait(tx.commit())?;
        if !more {
            return Ok(());
        }
    }
}

struct HashSink<'a>(&'a mut Sha256);

impl std::io::Write for HashSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The last transaction: tags, head and name, and the end of the job. Until it commits, nobody sees anything.
fn publish(
    attempt: &Attempt,
    input: &ImportInput,
    verified: &Verified,
    ids: &HashMap<u64, Uuid>,
    sent: &Sent,
) -> Result<(), Failure> {
    let (job, state) = (&attempt.job, attempt.job.state_id);
    let head_seq = seq_of(verified.info.versions.last);
    let lifecycle = if input.archived {
        Lifecycle::Archived
    } else {
        Lifecycle::Active
    };
    let progress = super::json(&attempt.counts.read());
    let mut tx = attempt.begin_end()?;
    let ended = attempt.wait(async {
        let replaced = if input.overwrite {
            replace(&mut tx, attempt).await?
        } else {
            None
        };
        store::lock_state(&mut tx, state).await?;
        for tag in &verified.tags {
            store::tags::set_tag(
                &mut tx,
                state,
                &tag.name,
                seq_of(tag.seq),
                tag.description.as_deref(),
                &tag.created_by,
                Some(tag.created_at),
            )
            .await?;
        }
        let published =
            store::publish_state(&mut tx, state, &job.state_name, head_seq, lifecycle).await?;
        if !published {
            return Err(EngineError::Store(store::Error::Moved("the state is gone")).into());
        }
        let result = ImportedState {
            state_id: StateId::from_uuid(state),
            versions: verified.counts.versions,
            tags: verified.counts.tags,
            head_seq,
            origin: origin_word(&verified.origin).to_owned(),
            content_sha256: verified.content_sha256.to_string(),
            remapped: remapped(verified, state, ids),
            replaced: replaced.map(StateId::from_uuid),
        };
        let end = JobEnd {
            status: JobStatus::Done,
            result: Some(super::json(&result)),
            error: None,
            keep_seconds: 0,
        };
        let after = json!({
            "job": JobId::from_uuid(job.id),
            "versions": result.versions,
            "origin": result.origin,
            "archive_sha256": hex(&sent.sha256),
            "content_sha256": result.content_sha256,
            "replaced": result.replaced,
        });
        store::jobs::note_unfinished(&mut tx, job.id, None).await?;
        store::jobs::record_progress(&mut tx, job.id, &progress).await?;
        store::jobs::end_job(&mut tx, job.id, &end).await?;
        queue::enqueue(&mut tx, job.id, Task::Clean, CLEAN_AFTER_SECONDS).await?;
        audit_job(&mut tx, job, "archive.imported", after).await?;
        Ok::<_, Failure>(())
    });
    ended?;
    attempt.wait(tx.commit())?;
    Ok(())
}

/// Deletes the state that has the name now, as its owner agreed to. Its history stays until it is purged.
async fn replace(tx: &mut WorkspaceTx, attempt: &Attempt) -> Result<Option<Uuid>, Failure> {
    let job = &attempt.job;
    let name: StateName = job
        .state_name
        .parse()
        .map_err(|_| Failure::last("internal", "the name is no name of a state"))?;
    let Some(old) = store::find_state(tx, &job.environment, &name).await? else {
        return Ok(None);
    };
    store::lock_ledger(tx, old.id).await?;
    if let Some(held) = store::list_active(tx, old.id).await?.first() {
        return Err(EngineError::Locked(Box::new(holder(held))).into());
    }
    store::lock_state(tx, old.id).await?;
    store::delete_state(tx, old.id).await?;
    let after = json!({ "job": JobId::from_uuid(job.id), "head_seq": old.head_seq });
    audit_job(tx, job, "state.replace", after).await?;
    Ok(Some(old.id))
}

/// Ids of the archive that are others here.
fn remapped(verified: &Verified, state: Uuid, ids: &HashMap<u64, Uuid>) -> Vec<Remapped> {
    let state_id = StateId::from_uuid(state).to_string();
    let state = (verified.info.state.id.clone(), state_id);
    let versions = verified.versions.iter().filter_map(|entry| {
        let id = VersionId::from_uuid(*ids.get(&entry.meta.seq)?).to_string();
        Some((entry.meta.id.clone(), id))
    });
    std::iter::once(state)
        .chain(versions)
        .filter(|(from, to)| from != to)
        .map(|(from, to)| Remapped { from, to })
        .collect()
}

/// Who vouches for an archive, in a word.
pub(super) fn origin_word(origin: &Origin) -> &'static str {
    match origin {
        Origin::Trusted { .. } => "trusted",
        Origin::Foreign { .. } => "foreign",
        Origin::Unsigned => "unsigned",
    }
}

/// Numbers of versions end at 2^63-1; the reader saw to it.
pub(super) fn seq_of(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
