//! Hashing rows while the document is still being read.
//!
//! SHA-256 takes about as long as reading, so a large document is hashed on a second thread that
//! follows the reader. When the reader is done it takes its share of what is left, so a machine
//! without a free processor loses nothing but the hand-over.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::{Digest, instance_digest};

/// Below this many bytes, starting a thread costs more than it saves.
const PARALLEL_FROM: usize = 512 * 1024;

/// Rows handed over at once: enough to make the hand-over free, few enough to start early and
/// to wait no longer than some 100 µs for the last of them.
const BATCH: usize = 64;

/// One row to hash.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) block: Digest,
    pub(super) body: &'a [u8],
}

impl Job<'_> {
    fn run(&self) -> Digest {
        instance_digest(&self.block, self.body)
    }
}

/// Takes rows from the reader.
pub(super) enum Hasher<'a> {
    Here(Vec<Digest>),
    Queued(Batches<'a>),
}

/// Rows on their way to whoever has time, in numbered batches.
pub(super) struct Batches<'a> {
    current: Vec<Job<'a>>,
    sent: usize,
    queue: Sender<(usize, Vec<Job<'a>>)>,
}

impl<'a> Batches<'a> {
    fn push(&mut self, job: Job<'a>) {
        self.current.push(job);
        if self.current.len() == BATCH {
            let next = Vec::with_capacity(BATCH);
            self.send(next);
        }
    }

    fn send(&mut self, next: Vec<Job<'a>>) {
        let batch = std::mem::replace(&mut self.current, next);
        // The receiver lives until the reader is done.
        _ = self.queue.send((self.sent, batch));
        self.sent += 1;
    }
}

impl<'a> Hasher<'a> {
    pub(super) fn push(&mut self, job: Job<'a>) {
        match self {
            Self::Here(digests) => digests.push(job.run()),
            Self::Queued(batches) => batches.push(job),
        }
    }

    /// Hands over the last batch and closes the queue, or returns what was hashed here.
    fn close(self) -> Vec<Digest> {
        match self {
            Self::Here(digests) => digests,
            Self::Queued(mut batches) => {
                batches.send(Vec::new());
                Vec::new()
            }
        }
    }
}

/// Runs `read` on a document of `len` bytes with a hasher, and returns its result together with
/// the digests of all rows it pushed, in order.
pub(super) fn while_reading<'a, T>(
    len: usize,
    read: impl FnOnce(&mut Hasher<'a>) -> T,
) -> (T, Vec<Digest>) {
    if len < PARALLEL_FROM || processors() < 2 {
        let mut hasher = Hasher::Here(Vec::new());
        let result = read(&mut hasher);
        return (result, hasher.close());
    }
    let (queue, batches) = mpsc::channel();
    let batches = Mutex::new(batches);
    thread::scope(|scope| {
        let follower = scope.spawn(|| hash_batches(&batches));
        let mut hasher = Hasher::Queued(Batches {
            current: Vec::with_capacity(BATCH),
            sent: 0,
            queue,
        });
        let result = read(&mut hasher);
        hasher.close();
        // What the queue still holds is shared between the two.
        let mut hashed = hash_batches(&batches);
        match follower.join() {
            Ok(others) => hashed.extend(others),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        hashed.sort_unstable_by_key(|(number, _)| *number);
        (
            result,
            hashed
                .into_iter()
                .flat_map(|(_, digests)| digests)
                .collect(),
        )
    })
}

/// Hashes batches until the queue is closed and empty.
fn hash_batches(batches: &Mutex<Receiver<(usize, Vec<Job<'_>>)>>) -> Vec<(usize, Vec<Digest>)> {
    let mut hashed = Vec::new();
    loop {
        // The guard must be gone before the hashing starts, or the two would take turns.
        let next = batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok((number, batch)) = next else {
            return hashed;
        };
        hashed.push((number, batch.iter().map(Job::run).collect()));
    }
}

fn processors() -> usize {
    // Asking the system reads files; the answer does not change while the process runs.
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}
