//! Interned texts: each text once in one buffer, known by a small number.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::GraphError;

/// Texts with numbers from 0 up, in the order of their first appearance. Texts are never removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    bytes: String,
    /// Where each text ends; it begins where the one before ends.
    ends: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.capacity() + (self.ends.capacity() + self.table.capacity()) * size_of::<u32>()
    }

    pub(crate) fn get(&self, id: u32) -> &str {
        text(&self.bytes, &self.ends, id)
    }

    pub(crate) fn find(&self, wanted: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(wanted);
        let is_it = |id: &u32| text(&self.bytes, &self.ends, *id) == wanted;
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
            ends,
            table,
            hasher,
        } = self;
        let rehash = |id: &u32| hasher.hash_one(text(bytes, ends, *id));
        table.insert_unique(hasher.hash_one(new), id, rehash);
        Ok(id)
    }

    /// Gives a number to a text that has none. Nobody finds it before [`Self::index`].
    pub(super) fn append(&mut self, new: &str) -> Result<u32, GraphError> {
        let id = u32::try_from(self.ends.len()).map_err(|_| GraphError::TooLarge)?;
        self.bytes.push_str(new);
        let end = u32::try_from(self.bytes.len()).map_err(|_| GraphError::TooLarge)?;
        self.ends.push(end);
        Ok(id)
    }

    /// Has everything found that was appended: one table of the right size is quicker than one that grows.
    pub(super) fn index(&mut self) {
        let Self {
            bytes,
            ends,
            table,
            hasher,
        } = self;
        let hash = |id: &u32| hasher.hash_one(text(bytes, ends, *id));
        table.reserve(ends.len() - table.len(), hash);
        for id in (table.len()..ends.len()).map(|id| id as u32) {
            table.insert_unique(hash(&id), id, hash);
        }
    }
}

fn text<'t>(bytes: &'t str, ends: &[u32], id: u32) -> &'t str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[start as usize..ends[id] as usize]
}
