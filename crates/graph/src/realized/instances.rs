//! The instances of a graph: one slot each in parallel arrays, chained by node.

use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::texts::Texts;
use super::{GraphError, NodeId, Object, RowRef, Seq};

/// No slot.
const NONE: u32 = u32::MAX;

/// What a slot's `object` holds besides numbers of deposed keys.
const CURRENT: u32 = u32::MAX;
const SHELL: u32 = u32::MAX - 1;
/// The slot is free.
const FREE: u32 = u32::MAX - 2;

/// So many look-ups one after the other cost less than a table of all instances.
const FEW: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    /// The addresses, one after the other. Those of closed rows stay until the graph is packed again.
    text: String,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The first slot of each node.
    first: Vec<u32>,
    deposed_keys: Texts,
    /// Where each row is. A graph that was read from bytes has none until many rows are looked up in it: making it takes
    /// as long as reading all the rest, and most scopes ask by node.
    table: OnceLock<HashTable<u32>>,
    hasher: DefaultHashBuilder,
}

/// One instance. Plain numbers, so that a whole graph is copied by a few block copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    start: u32,
    len: u32,
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
            table: OnceLock::from(HashTable::new()),
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
        let table = self.table.get().map_or(0, HashTable::capacity);
        let words = self.free.capacity() + self.first.capacity() + table;
        self.text.capacity()
            + self.slots.capacity() * size_of::<Slot>()
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
        let mut at = self.first.get(node.index()).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.next;
            Some(slot)
        })
    }

    pub(super) fn insert(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: u32,
        born: Seq,
    ) -> Result<(), GraphError> {
        if self.find(row).is_some() {
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
        let start = u32::try_from(self.text.len()).map_err(|_| GraphError::TooLarge)?;
        let len = u32::try_from(row.address.len()).map_err(|_| GraphError::TooLarge)?;
        self.text.push_str(row.address);
        if self.first.len() <= node.index() {
            self.first.resize(node.index() + 1, NONE);
        }
        let next = self.first[node.index()];
        let slot = Slot {
            start,
            len,
            object,
            node,
            list,
            previous: NONE,
            next,
            born,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
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
        self.first[node.index()] = id;
        Ok(id)
    }

    /// Takes an instance out; returns its slot as it was, or `None` if there is no such instance.
    pub(super) fn remove(&mut self, row: RowRef<'_>) -> Option<Slot> {
        let id = self.find(row)?;
        if let Some(table) = self.table.get_mut() {
            let hash = self.hasher.hash_one(row);
            let entry = table.find_entry(hash, |other| *other == id).ok()?;
            entry.remove();
        }
        let slot = self.slots[id as usize];
        match self.slots.get_mut(slot.previous as usize) {
            Some(before) => before.next = slot.next,
            None => self.first[slot.node.index()] = slot.next,
        }
        if let Some(after) = self.slots.get_mut(slot.next as usize) {
            after.previous = slot.previous;
        }
        self.slots[id as usize].object = FREE;
        self.free.push(id);
        Some(slot)
    }

    pub(super) fn contains(&self, row: RowRef<'_>) -> bool {
        self.table();
        self.find(row).is_some()
    }

    /// Makes ready for so many look-ups.
    pub(super) fn expect(&self, lookups: usize) {
        if lookups > FEW {
            self.table();
        }
    }

    fn table(&self) -> &HashTable<u32> {
        self.table.get_or_init(|| {
            let hash = |id: &u32| self.hasher.hash_one(self.row(&self.slots[*id as usize]));
            let mut table = HashTable::with_capacity(self.len());
            let taken = (0_u32..).zip(&self.slots);
            for (id, _) in taken.filter(|(_, slot)| slot.object != FREE) {
                table.insert_unique(hash(&id), id, hash);
            }
            table
        })
    }

    fn find(&self, wanted: RowRef<'_>) -> Option<u32> {
        if let Some(table) = self.table.get() {
            let is_it = |id: &u32| self.row(&self.slots[*id as usize]) == wanted;
            return table.find(self.hasher.hash_one(wanted), is_it).copied();
        }
        let is_it = |slot: &Slot| {
            slot.len as usize == wanted.address.len()
                && slot.object != FREE
                && self.row(slot) == wanted
        };
        let place = self.slots.iter().position(is_it)?;
        Some(place as u32)
    }
}

fn row<'t>(text: &'t str, deposed_keys: &'t Texts, slot: &Slot) -> RowRef<'t> {
    let object = match slot.object {
        CURRENT => Object::Current,
        SHELL => Object::Shell,
        key => Object::Deposed(deposed_keys.get(key)),
    };
    let address = &text[slot.start as usize..][..slot.len as usize];
    RowRef { address, object }
}
