//! Parses many files at once: in parallel, and each content only once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use sha2::{Digest as _, Sha256};

use crate::{
    facts::{Fault, FileFacts},
    source::{Syntax, syntax_of},
    syntax::read_configuration,
};

/// Files of no more bytes than this altogether are parsed on the calling thread: starting threads
/// costs about as much as parsing this.
const SERIAL_BYTES: usize = 16 << 10;

/// The parser recurses to 64 levels of nesting, each several frames deep.
const STACK_BYTES: usize = 16 << 20;

type Outcome = Result<Arc<FileFacts>, Fault>;
type Key = ([u8; 32], Syntax);

/// Remembers what files said, by the digest of their content.
///
/// One cache may serve any number of loads, at once too. It keeps every distinct file it has seen;
/// drop it to forget.
#[derive(Debug, Default)]
pub struct ParseCache {
    seen: Mutex<HashMap<Key, Outcome>>,
}

impl ParseCache {
    pub fn new() -> Self {
        Self::default()
    }

    fn get(&self, key: &Key) -> Option<Outcome> {
        // A panic elsewhere leaves a map that is whole: entries are put in complete.
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    fn put(&self, key: Key, outcome: Outcome) {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, outcome);
    }
}

/// What each file says, in the order of `files` (name and content).
pub(super) fn parse_all(files: &[(&str, &[u8])], cache: &ParseCache) -> Vec<Outcome> {
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let workers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(files.len());
    if workers < 2 || bytes < SERIAL_BYTES {
        return files
            .iter()
            .map(|(name, bytes)| parse(name, bytes, cache))
            .collect();
    }
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; files.len()]);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, bytes)) = files.get(place) else {
                return;
            };
            let outcome = parse(name, bytes, cache);
            outcomes.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            // Where the system gives no thread, the loop below does the work.
            _ = thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, work);
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let done = outcomes.into_iter().zip(files);
    done.map(|(done, (name, bytes))| done.unwrap_or_else(|| parse(name, bytes, cache)))
        .collect()
}

fn parse(name: &str, bytes: &[u8], cache: &ParseCache) -> Outcome {
    let syntax = syntax_of(name);
    let key = (Sha256::digest(bytes).into(), syntax);
    if let Some(seen) = cache.get(&key) {
        return seen;
    }
    let outcome = read_configuration(bytes, syntax).map(Arc::new);
    cache.put(key, outcome.clone());
    outcome
}
