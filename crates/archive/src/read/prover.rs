//! Holding rendered documents against their SHA-256, on threads beside the one that renders.
//!
//! Hashing is the longest part of reading a history: every document goes through it whole, however little it changed.
//! Each document is hashed by one thread, and a few documents at once, so the reader is a few versions ahead of what is
//! proven. It hears of a document that is not the right one before it is told that there are no more versions, and before
//! it hears of anything that is wrong with a later one.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest as _, Sha256};
use tfstate::Digest;

use super::policy::Policy;
use crate::format::EntryName;
use crate::history::Step;
use crate::records::VersionMeta;
use crate::refusal::{ArchiveError, Fault, Rule};

/// Documents hashed at once, at most.
const MOST_THREADS: usize = 4;

/// A smaller document is hashed where it is rendered.
const SMALL_BYTES: u64 = 1 << 20;

/// Pieces that wait for a thread. With what a piece has, a document on its way takes some 2 MiB.
const PIECES_AHEAD: usize = 4;

/// Proves documents in the order of their versions.
pub(super) struct Prover {
    threads: usize,
    running: VecDeque<Running>,
}

/// A document that is being hashed.
struct Running {
    meta: VersionMeta,
    name: EntryName,
    thread: JoinHandle<(Digest, u64)>,
}

impl Prover {
    pub(super) fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: cores.min(MOST_THREADS),
            running: VecDeque::new(),
        }
    }

    /// Renders a version's document and has it hashed.
    ///
    /// # Errors
    /// Also that of an earlier version.
    pub(super) fn prove(
        &mut self,
        step: &Step<'_>,
        meta: &VersionMeta,
        policy: &Policy<'_>,
        name: &EntryName,
    ) -> Result<(), ArchiveError> {
        let go_on = || {
            if policy.stopped() {
                Err(ArchiveError::Stopped)
            } else {
                Ok(())
            }
        };
        if self.threads < 2 || meta.bytes < SMALL_BYTES {
            let (mut hash, mut size) = (Sha256::new(), 0_u64);
            step.render(|piece| {
                hash.update(&*piece);
                size += piece.len() as u64;
                go_on()
            })?;
            let found = (Digest(hash.finalize().into()), size);
            // Versions are proven in their order.
            self.finish()?;
            return check(meta, name, found);
        }
        while self.running.len() >= self.threads {
            self.settle_oldest()?;
        }
        let (pieces, taken) = sync_channel::<Vec<u8>>(PIECES_AHEAD);
        let (emptied, empty) = channel();
        let thread = thread::Builder::new()
            .name("archive-proof".to_owned())
            .spawn(move || hash_all(&taken, &emptied))
            .map_err(ArchiveError::Read)?;
        let sent = send_all(step, &pieces, &empty, go_on);
        drop(pieces);
        self.running.push_back(Running {
            meta: meta.clone(),
            name: name.clone(),
            thread,
        });
        sent
    }

    /// Waits for every document that is still being hashed.
    pub(super) fn finish(&mut self) -> Result<(), ArchiveError> {
        while !self.running.is_empty() {
            self.settle_oldest()?;
        }
        Ok(())
    }

    fn settle_oldest(&mut self) -> Result<(), ArchiveError> {
        let Some(Running { meta, name, thread }) = self.running.pop_front() else {
            return Ok(());
        };
        // A thread that panicked has proven nothing.
        let nothing = (Digest([0; 32]), 0);
        let checked = check(&meta, &name, thread.join().unwrap_or(nothing));
        if checked.is_err() {
            // What follows on a wrong document is of no interest any more.
            self.running.clear();
        }
        checked
    }
}

/// Renders into buffers that come back when they are hashed.
fn send_all(
    step: &Step<'_>,
    pieces: &SyncSender<Vec<u8>>,
    empty: &Receiver<Vec<u8>>,
    go_on: impl Fn() -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    step.render(|piece| {
        let next = empty.try_recv().unwrap_or_default();
        // Fails only when the thread is gone, which its end shows.
        let _ = pieces.send(std::mem::replace(piece, next));
        go_on()
    })
}

fn hash_all(taken: &Receiver<Vec<u8>>, emptied: &Sender<Vec<u8>>) -> (Digest, u64) {
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    for piece in taken {
        hash.update(&piece);
        size += piece.len() as u64;
        // Nobody waits for the last ones.
        let _ = emptied.send(piece);
    }
    (Digest(hash.finalize().into()), size)
}

fn check(
    meta: &VersionMeta,
    name: &EntryName,
    (sha256, size): (Digest, u64),
) -> Result<(), ArchiveError> {
    check_document_size(meta, size).map_err(|fault| fault.at(name))?;
    if sha256 == meta.sha256 {
        Ok(())
    } else {
        Err(wrong_digest(meta).at(name))
    }
}

pub(super) fn wrong_digest(meta: &VersionMeta) -> Fault {
    let detail = format!(
        "the document of version {} is not the one that was exported",
        meta.seq
    );
    Fault::new(Rule::DocumentDigest, detail)
}

pub(super) fn check_document_size(meta: &VersionMeta, size: u64) -> Result<(), Fault> {
    if meta.bytes == size {
        return Ok(());
    }
    let detail = format!(
        "the document has {size} bytes, its version says {}",
        meta.bytes
    );
    Err(Fault::new(Rule::DocumentSize, detail))
}
