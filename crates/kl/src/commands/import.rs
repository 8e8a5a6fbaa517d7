//! `kl import snapshot`: a state file becomes the next version of a state.
//!
//! The rules are those of `terraform state push`, and they are checked under the lock, so that
//! nothing can slip in between the check and the write. `--force` skips them; the server keeps the
//! replaced version either way.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use protocol::states::{ImportAnswer, StateStatus};
use protocol::{Code, LockInfo};
use tfstate::{Document, Refusal};

use super::{Context, status};
use crate::cli::SnapshotArgs;
use crate::client::{Client, Upload};
use crate::config::StateAddress;
use crate::encoding;
use crate::failure::{Failure, Kind, Result};
use crate::output::progress::Progress;

pub(super) async fn run(args: SnapshotArgs, context: &Context) -> Result<()> {
    let snapshot = Snapshot::read(&args.file, context)?;
    let client = context.client()?;
    let state = context.state(&client).await?;
    let import = Import {
        args: &args,
        context,
        client: &client,
        state: &state,
        snapshot: &snapshot,
    };
    let written = if args.lock {
        import.under_lock().await?
    } else {
        import.write(None).await?
    };
    context.printer.result(&written, || {
        let (file, seq, state) = (args.file.display(), written.seq, &state.state);
        if written.changed {
            format!("{file} is version {seq} of state {state}\n")
        } else {
            format!("{file} is what state {state} has already, as version {seq}\n")
        }
    })
}

/// A state file, ready to be sent, and the two fields the rules look at.
struct Snapshot {
    document: Bytes,
    serial: Option<u64>,
    lineage: Option<String>,
}

impl Snapshot {
    fn read(file: &Path, context: &Context) -> Result<Self> {
        let shown = if file.as_os_str() == "-" {
            "standard input".to_owned()
        } else {
            file.display().to_string()
        };
        let named = |failure: Failure| failure.context(format!("could not import {shown}"));
        let mut bytes = Vec::new();
        let read = if file.as_os_str() == "-" {
            std::io::stdin().lock().read_to_end(&mut bytes)
        } else {
            std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
        };
        read.map_err(|error| named(error.into()))?;
        let converted = encoding::to_utf8(&bytes).map_err(named)?;
        if let Some(note) = converted.note {
            context.printer.note(&format!("{shown}: {note}"));
        }
        let document = tfstate::parse(&converted.bytes)
            .map_err(|refusal| named(refused(&refusal, &converted.bytes)))?;
        let (serial, lineage) = match document {
            Document::State(state) => (Some(state.serial), Some(state.lineage)),
            Document::Opaque(opaque) => (opaque.serial, opaque.lineage),
        };
        Ok(Self {
            serial,
            lineage: lineage.filter(|lineage| !lineage.is_empty()),
            document: match converted.bytes {
                std::borrow::Cow::Owned(bytes) => bytes.into(),
                std::borrow::Cow::Borrowed(part) => {
                    let start = bytes.len() - part.len();
                    Bytes::from(bytes).slice(start..)
                }
            },
        })
    }
}

/// A refusal of the document, with line and column where it has a place.
fn refused(refusal: &Refusal, document: &[u8]) -> Failure {
    let Refusal::NotJson { offset, what } = refusal else {
        return Failure::failed(refusal.to_string());
    };
    let before = &document[..(*offset).min(document.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count();
    Failure::failed(format!(
        "it is not JSON: {what}, line {line}, column {column}"
    ))
}

/// One import on its way.
struct Import<'a> {
    args: &'a SnapshotArgs,
    context: &'a Context,
    client: &'a Client,
    state: &'a StateAddress,
    snapshot: &'a Snapshot,
}

impl Import<'_> {
    /// Takes the lock, writes, and gives the lock up whatever happened in between.
    async fn under_lock(&self) -> Result<ImportAnswer> {
        let lock = self.lock_info();
        self.take(&lock).await?;
        let written = tokio::select! {
            written = self.write(Some(&lock.id)) => written,
            _ = tokio::signal::ctrl_c() => Err(Failure::failed("interrupted")
                .hint("run `kl history` to see whether the version was written")),
        };
        let released = self
            .client
            .unlock(self.state, &lock)
            .await
            .map_err(|error| {
                Failure::from(error)
                    .context(format!(
                        "could not give up the lock {} of state `{}`",
                        lock.id, self.state.state
                    ))
                    .hint(format!(
                        "run `kl unlock {} --lock-id {}`",
                        self.state.state, lock.id
                    ))
            });
        match (written, released) {
            (Ok(version), Ok(())) => Ok(version),
            (Ok(version), Err(failure)) => {
                self.context
                    .printer
                    .note(&format!("version {} is written", version.seq));
                Err(failure)
            }
            (Err(failure), Ok(())) => Err(failure),
            (Err(first), Err(second)) => {
                self.context.printer.failure(&second);
                Err(first)
            }
        }
    }

    /// Tries for the lock until `--lock-timeout` is over, with Terraform's pauses.
    async fn take(&self, lock: &LockInfo) -> Result<()> {
        let deadline = tokio::time::Instant::now() + self.args.lock_timeout.0;
        let mut pause = Duration::from_secs(1);
        loop {
            let error = match self.client.lock(self.state, lock).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let held = matches!(error.code(), Some(Code::StateLocked));
            if !held || tokio::time::Instant::now() + pause > deadline {
                return Err(Failure::from(error)
                    .context(format!("could not lock state `{}`", self.state.state)));
            }
            tokio::time::sleep(pause).await;
            // Terraform's longest pause, too.
            pause = (pause * 2).min(Duration::from_secs(16));
        }
    }

    async fn write(&self, lock_id: Option<&str>) -> Result<ImportAnswer> {
        if !self.args.force {
            self.check_head().await?;
        }
        let document = self.snapshot.document.clone();
        let length = u64::try_from(document.len()).ok();
        let progress = Progress::transfer(self.context.printer, "sending", length);
        let upload = Upload {
            document,
            lock_id,
            progress: progress.clone(),
        };
        let written = self.client.import_document(self.state, upload).await;
        // Before anything is printed: a bar on its way out would be drawn over it.
        progress.finish();
        written.map_err(|error| {
            Failure::from(error).context(format!("could not write state `{}`", self.state.state))
        })
    }

    async fn check_head(&self) -> Result<()> {
        match self.client.get_state_status(self.state).await {
            Ok(status) => refuse_replacement(&status, self.snapshot),
            Err(error) if error.is_absent_state() => Ok(()),
            Err(error) => Err(status::unreadable(error.into(), self.state)),
        }
    }

    fn lock_info(&self) -> LockInfo {
        LockInfo {
            id: uuid::Uuid::new_v4().to_string(),
            operation: "kl import snapshot".to_owned(),
            who: self.context.surroundings.who(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created: Some(self.context.now),
            ..LockInfo::default()
        }
    }
}

/// The rule of `terraform state push`: a state that holds resources is replaced by a document of
/// its own lineage whose serial is not lower. Equal serials are left to the server, which knows
/// whether the documents are equal too.
fn refuse_replacement(status: &StateStatus, snapshot: &Snapshot) -> Result<()> {
    let Some(head) = &status.head else {
        return Ok(());
    };
    if head.instance_count == 0 {
        return Ok(());
    }
    let refused = |problem: String| {
        Err(Failure::message(Kind::Failed, problem).hint(
            "run `kl status` and compare; `--force` replaces it all the same, and history keeps both",
        ))
    };
    let count = head.instance_count;
    if let (Some(theirs), Some(ours)) = (&head.lineage, &snapshot.lineage)
        && theirs != ours
    {
        return refused(format!(
            "state `{}` holds {count} resources of lineage {theirs}; the file is of lineage {ours}",
            status.name
        ));
    }
    if let (Some(theirs), Some(ours)) = (head.serial, snapshot.serial)
        && ours < theirs
    {
        return refused(format!(
            "state `{}` holds {count} resources at serial {theirs}; the file is older, at serial {ours}",
            status.name
        ));
    }
    Ok(())
}
