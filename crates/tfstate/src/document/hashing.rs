//! Hashing rows while the document is still being read.
//!
//! SHA-256 takes about as long as reading, so a large document is hashed on a second thread that
//! follows the reader. Rows come back in the order they went in.

use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;

use crate::{Digest, instance_digest};

/// Below this many bytes, starting a thread costs more than it saves.
const PARALLEL_FROM: usize = 512 * 1024;

/// Rows handed over at once: enough to make the hand-over free, few enough to start early.
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
    Elsewhere {
        batch: Vec<Job<'a>>,
        worker: mpsc::Sender<Vec<Job<'a>>>,
    },
}

impl<'a> Hasher<'a> {
    pub(super) fn push(&mut self, job: Job<'a>) {
        match self {
            Self::Here(digests) => digests.push(job.run()),
            Self::Elsewhere { batch, worker } => {
                batch.push(job);
                if batch.len() == BATCH {
                    // The worker outlives the reader; were it gone, the count would tell below.
                    _ = worker.send(std::mem::replace(batch, Vec::with_capacity(BATCH)));
                }
            }
        }
    }

    /// Hands over what is left; returns what was hashed here.
    fn close(self) -> Vec<Digest> {
        match self {
            Self::Here(digests) => digests,
            Self::Elsewhere { batch, worker } => {
                _ = worker.send(batch);
                Vec::new()
            }
        }
    }
}

/// Runs `read` on a document of `len` bytes with a hasher, and returns its result together with
/// the digests of all rows it pushed, in order.
pub(super) fn while_reading<'a, T: Send>(
    len: usize,
    read: impl FnOnce(&mut Hasher<'a>) -> T,
) -> (T, Vec<Digest>) {
    if len < PARALLEL_FROM || processors() < 2 {
        let mut hasher = Hasher::Here(Vec::new());
        let result = read(&mut hasher);
        return (result, hasher.close());
    }
    thread::scope(|scope| {
        let (worker, jobs) = mpsc::channel::<Vec<Job<'a>>>();
        let digests = scope.spawn(move || {
            let mut digests = Vec::new();
            for batch in jobs {
                digests.extend(batch.iter().map(Job::run));
            }
            digests
        });
        let mut hasher = Hasher::Elsewhere {
            batch: Vec::with_capacity(BATCH),
            worker,
        };
        let result = read(&mut hasher);
        hasher.close();
        // Hashing cannot panic; a missing digest would only make its row look changed.
        (result, digests.join().unwrap_or_default())
    })
}

fn processors() -> usize {
    // Asking the system reads files; the answer does not change while the process runs.
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}
