//! What a delta comes to, held against the rows that live at its places.

use std::collections::{BTreeMap, BTreeSet};

use store::{NewInstance, NewOutput, RecordedSource, WorkspaceTx};
use tfstate::{Digest, RowsDigest};
use uuid::Uuid;

use super::Delta;
use crate::EngineError;

/// Rows to close and rows to open, and what that does to counts and digests.
pub(super) struct Rows<'a> {
    pub(super) closed: Vec<Vec<u8>>,
    pub(super) born: Vec<NewInstance<'a>>,
    pub(super) outputs_closed: Vec<String>,
    pub(super) outputs_born: Vec<NewOutput<'a>>,
    removed: Vec<Digest>,
    added: Vec<Digest>,
    instances_added: i64,
}

const SHELL: &str = "shell";

impl<'a> Rows<'a> {
    /// Looks at each place: one that holds what it is to hold stays untouched.
    pub(super) async fn resolve(
        tx: &mut WorkspaceTx,
        state: Uuid,
        delta: &Delta<'a>,
    ) -> Result<Self, EngineError> {
        let mut rows = Self {
            closed: Vec::new(),
            born: Vec::new(),
            outputs_closed: Vec::new(),
            outputs_born: Vec::new(),
            removed: Vec::new(),
            added: Vec::new(),
            instances_added: 0,
        };
        let places: Vec<Vec<u8>> = delta
            .instances
            .iter()
            .map(|place| place.ord.clone())
            .collect();
        let live: BTreeMap<_, _> = store::live_rows_at(tx, state, &places)
            .await?
            .into_iter()
            .map(|row| (row.ord, (row.kind, row.digest)))
            .collect();
        for place in &delta.instances {
            rows.place(&place.ord, place.row.as_ref(), live.get(&place.ord));
        }
        let names: Vec<String> = delta
            .outputs
            .iter()
            .map(|place| place.name.clone())
            .collect();
        let live: BTreeMap<_, _> = store::live_outputs_named(tx, state, &names)
            .await?
            .into_iter()
            .map(|output| (output.name, output.digest))
            .collect();
        for place in &delta.outputs {
            rows.output(&place.name, place.row.as_ref(), live.get(&place.name));
        }
        Ok(rows)
    }

    fn place(
        &mut self,
        ord: &[u8],
        wanted: Option<&NewInstance<'a>>,
        live: Option<&(String, [u8; 32])>,
    ) {
        if wanted.map(|row| row.digest) == live.map(|(_, digest)| *digest) {
            return;
        }
        if let Some((kind, digest)) = live {
            self.closed.push(ord.to_vec());
            self.removed.push(Digest(*digest));
            self.instances_added -= i64::from(kind != SHELL);
        }
        if let Some(row) = wanted {
            self.born.push(row.clone());
            self.added.push(Digest(row.digest));
            self.instances_added += i64::from(row.kind != SHELL);
        }
    }

    fn output(&mut self, name: &str, wanted: Option<&NewOutput<'a>>, live: Option<&[u8; 32]>) {
        if wanted.map(|row| &row.digest) == live {
            return;
        }
        if let Some(digest) = live {
            self.outputs_closed.push(name.to_owned());
            self.removed.push(Digest(*digest));
        }
        if let Some(row) = wanted {
            self.outputs_born.push(row.clone());
            self.added.push(Digest(row.digest));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// How many places change.
    pub(super) fn count(&self) -> usize {
        self.closed.len().max(self.born.len())
            + self.outputs_closed.len().max(self.outputs_born.len())
    }

    /// By how much the number of instances grows.
    pub(super) fn added(&self) -> i64 {
        self.instances_added
    }

    /// The digest of the head's rows, brought up to date.
    pub(super) fn digest_after(&self, head: Option<&[u8]>) -> RowsDigest {
        let head = head.and_then(|bytes| bytes.try_into().ok());
        let mut digest = head.map_or(RowsDigest::ZERO, RowsDigest::from_bytes);
        self.removed.iter().for_each(|row| digest.remove(*row));
        self.added.iter().for_each(|row| digest.add(*row));
        digest
    }

    /// Those of the sources whose blocks are written here.
    pub(super) fn sources(&self, sources: &[RecordedSource]) -> Vec<RecordedSource> {
        let written: BTreeSet<&str> = self
            .born
            .iter()
            .map(|row| row.config_address.as_str())
            .collect();
        sources
            .iter()
            .filter(|source| written.contains(source.config_address.as_str()))
            .cloned()
            .collect()
    }
}
