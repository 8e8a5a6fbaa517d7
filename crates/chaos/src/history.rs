//! What clients did and were told, in the order in which they knew it: one JSON object a line.
//!
//! Every operation has an `invoke` and, unless the run ended first, one outcome: `ok`, `fail` (the service refused for good:
//! it did not happen) or `unknown` (it may or may not have happened, or may still happen).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Microseconds since the run began, on a clock that never goes back.
    pub at_us: u64,
    /// The same moment in microseconds since 1970, to be held against the database's clock.
    pub wall_us: i64,
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Event {
    /// A client begins an operation.
    Invoke { op: u64, client: String, call: Call },
    /// It was done.
    Ok { op: u64, answer: Answer },
    /// It was refused.
    Fail { op: u64, answer: Answer },
    /// Nobody knows.
    Unknown { op: u64, answer: Answer },
    /// A fault begins.
    Fault {
        number: u32,
        kind: String,
        what: String,
    },
    /// And is over.
    Healed { number: u32 },
    /// Another part of the run begins.
    Phase { name: String },
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Call {
    /// Begins a native run that reserves its scope; waits in the queue if it has to.
    Begin {
        state: String,
        key: String,
        claims: Vec<Claim>,
        /// Whether the client comes back until it is granted, or gives up when it likes.
        patient: bool,
        /// How long each request waits, by the protocol's clock.
        wait_seconds: u32,
    },
    /// Begins a run of the state engine, which reserves nothing.
    BeginBare { state: String },
    /// Reserves for such a run.
    Reserve {
        state: String,
        run: String,
        claims: Vec<Claim>,
    },
    /// Adds claims.
    Extend { run: String, claims: Vec<Claim> },
    /// Renews the lease.
    Renew { run: String },
    /// Reads the slice.
    Slice { run: String },
    /// Locks the run's own backend: the apply begins.
    Open { run: String, lock: String },
    /// Unlocks it.
    Close { run: String, lock: String },
    /// Writes the slice back.
    Upload {
        state: String,
        run: String,
        lock: String,
        sha256: String,
        writes: Vec<Write>,
        /// Whether its client holds the run's claims for all it knows.
        late: bool,
    },
    /// Commits some addresses through the state engine.
    Commit {
        state: String,
        run: String,
        writes: Vec<Write>,
        /// Sent although no claim covers it.
        uncovered: bool,
    },
    /// Gives up what a bare run holds.
    Release { run: String },
    /// Ends a run.
    Finish { run: String, outcome: String },
    /// Ends somebody's run.
    Abort { run: String },
    /// Takes Terraform's lock.
    Lock { state: String, id: String },
    /// Gives it up.
    Unlock { state: String, id: String },
    /// Ends whatever Terraform lock there is.
    Break { state: String },
    /// Writes the whole state.
    Push {
        state: String,
        id: String,
        sha256: String,
        writes: Vec<Write>,
        late: bool,
    },
    /// Reads the whole state.
    Read { state: String },
    /// Fetches a kept body.
    Recover { state: String, sha256: String },
    /// Takes a kept body over, or lets it go.
    Settle { state: String, adopt: bool },
}

impl Call {
    /// Its name, for counts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::BeginBare { .. } => "begin_bare",
            Self::Reserve { .. } => "reserve",
            Self::Extend { .. } => "extend",
            Self::Renew { .. } => "renew",
            Self::Slice { .. } => "slice",
            Self::Open { .. } => "open",
            Self::Close { .. } => "close",
            Self::Upload { .. } => "upload",
            Self::Commit { .. } => "commit",
            Self::Release { .. } => "release",
            Self::Finish { .. } => "finish",
            Self::Abort { .. } => "abort",
            Self::Lock { .. } => "lock",
            Self::Unlock { .. } => "unlock",
            Self::Break { .. } => "break",
            Self::Push { .. } => "push",
            Self::Read { .. } => "read",
            Self::Recover { .. } => "recover",
            Self::Settle { .. } => "settle",
        }
    }

    /// What it writes to which state.
    #[must_use]
    pub fn writes(&self) -> Option<(&str, &[Write])> {
        match self {
            Self::Upload { state, writes, .. }
            | Self::Commit { state, writes, .. }
            | Self::Push { state, writes, .. } => Some((state, writes)),
            _ => None,
        }
    }
}

/// A claim as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// An address, a module, or `*`.
    pub address: String,
    pub write: bool,
}

/// A value that is written, and the one that its writer saw there. Every value is written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub address: String,
    pub value: String,
    pub before: String,
}

/// What a client was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    #[serde(skip_serializing_if = "is_default")]
    pub status: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// How many requests were sent for it.
    pub tries: u32,
    /// How many of them met a 5xx or a broken connection.
    #[serde(skip_serializing_if = "is_default")]
    pub troubles: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// The deadline it was told, in microseconds since 1970 by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub degraded: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub kept: bool,
    /// Who stood in the way, by runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// When the answer came that put it into the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_us: Option<u64>,
    /// By how much the slowest of its requests took longer than it was asked to wait.
    #[serde(skip_serializing_if = "is_default")]
    pub longest_gap_us: u64,
    /// What went wrong, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Where all tasks of a run write what they know. Cheap to clone.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    began: Instant,
    writer: Mutex<Writer>,
}

struct Writer {
    out: BufWriter<File>,
    next_op: u64,
    operations: u64,
}

impl Log {
    /// Begins a history.
    ///
    /// # Errors
    ///
    /// When the file cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(Arc::new(Inner {
            began: Instant::now(),
            writer: Mutex::new(Writer {
                out: BufWriter::new(file),
                next_op: 0,
                operations: 0,
            }),
        })))
    }

    /// Microseconds since the run began.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes one event down.
    pub fn note(&self, event: Event) {
        let mut writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Both clocks under the lock: the lines stand in their order.
        let entry = Entry {
            at_us: self.now_us(),
            wall_us: wall_us(),
            event,
        };
        if matches!(
            entry.event,
            Event::Ok { .. } | Event::Fail { .. } | Event::Unknown { .. }
        ) {
            writer.operations += 1;
        }
        if let Ok(mut line) = serde_json::to_vec(&entry) {
            line.push(b'\n');
            // A disk that is full shows when the history is read: it ends too early.
            let _ = writer.out.write_all(&line);
        }
    }

    /// Notes the beginning of an operation; answers its number.
    #[must_use]
    pub fn invoke(&self, client: &str, call: Call) -> u64 {
        let op = {
            let mut writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.next_op += 1;
            writer.next_op
        };
        self.note(Event::Invoke {
            op,
            client: client.to_owned(),
            call,
        });
        op
    }

    /// How many operations have ended.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.operations
    }

    /// Brings all lines to the file.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub fn flush(&self) -> Result<()> {
        let mut writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(writer.out.flush()?)
    }
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Reads a history back.
///
/// # Errors
///
/// When the file is not one.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut entries = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let entry = serde_json::from_str(&line?)
            .with_context(|| format!("line {} of {}", number + 1, path.display()))?;
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let log = Log::create(&path).unwrap();
        let call = Call::Begin {
            state: "s".to_owned(),
            key: "k".to_owned(),
            claims: vec![Claim {
                address: "a.b".to_owned(),
                write: true,
            }],
            patient: true,
            wait_seconds: 25,
        };
        let op = log.invoke("n1", call.clone());
        let answer = Answer {
            status: 200,
            tries: 2,
            token: Some(7),
            ..Answer::default()
        };
        log.note(Event::Ok {
            op,
            answer: answer.clone(),
        });
        log.flush().unwrap();
        assert_eq!(log.operations(), 1);
        let entries = read(&path).unwrap();
        assert_eq!(
            entries[0].event,
            Event::Invoke {
                op,
                client: "n1".to_owned(),
                call
            }
        );
        assert_eq!(entries[1].event, Event::Ok { op, answer });
        assert!(entries[0].at_us <= entries[1].at_us);
    }
}
