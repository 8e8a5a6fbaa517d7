//! Writing a whole document: a Terraform POST, or a snapshot that is brought in.
//!
//! Everything that costs time in proportion to the document happens before the transaction that writes: hashing,
//! splitting, comparing with the rows of the head, compressing. That transaction touches the rows that change, one
//! version row and the head, and everything starts over when the head moved meanwhile.

mod attempt;
mod judge;
pub(crate) mod prepare;
mod right;

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::StateName;
use sha2::{Digest as _, Sha256};
use store::Source;
use tfstate::{Document, Opaque, OpaqueReason, State};

use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};
use attempt::Attempt;

pub(crate) use judge::head_facts;
pub(crate) use prepare::{new_instance, new_output};

/// What a write presents as its right to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteLock<'a> {
    /// `?ID=…`, exactly one.
    Id(&'a str),
    /// No lock: allowed where the environment does not require one and nobody holds the state.
    None,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The document is the head already: a repeat, and no new version.
    Unchanged { seq: i64 },
    Version {
        seq: i64,
        serial: Option<u64>,
        rows_changed: usize,
        forced: bool,
    },
}

/// A write and where its time went, its receipt apart.
#[derive(Debug, Clone)]
pub struct WriteReport {
    pub written: Written,
    /// Hashing, splitting, comparing, proving: grows with the document.
    pub prepare: Duration,
    /// The transaction that writes: grows with the change.
    pub commit: Duration,
}

impl Engine {
    /// Makes `body` the next version of the state.
    ///
    /// # Errors
    ///
    /// Every refusal leaves state, history and locks as they were; a body that comes under a lock that has ended is kept
    /// before it is refused.
    pub async fn write_document(
        &self,
        caller: &Caller,
        name: &StateName,
        lock: WriteLock<'_>,
        body: Bytes,
        source: Source,
    ) -> Result<WriteReport, EngineError> {
        let began = Instant::now();
        let _large = self.admit_document(body.len()).await;
        let hashing = tokio::task::spawn_blocking({
            let body = body.clone();
            move || <[u8; 32]>::from(Sha256::digest(&body))
        });
        let mut document =
            tokio::task::block_in_place(|| tfstate::parse(&body).map(keep_whole_if_unindexable))?;
        // The task only hashes: it cannot fail but by a panic, which is carried on.
        let sha256 = hashing
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));

        let attempt = Attempt {
            engine: self,
            caller,
            name,
            lock,
            body: &body,
            sha256: &sha256,
            source,
        };
        let mut tries = Tries::default();
        let (written, commit) = loop {
            match attempt.run(&mut document).await {
                Err(error) if tries.another(&error).await => {}
                outcome => break outcome?,
            }
        };
        Ok(WriteReport {
            written,
            prepare: began.elapsed().saturating_sub(commit),
            commit,
        })
    }
}

/// The longest place of an instance, and name of an output, that an index row of Postgres holds beside workspace, state and
/// sequence number: 2,704 bytes in all.
const LONGEST_KEY_BYTES: usize = 2_000;

/// A document with a key that no index can hold is kept as it is, and has no rows.
pub(crate) fn keep_whole_if_unindexable(document: Document<'_>) -> Document<'_> {
    let Document::State(state) = document else {
        return document;
    };
    if is_indexable(&state) {
        return Document::State(state);
    }
    Document::Opaque(Opaque {
        reason: OpaqueReason::NotReadable(unindexable()),
        version: Some(4),
        serial: Some(state.serial),
        lineage: Some(state.lineage),
        terraform_version: Some(state.terraform_version),
        ambiguous: state.ambiguous,
    })
}

/// Whether an index can hold every key of the state.
pub(crate) fn is_indexable(state: &State<'_>) -> bool {
    let places = state.instances.iter().map(|instance| instance.ord.len());
    let names = state.outputs.iter().map(|output| output.name.len());
    places
        .chain(names)
        .all(|length| length <= LONGEST_KEY_BYTES)
}

/// Why a state is kept whole that is not indexable.
pub(crate) fn unindexable() -> String {
    format!("an address or output name is longer than {LONGEST_KEY_BYTES} bytes")
}
