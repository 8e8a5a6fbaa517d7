//! One attempt at a job, on a thread of its own: what it may ask the database and the object store, how it hears that it is
//! to stop, and how it tells how far it is.
//!
//! Readers and writers of archives are plain blocking code. They run on a blocking thread, and reach what is asynchronous
//! through the runtime's handle.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use blob::{ObjectKey, PIECE_BYTES, Upload};
use bytes::Bytes;
use protocol::WorkspaceId;
use protocol::archives::JobProgress;
use sha2::{Digest as _, Sha256};
use store::WorkspaceTx;
use store::jobs::Job;
use store::queue::Claimed;
use tokio::runtime::Handle;

use super::outcome::{Failure, Stop};
use super::{Archives, prefix};

/// Whether, and why, to stop.
#[derive(Debug, Default)]
pub(super) struct StopSign(AtomicU8);

impl StopSign {
    /// The first reason stands.
    pub(super) fn raise(&self, stop: Stop) {
        let number = match stop {
            Stop::Cancelled => 1,
            Stop::Lost => 2,
            Stop::Draining => 3,
            Stop::TooLong => 4,
        };
        _ = self
            .0
            .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn raised(&self) -> Option<Stop> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::Lost),
            3 => Some(Stop::Draining),
            _ => Some(Stop::TooLong),
        }
    }

    /// Fails once the sign is raised.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.raised()
            .map_or(Ok(()), |stop| Err(Failure::Stopped(stop)))
    }
}

/// How far an attempt is.
#[derive(Debug, Default)]
pub(super) struct Counts {
    versions_done: AtomicU64,
    versions_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
}

impl Counts {
    /// Begins to count something else.
    pub(super) fn begin(&self, versions_total: u64, bytes_total: u64) {
        self.versions_done.store(0, Ordering::Relaxed);
        self.bytes_done.store(0, Ordering::Relaxed);
        self.versions_total.store(versions_total, Ordering::Relaxed);
        self.bytes_total.store(bytes_total, Ordering::Relaxed);
    }

    pub(super) fn advance(&self, versions: u64, bytes: u64) {
        self.versions_done.fetch_add(versions, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> JobProgress {
        JobProgress {
            versions_done: self.versions_done.load(Ordering::Relaxed),
            versions_total: self.versions_total.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            bytes_total: self.bytes_total.load(Ordering::Relaxed),
        }
    }
}

/// One attempt.
pub(super) struct Attempt {
    pub(super) archives: Archives,
    pub(super) claimed: Claimed,
    pub(super) job: Job,
    pub(super) stop: Arc<StopSign>,
    pub(super) counts: Arc<Counts>,
    pub(super) handle: Handle,
}

impl Attempt {
    pub(super) fn workspace(&self) -> &WorkspaceId {
        &self.claimed.workspace
    }

    /// Waits for something asynchronous.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// Fails once the attempt is to stop.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.stop.check()
    }

    /// A refusal to read on becomes the reason why the reading was stopped.
    pub(super) fn sorted(&self, failure: impl Into<Failure>) -> Failure {
        match (failure.into(), self.stop.raised()) {
            (Failure::Stopped(_), Some(stop)) => Failure::Stopped(stop),
            (failure, _) => failure,
        }
    }

    /// Reads as of one moment.
    pub(super) fn begin_read(&self) -> Result<WorkspaceTx, Failure> {
        self.check()?;
        Ok(self.wait(self.archives.engine.db.begin_read(self.workspace()))?)
    }

    /// Begins a transaction during which nobody else gets the task. It may last: the lease is renewed beside it.
    pub(super) fn begin(&self) -> Result<WorkspaceTx, Failure> {
        self.check()?;
        self.wait(begin_kept(&self.archives, &self.claimed))
    }

    /// Begins the transaction that ends the job.
    pub(super) fn begin_end(&self) -> Result<WorkspaceTx, Failure> {
        self.check()?;
        self.wait(begin_held(&self.archives, &self.claimed))
    }

    /// Begins an object of this job, and notes it for whoever must clean up.
    pub(super) fn upload(&self) -> Result<Outgoing<'_>, Failure> {
        let key = ObjectKey::random_below(&prefix(self.workspace(), self.job.id));
        let upload = self.wait(self.archives.blobs.upload(&key))?;
        let note = serde_json::json!({ "key": key.as_str(), "trace": upload.trace() });
        let outgoing = Outgoing {
            attempt: self,
            key,
            upload: Some(upload),
            hash: Sha256::new(),
            size: 0,
        };
        let mut tx = self.begin()?;
        self.wait(store::jobs::note_unfinished(
            &mut tx,
            self.job.id,
            Some(&note),
        ))?;
        self.wait(tx.commit())?;
        Ok(outgoing)
    }
}

/// Begins a transaction during which nobody else gets the task.
pub(super) async fn begin_kept(
    archives: &Archives,
    claimed: &Claimed,
) -> Result<WorkspaceTx, Failure> {
    let mut tx = archives.engine.db.begin(&claimed.workspace).await?;
    if store::queue::keep(&mut tx, claimed).await? {
        Ok(tx)
    } else {
        Err(Failure::Stopped(Stop::Lost))
    }
}

/// Begins a transaction that decides over a job: its row first, then the task, which must still be this worker's.
pub(super) async fn begin_held(
    archives: &Archives,
    claimed: &Claimed,
) -> Result<WorkspaceTx, Failure> {
    let mut tx = archives.engine.db.begin(&claimed.workspace).await?;
    store::jobs::lock_job(&mut tx, claimed.job).await?;
    if store::queue::hold(&mut tx, claimed).await? {
        Ok(tx)
    } else {
        Err(Failure::Stopped(Stop::Lost))
    }
}

/// An object being written. Dropped before it is finished, it leaves nothing.
pub(super) struct Outgoing<'a> {
    attempt: &'a Attempt,
    key: ObjectKey,
    upload: Option<Upload>,
    hash: Sha256,
    size: u64,
}

/// An object that was written.
pub(super) struct Sent {
    pub(super) key: ObjectKey,
    pub(super) size_bytes: u64,
    pub(super) sha256: [u8; 32],
}

impl Outgoing<'_> {
    /// Sends off whole pieces from the front of the buffer.
    pub(super) fn drain(&mut self, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        while buffer.len() >= PIECE_BYTES {
            let rest = buffer.split_off(PIECE_BYTES);
            let piece = std::mem::replace(buffer, rest);
            self.send(piece)?;
        }
        Ok(())
    }

    fn send(&mut self, piece: Vec<u8>) -> Result<(), Failure> {
        self.attempt.check()?;
        self.hash.update(&piece);
        self.size += piece.len() as u64;
        let most = self.attempt.archives.limits.archive_bytes;
        if self.size > most {
            let detail =
                format!("the archive has more than the {most} bytes that it may have here");
            return Err(Failure::last("over_limit", detail));
        }
        match &mut self.upload {
            Some(upload) => Ok(self.attempt.wait(upload.write(Bytes::from(piece)))?),
            None => Ok(()),
        }
    }

    /// Sends the rest and gives the object its key.
    pub(super) fn finish(mut self, mut buffer: Vec<u8>) -> Result<Sent, Failure> {
        self.drain(&mut buffer)?;
        if !buffer.is_empty() {
            self.send(buffer)?;
        }
        if let Some(upload) = self.upload.take() {
            self.attempt.wait(upload.finish())?;
        }
        Ok(Sent {
            key: self.key.clone(),
            size_bytes: self.size,
            sha256: std::mem::take(&mut self.hash).finalize().into(),
        })
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take()
            && let Err(error) = self.attempt.wait(upload.abort())
        {
            // Noted as unfinished: the next attempt, or the clean-up, tries again.
            tracing::warn!(job.id = %self.attempt.job.id, error = %telemetry::Chain(&error), "an unfinished object stays for now");
        }
    }
}

/// Bytes of an object fetched at once.
const READ_BYTES: u64 = 4 << 20;

/// Reads an object from its beginning.
pub(super) struct Incoming<'a> {
    attempt: &'a Attempt,
    key: ObjectKey,
    size: u64,
    at: u64,
    buffer: Bytes,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(attempt: &'a Attempt, key: ObjectKey, size: u64) -> Self {
        Self {
            attempt,
            key,
            size,
            at: 0,
            buffer: Bytes::new(),
        }
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() && self.at < self.size {
            let end = (self.at + READ_BYTES).min(self.size);
            let read = self.attempt.archives.blobs.read(&self.key, self.at, end);
            self.buffer = self.attempt.wait(read).map_err(io::Error::other)?;
            self.at = end;
        }
        let taken = out.len().min(self.buffer.len());
        out[..taken].copy_from_slice(&self.buffer.split_to(taken));
        Ok(taken)
    }
}
