//! Dependency lists: each different list once, however many instances have it.
//!
//! Terraform writes the whole, transitive list into every instance, and the instances of one resource
//! mostly share one. Kept singly, lists would be nearly all of a graph's memory.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{GraphError, NodeId};

/// Lists of nodes with numbers, counted by their users.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    members: Vec<NodeId>,
    /// Start and length of each list.
    spans: Vec<(u32, u32)>,
    users: Vec<u32>,
    free: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Lists {
    /// How many numbers are given out or free for reuse; an upper bound for indexing by list.
    pub(super) fn slots(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let words = self.members.capacity()
            + 2 * self.spans.capacity()
            + self.users.capacity()
            + self.free.capacity()
            + self.table.capacity();
        words * size_of::<u32>()
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
            users[*known as usize] += 1;
            return Ok(*known);
        }
        let start = u32::try_from(all.len()).map_err(|_| GraphError::TooLarge)?;
        let len = u32::try_from(list.len()).map_err(|_| GraphError::TooLarge)?;
        all.extend_from_slice(list);
        let id = if let Some(id) = free.pop() {
            spans[id as usize] = (start, len);
            users[id as usize] = 1;
            id
        } else {
            let id = u32::try_from(spans.len()).map_err(|_| GraphError::TooLarge)?;
            spans.push((start, len));
            users.push(1);
            id
        };
        table.insert_unique(hash, id, |id| hasher.hash_one(members(all, spans, *id)));
        Ok(id)
    }

    /// Numbers a list that is sorted and that no other is equal to, with one user. Nobody finds it before [`Self::index`].
    pub(super) fn append(&mut self, list: &[NodeId]) -> Result<u32, GraphError> {
        let start = u32::try_from(self.members.len()).map_err(|_| GraphError::TooLarge)?;
        let len = u32::try_from(list.len()).map_err(|_| GraphError::TooLarge)?;
        let id = u32::try_from(self.spans.len()).map_err(|_| GraphError::TooLarge)?;
        self.members.extend_from_slice(list);
        self.spans.push((start, len));
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
        self.users[list as usize] += 1;
    }

    /// Takes one user from a list. The members of an unused list stay behind until the graph is
    /// packed again.
    pub(super) fn release(&mut self, list: u32) {
        self.users[list as usize] -= 1;
        if self.users[list as usize] == 0 {
            let hash = self.hasher.hash_one(self.get(list));
            if let Ok(entry) = self.table.find_entry(hash, |id| *id == list) {
                entry.remove();
            }
            self.spans[list as usize] = (0, 0);
            self.free.push(list);
        }
    }
}

fn members<'l>(all: &'l [NodeId], spans: &[(u32, u32)], list: u32) -> &'l [NodeId] {
    let (start, len) = spans[list as usize];
    &all[start as usize..][..len as usize]
}
