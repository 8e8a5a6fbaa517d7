//! The instances of a graph: one slot each in parallel arrays, chained by node.

use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::chunks::{Arena, Chunks, Span};
use super::texts::Texts;
use super::{GraphError, NodeId, Object, RowRef, Seq};

/// No slot.
const NONE: u32 = u32::MAX;

/// What a slot's `object` holds besides numbers of deposed keys.
const CURRENT: u32 = u32::MAX;
const SHELL: u32 = u32::MAX - 1;
/// The slot is free.
const FREE: u32 = u32::MAX - 2;

/// For so many changes a table of all instances is neither made nor copied: going through the instances of their nodes
/// costs less.
const FEW: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    /// The addresses, one after the other. Those of closed rows stay until the graph is packed again.
    text: Arena<String>,
    slots: Chunks<Slot>,
    free: Vec<u32>,
    /// The first slot of each node.
    first: Chunks<u32>,
    deposed_keys: Texts,
    /// Where each row is. A graph that was read from bytes or changed in a few rows has none until many rows are looked up
    /// in it: making it takes as long as reading all the rest, and most scopes ask by node.
    table: OnceLock<Arc<HashTable<u32>>>,
    hasher: DefaultHashBuilder,
}

/// One instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    address: Span,
    object: u32,
    pub(super) node: NodeId,
    pub(super) list: u32,
    previous: u32,
    next: u32,
    pub(super) born: Seq,
}

impl Instances {
    /// No instances, and a table for those to come.
    pub(super) fn empty() -> Self {
        Self {
            table: OnceLock::from(Arc::default()),
            ..Self::default()
        }
    }

    /// The same for instances that are appended and not looked for.
    pub(super) fn unindexed() -> Self {
        Self::default()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let table = self.table.get().map_or(0, |table| table.capacity());
        let words = self.free.capacity() + table;
        self.text.size_bytes(1)
            + self.slots.size_bytes()
            + self.first.size_bytes()
            + words * size_of::<u32>()
            + self.deposed_keys.size_bytes()
    }

    pub(super) fn row(&self, slot: &Slot) -> RowRef<'_> {
        row(&self.text, &self.deposed_keys, slot)
    }

    /// Every instance, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.object != FREE)
    }

    /// The instances of one node, in no order.
    pub(super) fn of(&self, node: NodeId) -> impl Iterator<Item = &Slot> {
        self.chain(node).map(|(_, slot)| slot)
    }

    /// The same with the numbers of their slots.
    fn chain(&self, node: NodeId) -> impl Iterator<Item = (u32, &Slot)> {
        let mut at = self.first.get(node.index()).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let id = at;
            let slot = self.slots.get(id as usize)?;
            at = slot.next;
            Some((id, slot))
        })
    }

    pub(super) fn insert(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: u32,
        born: Seq,
    ) -> Result<(), GraphError> {
        if self.find(row, Some(node)).is_some() {
            return Err(GraphError::Twice {
                row: row.to_string(),
            });
        }
        let id = self.append(row, node, list, born)?;
        let Self {
            text,
            slots,
            deposed_keys,
            table,
            hasher,
            ..
        } = self;
        if let Some(table) = table.get_mut() {
            let table = Arc::make_mut(table);
            let hash =
                |id: &u32| hasher.hash_one(self::row(text, deposed_keys, &slots[*id as usize]));
            table.insert_unique(hash(&id), id, hash);
        }
        Ok(())
    }

    /// Adds an instance that is not there, and answers its slot. A table of all instances does not hold it.
    pub(super) fn append(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: u32,
        born: Seq,
    ) -> Result<u32, GraphError> {
        let object = match row.object {
            Object::Current => CURRENT,
            Object::Shell => SHELL,
            Object::Deposed(key) => self.deposed_keys.intern(key)?,
        };
        let address = self.text.append(row.address);
        let address = address.ok_or(GraphError::TooLarge)?;
        while self.first.len() <= node.index() {
            self.first.push(NONE);
        }
        let next = self.first[node.index()];
        let slot = Slot {
            address,
            object,
            node,
            list,
            previous: NONE,
            next,
            born,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots.set(id as usize, slot);
                id
            }
            None if self.slots.len() < NONE as usize => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
            None => return Err(GraphError::TooLarge),
        };
        if let Some(after) = self.slots.get_mut(next as usize) {
            after.previous = id;
        }
        self.first.set(node.index(), id);
        Ok(id)
    }

    /// Takes an instance out; returns its slot as it was, or `None` if there is no such instance. `node` is the one it
    /// should be of.
    pub(super) fn remove(&mut self, row: RowRef<'_>, node: Option<NodeId>) -> Option<Slot> {
        let id = self.find(row, node).or_else(|| self.find(row, None))?;
        if let Some(table) = self.table.get_mut() {
            let hash = self.hasher.hash_one(row);
            let table = Arc::make_mut(table);
            let entry = table.find_entry(hash, |other| *other == id).ok()?;
            entry.remove();
        }
        let slot = self.slots[id as usize];
        match self.slots.get_mut(slot.previous as usize) {
            Some(before) => before.next = slot.next,
            None => self.first.set(slot.node.index(), slot.next),
        }
        if let Some(after) = self.slots.get_mut(slot.next as usize) {
            after.previous = slot.previous;
        }
        let freed = Slot {
            object: FREE,
            ..slot
        };
        self.slots.set(id as usize, freed);
        self.free.push(id);
        Some(slot)
    }

    pub(super) fn contains(&self, row: RowRef<'_>, node: NodeId) -> bool {
        self.find(row, Some(node)).is_some()
    }

    /// Makes ready for so many changes.
    pub(super) fn expect(&mut self, changes: usize) {
        if changes > FEW {
            self.table();
        } else {
            self.table.take();
        }
    }

    fn table(&self) -> &HashTable<u32> {
        self.table.get_or_init(|| {
            let hash = |id: &u32| self.hasher.hash_one(self.row(&self.slots[*id as usize]));
            let mut table = HashTable::with_capacity(self.len());
            let taken = (0_u32..).zip(self.slots.iter());
            for (id, _) in taken.filter(|(_, slot)| slot.object != FREE) {
                table.insert_unique(hash(&id), id, hash);
            }
            Arc::new(table)
        })
    }

    /// The slot of a row: by the table, or else among the instances of its node, or of all nodes where that is not known.
    fn find(&self, wanted: RowRef<'_>, node: Option<NodeId>) -> Option<u32> {
        if let Some(table) = self.table.get() {
            let is_it = |id: &u32| self.row(&self.slots[*id as usize]) == wanted;
            return table.find(self.hasher.hash_one(wanted), is_it).copied();
        }
        let is_it = |slot: &Slot| {
            slot.address.len() == wanted.address.len()
                && slot.object != FREE
                && self.row(slot) == wanted
        };
        match node {
            Some(node) => self.chain(node).find(|(_, slot)| is_it(slot)),
            None => (0_u32..)
                .zip(self.slots.iter())
                .find(|(_, slot)| is_it(slot)),
        }
        .map(|(id, _)| id)
    }
}

fn row<'t>(text: &'t Arena<String>, deposed_keys: &'t Texts, slot: &Slot) -> RowRef<'t> {
    let object = match slot.object {
        CURRENT => Object::Current,
        SHELL => Object::Shell,
        key => Object::Deposed(deposed_keys.get(key)),
    };
    let address = text.get(slot.address);
    RowRef { address, object }
}
