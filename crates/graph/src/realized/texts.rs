//! Interned texts: each text once in one buffer, known by a small number.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::GraphError;
use super::chunks::{Arena, Chunks, Span};

/// Texts with numbers from 0 up, in the order of their first appearance. Texts are never removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    bytes: Arena<String>,
    /// Where each text is.
    spans: Chunks<Span>,
    table: Arc<HashTable<u32>>,
    hasher: DefaultHashBuilder,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.size_bytes(1)
            + self.spans.size_bytes()
            + self.table.capacity() * size_of::<u32>()
    }

    pub(crate) fn get(&self, id: u32) -> &str {
        self.bytes.get(self.spans[id as usize])
    }

    pub(crate) fn find(&self, wanted: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(wanted);
        let is_it = |id: &u32| self.get(*id) == wanted;
        self.table.find(hash, is_it).copied()
    }

    /// The number of `new`, which is given one if it has none.
    pub(crate) fn intern(&mut self, new: &str) -> Result<u32, GraphError> {
        if let Some(id) = self.find(new) {
            return Ok(id);
        }
        let id = self.append(new)?;
        let Self {
            bytes,
            spans,
            table,
            hasher,
        } = self;
        let rehash = |id: &u32| hasher.hash_one(bytes.get(spans[*id as usize]));
        Arc::make_mut(table).insert_unique(hasher.hash_one(new), id, rehash);
        Ok(id)
    }

    /// Gives a number to a text that has none. Nobody finds it before [`Self::index`].
    pub(super) fn append(&mut self, new: &str) -> Result<u32, GraphError> {
        let id = u32::try_from(self.spans.len()).map_err(|_| GraphError::TooLarge)?;
        let span = self.bytes.append(new).ok_or(GraphError::TooLarge)?;
        self.spans.push(span);
        Ok(id)
    }

    /// Has everything found that was appended: one table of the right size is quicker than one that grows.
    pub(super) fn index(&mut self) {
        let Self {
            bytes,
            spans,
            table,
            hasher,
        } = self;
        let hash = |id: &u32| hasher.hash_one(bytes.get(spans[*id as usize]));
        let table = Arc::make_mut(table);
        table.reserve(spans.len() - table.len(), hash);
        for id in (table.len()..spans.len()).map(|id| id as u32) {
            table.insert_unique(hash(&id), id, hash);
        }
    }
}
