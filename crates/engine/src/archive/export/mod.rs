//! Writing an archive: versions stream from their rows through the writer into the object store, in bounded memory.
//!
//! History up to the head that was asked for never changes, so nothing is locked and no transaction lasts longer than a
//! page. A version costs what it changed, but for key frames, which cost their document.

mod ahead;
mod delta;
mod facts;
mod frames;
mod preface;
mod runs;
mod versions;

use archive::Writer;
use protocol::archives::ExportedArchive;
use serde_json::json;
use store::jobs::{JobEnd, JobStatus};
use store::queue::{self, Task};
use tfstate::{Digest, RowsDigest};
use uuid::Uuid;

pub(super) use runs::ToldRun;

use super::attempt::{Attempt, Sent};
use super::outcome::Failure;
use super::{ExportInput, Exported, audit_job, stored};
use crate::hex;

type Sink = Vec<u8>;

/// An export under way.
struct Export<'a> {
    attempt: &'a Attempt,
    state: Uuid,
    head: i64,
    /// Numbers of tagged versions.
    tagged: Vec<i64>,
    /// The rows' digest and the header's parts of the last version written.
    last: Option<Last>,
}

struct Last {
    rows_digest: RowsDigest,
    parts: Vec<Digest>,
}

/// Writes the archive and ends the job.
pub(super) fn run(attempt: &Attempt) -> Result<(), Failure> {
    let input: ExportInput = stored(&attempt.job.input)?;
    let mut export = Export {
        attempt,
        state: attempt.job.state_id,
        head: input.head_seq,
        tagged: Vec::new(),
        last: None,
    };
    export.render_missing()?;
    let runs = export.runs()?;
    let (size, preface) = export.preface(!runs.is_empty())?;
    attempt
        .counts
        .begin(preface.versions.count, size.document_bytes.unsigned_abs());
    let tags = export.tags()?;
    let state_name = preface.state.name.clone();
    let mut outgoing = attempt.upload()?;
    let mut writer = Writer::start(Sink::new(), preface)?;
    export.versions(&mut writer, &mut outgoing)?;
    let mut closing = writer.tags(&tags)?;
    if !runs.is_empty() {
        closing.runs(&runs)?;
    }
    let finished = closing.finish(Some(&attempt.archives.signer))?;
    let sent = outgoing.finish(finished.sink)?;
    export.end(&state_name, finished.counts.versions, sent)
}

impl Export<'_> {
    fn end(&self, name: &str, versions: u64, sent: Sent) -> Result<(), Failure> {
        let attempt = self.attempt;
        let archives = &attempt.archives;
        let key = archives.signer.public_key();
        let result = Exported {
            archive: ExportedArchive {
                file_name: format!("{name}.{}", archive::EXTENSION),
                size_bytes: sent.size_bytes,
                sha256: hex(&sent.sha256),
                versions,
                head_seq: self.head,
                key_id: key.id(),
                public_key: key.to_base64(),
            },
            key: sent.key.to_string(),
        };
        let end = JobEnd {
            status: JobStatus::Done,
            result: Some(super::json(&result)),
            error: None,
            keep_seconds: archives.limits.keep_seconds,
        };
        let after = json!({
            "job": protocol::JobId::from_uuid(attempt.job.id),
            "versions": versions,
            "sha256": result.archive.sha256,
        });
        let progress = super::json(&attempt.counts.read());
        let mut tx = attempt.begin_end()?;
        attempt.wait(async {
            store::jobs::note_unfinished(&mut tx, attempt.job.id, None).await?;
            store::jobs::record_progress(&mut tx, attempt.job.id, &progress).await?;
            store::jobs::end_job(&mut tx, attempt.job.id, &end).await?;
            queue::enqueue(&mut tx, attempt.job.id, Task::Clean, end.keep_seconds).await?;
            audit_job(&mut tx, &attempt.job, "archive.exported", after).await?;
            tx.commit().await
        })?;
        Ok(())
    }
}
