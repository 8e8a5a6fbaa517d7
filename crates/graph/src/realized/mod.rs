//! The realized graph: which resource blocks a state has instances of, and what these depend on.
//!
//! Nodes are config-level resources, managed and data, with all their instances, current and deposed,
//! in all module instances. Edges come from the recorded dependency lists. A graph belongs to one
//! version; [`RealizedGraph::patched`] takes it to the next at the cost of what changed.
//!
//! Not for: attribute values, and edges that only the configuration knows; a scope unites the two.

mod builder;
mod chunks;
mod instances;
mod lists;
mod neighbours;
mod reverse;
mod rows;
mod texts;

use std::sync::Arc;

use crate::address::{self, BlockMode, ConfigAddress};
use chunks::Chunks;
use instances::{Instances, Slot};
use lists::Lists;
use texts::Texts;

pub use builder::GraphBuilder;
pub use neighbours::{Neighbours, Reach};
pub(crate) use reverse::Csr;
pub use reverse::Dependents;
pub use rows::{InstanceRow, Object, Patch, RowRef, Seq};

/// Why rows make no graph. A graph that cannot be patched must be built anew from the store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    #[error("{row} occurs twice")]
    Twice { row: String },
    #[error("{row} is not part of the graph")]
    NotThere { row: String },
    #[error("{row} was born in version {born}, after version {seq}")]
    Unborn { row: String, born: Seq, seq: Seq },
    #[error("a change of version {from} does not fit the graph of version {seq}")]
    WrongVersion { from: Seq, seq: Seq },
    #[error("more rows or texts than a graph can number")]
    TooLarge,
}

/// A node of the graph: the number of its config-level address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An instance as the graph knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance<'g> {
    pub row: RowRef<'g>,
    /// The version that wrote it.
    pub born: Seq,
}

/// The dependency graph of one version of a state.
#[derive(Clone, Debug)]
pub struct RealizedGraph {
    seq: Seq,
    /// Config-level addresses; a number in here is a [`NodeId`].
    names: Texts,
    /// For each node what its address says.
    blocks: Chunks<Block>,
    /// Config-level module paths.
    modules: Texts,
    instances: Instances,
    lists: Lists,
    /// Rows closed since the graph was last packed: what they leave behind is still in memory.
    closed: usize,
    /// The same one in graphs of the same shape.
    shape: Arc<()>,
}

/// What the address of a node says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    /// The number of its module path.
    module: u32,
    /// `None` if the address cannot be read.
    mode: Option<BlockMode>,
}

impl RealizedGraph {
    /// The graph of a state without instances.
    pub fn empty(seq: Seq) -> Self {
        Self {
            seq,
            names: Texts::default(),
            blocks: Chunks::default(),
            modules: Texts::default(),
            instances: Instances::empty(),
            lists: Lists::default(),
            closed: 0,
            shape: Arc::default(),
        }
    }

    /// The same for a graph whose parts are appended, each known to be there once.
    pub(crate) fn unindexed(seq: Seq) -> Self {
        Self {
            instances: Instances::unindexed(),
            ..Self::empty(seq)
        }
    }

    /// Builds the graph of version `seq` from all rows that live in it, in any order.
    pub fn build<'r>(
        seq: Seq,
        rows: impl IntoIterator<Item = InstanceRow<'r>>,
    ) -> Result<Self, GraphError> {
        let mut builder = GraphBuilder::new(seq);
        for row in rows {
            builder.add(row)?;
        }
        Ok(builder.finish())
    }

    /// The graph one version later. Takes the graph with it, so that one half patched cannot be used.
    pub fn patched(mut self, patch: &Patch<'_>) -> Result<Self, GraphError> {
        if patch.from != self.seq || patch.to <= patch.from {
            let (from, seq) = (patch.from, self.seq);
            return Err(GraphError::WrongVersion { from, seq });
        }
        self.seq = patch.to;
        self.instances.expect(patch.closed.len() + patch.born.len());
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for row in patch.closed {
            let node = self.node_of(row.address);
            let Some(slot) = self.instances.remove(*row, node) else {
                return Err(GraphError::NotThere {
                    row: row.to_string(),
                });
            };
            gone.push((slot.node, slot.list, row.object == Object::Shell));
        }
        let mut list = Vec::new();
        for row in patch.born {
            let (node, list) = self.add_row(*row, &mut list)?;
            new.push((node, list, row.row.object == Object::Shell));
        }
        // Only now: until here the number of a list meant the same list.
        for (_, list, _) in &gone {
            self.lists.release(*list);
        }
        gone.sort_unstable();
        new.sort_unstable();
        if gone != new {
            self.shape = Arc::default();
        }
        self.closed += patch.closed.len();
        // Packing costs as much as building, so it waits until as many rows were closed: per closed
        // row that stays a constant.
        if self.closed > self.instances.len() + 1_000 {
            self = self.packed()?;
        }
        Ok(self)
    }

    /// Whether this graph came from the other one, or both from a third, by changes that left every block with the instances
    /// and the dependencies it had: what follows from these alone is the same for both.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shape, &other.shape)
    }

    /// The version this is the graph of.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// How many objects and shells the state has.
    pub fn instance_count(&self) -> usize {
        self.instances.len()
    }

    /// How much memory the graph takes, about.
    pub fn size_bytes(&self) -> usize {
        self.names.size_bytes()
            + self.modules.size_bytes()
            + self.blocks.size_bytes()
            + self.instances.size_bytes()
            + self.lists.size_bytes()
    }

    /// The managed blocks that the state has an object of, sorted.
    pub fn managed_blocks(&self) -> Vec<&str> {
        let has_object = |slot: &&Slot| {
            self.mode(slot.node) == Some(BlockMode::Managed)
                && self.instances.row(slot).object != Object::Shell
        };
        self.sorted_names(
            self.instances
                .iter()
                .filter(has_object)
                .map(|slot| slot.node),
        )
    }

    /// Every instance, in no order.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'_>> {
        self.instances.iter().map(|slot| self.instance(slot))
    }

    /// All objects and shells of a block, in all module instances, in no order.
    pub fn instances_of(&self, block: &ConfigAddress) -> impl Iterator<Item = Instance<'_>> {
        let node = self.names.find(block.as_str()).map(NodeId);
        node.into_iter().flat_map(|node| self.instances_at(node))
    }

    /// Whether the state has a current object at this address.
    pub(crate) fn has_object(&self, address: &tfstate::Address) -> bool {
        let node = self.find_node(&address.config_address());
        let text = address.to_string();
        let row = RowRef {
            address: &text,
            object: Object::Current,
        };
        node.is_some_and(|node| self.instances.contains(row, node))
    }

    /// The blocks that instances of `block` are recorded to depend on, sorted.
    pub fn dependencies_of(&self, block: &ConfigAddress) -> Vec<&str> {
        let node = self.names.find(block.as_str()).map(NodeId);
        let lists = node.into_iter().flat_map(|node| self.lists_of(node));
        self.sorted_names(lists.flatten().copied())
    }

    /// The blocks with an instance that is recorded to depend on `block`, sorted. Reads the whole
    /// graph.
    pub fn dependents_of(&self, block: &ConfigAddress) -> Vec<&str> {
        let Some(node) = self.names.find(block.as_str()).map(NodeId) else {
            return Vec::new();
        };
        let depends = |slot: &&Slot| self.lists.get(slot.list).binary_search(&node).is_ok();
        let dependents = self.instances.iter().filter(depends).map(|slot| slot.node);
        self.sorted_names(dependents)
    }

    fn sorted_names(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<&str> {
        let mut names: Vec<&str> = nodes.map(|node| self.name(node)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Adds an instance; returns its node and the number of its dependency list.
    fn add_row(
        &mut self,
        row: InstanceRow<'_>,
        list: &mut Vec<NodeId>,
    ) -> Result<(NodeId, u32), GraphError> {
        list.clear();
        for dependency in row.dependencies {
            list.push(self.dependency(dependency)?);
        }
        let node = self.node_named(row.config_address)?;
        let list = self.add_first(row.row, node, list, row.born)?;
        Ok((node, list))
    }

    /// Adds an instance that is a user of `list` already.
    fn add_with(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: u32,
        born: Seq,
    ) -> Result<(), GraphError> {
        if born > self.seq {
            let (row, seq) = (row.to_string(), self.seq);
            return Err(GraphError::Unborn { row, born, seq });
        }
        self.instances.insert(row, node, list, born)
    }

    /// Adds an instance; returns the number of its dependency list. Sorts and dedups `list`.
    fn add_first(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: &mut Vec<NodeId>,
        born: Seq,
    ) -> Result<u32, GraphError> {
        let list = self.lists.share(list)?;
        self.add_with(row, node, list, born)?;
        Ok(list)
    }

    /// Appends an instance with a list that no other has, sorted; returns its number.
    pub(crate) fn append_first(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: &[NodeId],
        born: Seq,
    ) -> Result<u32, GraphError> {
        let list = self.lists.append(list)?;
        self.instances.append(row, node, list, born)?;
        Ok(list)
    }

    /// Appends an instance with the dependency list of another one.
    pub(crate) fn append_another(
        &mut self,
        row: RowRef<'_>,
        node: NodeId,
        list: u32,
        born: Seq,
    ) -> Result<(), GraphError> {
        self.lists.share_again(list);
        self.instances.append(row, node, list, born)?;
        Ok(())
    }

    /// Has the lists found that were appended. False if two of them are equal.
    pub(crate) fn index_lists(&mut self) -> bool {
        self.lists.index()
    }

    /// The node that a recorded dependency means. Old versions of Terraform recorded instances.
    fn dependency(&mut self, text: &str) -> Result<NodeId, GraphError> {
        if let Some(known) = self.names.find(text) {
            return Ok(NodeId(known));
        }
        if address::parts(text).is_none()
            && let Ok(instance) = text.parse::<tfstate::Address>()
        {
            return self.node_named(&instance.config_address());
        }
        self.node_named(text)
    }

    /// The node that an instance of this address should be of.
    fn node_of(&self, instance: &str) -> Option<NodeId> {
        let address = instance.parse::<tfstate::Address>().ok()?;
        self.find_node(&address.config_address())
    }

    /// The node of a config-level address, which is made if there is none.
    fn node_named(&mut self, name: &str) -> Result<NodeId, GraphError> {
        let node = self.names.intern(name)?;
        if node as usize == self.blocks.len() {
            self.add_block(name)?;
        }
        Ok(NodeId(node))
    }

    /// Appends a node whose name no other has.
    pub(crate) fn append_node(&mut self, name: &str) -> Result<(), GraphError> {
        self.names.append(name)?;
        self.add_block(name)
    }

    /// Has the nodes found that were appended.
    pub(crate) fn index_nodes(&mut self) {
        self.names.index();
    }

    fn add_block(&mut self, name: &str) -> Result<(), GraphError> {
        let parts = address::parts(name);
        let module = parts.map_or("", |parts| parts.module);
        // Names that follow each other mostly stand in one module.
        let before = self.blocks.last().map(|block| block.module);
        let module = match before.filter(|before| self.modules.get(*before) == module) {
            Some(before) => before,
            None => self.modules.intern(module)?,
        };
        let mode = parts.map(|parts| parts.mode);
        self.blocks.push(Block { module, mode });
        Ok(())
    }

    /// The same graph without what closed rows left behind.
    fn packed(self) -> Result<Self, GraphError> {
        let mut packed = Self::empty(self.seq);
        let mut list = Vec::new();
        for slot in self.instances.iter() {
            list.clear();
            for dependency in self.lists.get(slot.list) {
                list.push(packed.node_named(self.name(*dependency))?);
            }
            let node = packed.node_named(self.name(slot.node))?;
            packed.add_first(self.instances.row(slot), node, &mut list, slot.born)?;
        }
        Ok(packed)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.names.find(name).map(NodeId)
    }

    pub(crate) fn name(&self, node: NodeId) -> &str {
        self.names.get(node.0)
    }

    /// The mode of a node's block; `None` if its address cannot be read.
    pub(crate) fn mode(&self, node: NodeId) -> Option<BlockMode> {
        self.blocks[node.index()].mode
    }

    /// The nodes of all blocks in a module and the modules beneath it.
    pub(crate) fn nodes_within(&self, module: &str) -> impl Iterator<Item = NodeId> {
        let known = 0..u32::try_from(self.modules.len()).unwrap_or(u32::MAX);
        let within: Vec<bool> = known
            .map(|id| address::is_within(self.modules.get(id), module))
            .collect();
        let nodes = (0_u32..).zip(self.blocks.iter());
        nodes
            .filter(move |(_, block)| block.mode.is_some() && within[block.module as usize])
            .map(|(node, _)| NodeId(node))
    }

    pub(crate) fn instances_at(&self, node: NodeId) -> impl Iterator<Item = Instance<'_>> {
        self.instances.of(node).map(|slot| self.instance(slot))
    }

    /// The instances of a node, each with the number of its dependency list, in no order.
    pub(crate) fn rows_at(&self, node: NodeId) -> impl Iterator<Item = (Instance<'_>, u32)> {
        let slots = self.instances.of(node);
        slots.map(|slot| (self.instance(slot), slot.list))
    }

    /// The different dependency lists of a node's instances. One may come more than once.
    pub(crate) fn lists_of(&self, node: NodeId) -> impl Iterator<Item = &[NodeId]> {
        let mut before = None;
        let lists = self.instances.of(node).map(|slot| slot.list);
        lists
            .filter(move |list| before.replace(*list) != Some(*list))
            .map(|list| self.lists.get(list))
    }

    /// Node and number of the dependency list of every instance, in no order.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (NodeId, u32)> {
        self.instances.iter().map(|slot| (slot.node, slot.list))
    }

    pub(crate) fn list_slots(&self) -> usize {
        self.lists.slots()
    }

    pub(crate) fn list(&self, list: u32) -> &[NodeId] {
        self.lists.get(list)
    }

    fn instance(&self, slot: &Slot) -> Instance<'_> {
        let row = self.instances.row(slot);
        Instance {
            row,
            born: slot.born,
        }
    }
}
