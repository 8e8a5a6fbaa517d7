//! Dependency lists: each different list once, however many instances have it.
//!
//! Terraform writes the whole, transitive list into every instance, and the instances of one resource
//! mostly share one. Kept singly, lists would be nearly all of a graph's memory.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::chunks::{Arena, Chunks, Span};
use super::{GraphError, NodeId};

/// Lists of nodes with numbers, counted by their users.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    members: Arena<Vec<NodeId>>,
    /// Where each list is.
    spans: Chunks<Span>,
    users: Chunks<u32>,
    free: Vec<u32>,
    table: Arc<HashTable<u32>>,
    hasher: DefaultHashBuilder,
}

impl Lists {
    /// How many numbers are given out or free for reuse; an upper bound for indexing by list.
    pub(super) fn slots(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let words = self.free.capacity() + self.table.capacity();
        self.members.size_bytes(size_of::<NodeId>())
            + self.spans.size_bytes()
            + self.users.size_bytes()
            + words * size_of::<u32>()
    }

    pub(super) fn get(&self, list: u32) -> &[NodeId] {
        members(&self.members, &self.spans, list)
    }

    /// The number of the list with these members, with one more user. Sorts and dedups `list`.
    pub(super) fn share(&mut self, list: &mut Vec<NodeId>) -> Result<u32, GraphError> {
        list.sort_unstable();
        list.dedup();
        let Self {
            members: all,
            spans,
            users,
            free,
            table,
            hasher,
        } = self;
        let hash = hasher.hash_one(list.as_slice());
        if let Some(known) = table.find(hash, |id| members(all, spans, *id) == list.as_slice()) {
            let known = *known;
            users.set(known as usize, users[known as usize] + 1);
            return Ok(known);
        }
        let span = all.append(list).ok_or(GraphError::TooLarge)?;
        let id = if let Some(id) = free.pop() {
            spans.set(id as usize, span);
            users.set(id as usize, 1);
            id
        } else {
            let id = u32::try_from(spans.len()).map_err(|_| GraphError::TooLarge)?;
            spans.push(span);
            users.push(1);
            id
        };
        let table = Arc::make_mut(table);
        table.insert_unique(hash, id, |id| hasher.hash_one(members(all, spans, *id)));
        Ok(id)
    }

    /// Numbers a list that is sorted and that no other is equal to, with one user. Nobody finds it before [`Self::index`].
    pub(super) fn append(&mut self, list: &[NodeId]) -> Result<u32, GraphError> {
        let span = self.members.append(list).ok_or(GraphError::TooLarge)?;
        let id = u32::try_from(self.spans.len()).map_err(|_| GraphError::TooLarge)?;
        self.spans.push(span);
        self.users.push(1);
        Ok(id)
    }

    /// Has everything found that was appended to lists that were empty. False if two of them are equal.
    pub(super) fn index(&mut self) -> bool {
        let Self {
            members: all,
            spans,
            table,
            hasher,
            ..
        } = self;
        let list = |id: &u32| members(all, spans, *id);
        let hash = |id: &u32| hasher.hash_one(list(id));
        let table = Arc::make_mut(table);
        table.reserve(spans.len(), hash);
        for id in (0..spans.len()).map(|id| id as u32) {
            let hashed = hash(&id);
            if table
                .find(hashed, |other| list(other) == list(&id))
                .is_some()
            {
                return false;
            }
            table.insert_unique(hashed, id, hash);
        }
        true
    }

    /// Counts one more user of a list.
    pub(super) fn share_again(&mut self, list: u32) {
        let users = self.users[list as usize];
        self.users.set(list as usize, users + 1);
    }

    /// Takes one user from a list. The members of an unused list stay behind until the graph is
    /// packed again.
    pub(super) fn release(&mut self, list: u32) {
        let users = self.users[list as usize] - 1;
        self.users.set(list as usize, users);
        if users == 0 {
            let hash = self.hasher.hash_one(self.get(list));
            if let Ok(entry) = Arc::make_mut(&mut self.table).find_entry(hash, |id| *id == list) {
                entry.remove();
            }
            self.spans.set(list as usize, Span::default());
            self.free.push(list);
        }
    }
}

fn members<'l>(all: &'l Arena<Vec<NodeId>>, spans: &Chunks<Span>, list: u32) -> &'l [NodeId] {
    all.get(spans[list as usize])
}
