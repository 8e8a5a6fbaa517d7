//! The union of two graphs: what instances are recorded to depend on, and what the configuration
//! says they will.
//!
//! Nodes of the realized graph keep their numbers; blocks that only the configuration has follow.

use std::collections::HashMap;

use crate::RealizedGraph;
use crate::address::{self, BlockMode, ConfigAddress};
use crate::realized::{Csr, Dependents, NodeId, Object};

use super::request::{ConfigNode, Configuration};
use super::{Repetition, Target};

pub(super) struct Union<'a> {
    pub(super) graph: &'a RealizedGraph,
    pub(super) configuration: Option<&'a Configuration>,
    /// Blocks of the configuration that the graph has no number for.
    only_config: Vec<&'a ConfigNode>,
    numbers: HashMap<&'a str, NodeId>,
    /// For each node that the configuration declares, its place there.
    declared: HashMap<NodeId, usize>,
    edges: Csr,
    backwards: Csr,
    /// References to blocks that neither the configuration nor the state has.
    dangling: Vec<(NodeId, &'a ConfigAddress)>,
}

impl<'a> Union<'a> {
    pub(super) fn new(graph: &'a RealizedGraph, configuration: Option<&'a Configuration>) -> Self {
        let mut union = Self {
            graph,
            configuration,
            only_config: Vec::new(),
            numbers: HashMap::new(),
            declared: HashMap::new(),
            edges: Csr::new(0, &[]),
            backwards: Csr::new(0, &[]),
            dangling: Vec::new(),
        };
        let nodes = configuration.map_or(&[][..], |configuration| &configuration.nodes);
        let mut from = Vec::with_capacity(nodes.len());
        for (place, node) in nodes.iter().enumerate() {
            let number = union.declare(node);
            union.declared.entry(number).or_insert(place);
            from.push(number);
        }
        let mut pairs = Vec::new();
        for (node, from) in nodes.iter().zip(from) {
            for dependency in &node.dependencies {
                match union.find(dependency.as_str()) {
                    Some(to) if union.exists(to) => pairs.push((from.0, to.0)),
                    _ => union.dangling.push((from, dependency)),
                }
            }
        }
        union.edges = Csr::new(union.len(), &pairs);
        let backwards: Vec<(u32, u32)> = pairs.iter().map(|(from, to)| (*to, *from)).collect();
        union.backwards = Csr::new(union.len(), &backwards);
        union
    }

    fn declare(&mut self, node: &'a ConfigNode) -> NodeId {
        let name = node.address.as_str();
        if let Some(known) = self.find(name) {
            return known;
        }
        let number = NodeId(u32::try_from(self.len()).unwrap_or(u32::MAX));
        self.only_config.push(node);
        self.numbers.insert(name, number);
        number
    }

    pub(super) fn len(&self) -> usize {
        self.graph.node_count() + self.only_config.len()
    }

    pub(super) fn find(&self, block: &str) -> Option<NodeId> {
        self.graph
            .find_node(block)
            .or_else(|| self.numbers.get(block).copied())
    }

    pub(super) fn name(&self, node: NodeId) -> &'a str {
        match self.only_config(node) {
            Some(block) => block.address.as_str(),
            None => self.graph.name(node),
        }
    }

    /// The config-level path of the module a node stands in; empty if its address cannot be read.
    pub(super) fn module(&self, node: NodeId) -> &'a str {
        address::parts(self.name(node)).map_or("", |parts| parts.module)
    }

    /// The mode of a node's block; `None` if its address cannot be read.
    pub(super) fn mode(&self, node: NodeId) -> Option<BlockMode> {
        match self.only_config(node) {
            Some(block) => Some(block.address.mode()),
            None => self.graph.mode(node),
        }
    }

    /// What the configuration says of a node; `None` if it does not declare it.
    pub(super) fn declaration(&self, node: NodeId) -> Option<&'a ConfigNode> {
        let place = self.declared.get(&node)?;
        self.configuration?.nodes.get(*place)
    }

    pub(super) fn repetition(&self, node: NodeId) -> Repetition {
        self.declaration(node)
            .map_or(Repetition::Unknown, |block| block.repetition)
    }

    /// Whether a node has an object in the state.
    pub(super) fn is_realized(&self, node: NodeId) -> bool {
        self.graph
            .instances_at(node)
            .any(|instance| instance.row.object != Object::Shell)
    }

    /// Whether a node is more than a name that something was once recorded to depend on.
    pub(super) fn exists(&self, node: NodeId) -> bool {
        self.declared.contains_key(&node) || self.graph.instances_at(node).next().is_some()
    }

    /// All nodes that a target means, keys aside.
    pub(super) fn nodes_of(&self, target: &Target) -> Vec<NodeId> {
        if let Target::Resource(_) = target {
            let node = target.block().and_then(|block| self.find(block.as_str()));
            return node.filter(|node| self.exists(*node)).into_iter().collect();
        }
        let module = target.config_module();
        let realized = self.graph.nodes_within(module.as_str());
        let declared = self.declared.keys().copied().filter(|node| {
            node.index() >= self.graph.node_count()
                && address::is_within(self.module(*node), module.as_str())
        });
        let mut nodes: Vec<NodeId> = realized
            .filter(|node| self.exists(*node))
            .chain(declared)
            .collect();
        nodes.sort_unstable();
        nodes
    }

    /// What a node directly depends on. One may come more than once.
    pub(super) fn dependencies(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let recorded = self.graph.lists_of(node).flatten().copied();
        let configured = self.edges.get(node.index()).iter().copied().map(NodeId);
        recorded.chain(configured)
    }

    /// What the configuration says depends directly on a node.
    pub(super) fn configured_dependents(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.backwards.get(node.index()).iter().copied().map(NodeId)
    }

    pub(super) fn recorded_dependents(&self) -> Dependents {
        Dependents::of(self.graph)
    }

    pub(super) fn dangling(&self) -> &[(NodeId, &'a ConfigAddress)] {
        &self.dangling
    }

    fn only_config(&self, node: NodeId) -> Option<&'a ConfigNode> {
        let place = node.index().checked_sub(self.graph.node_count())?;
        self.only_config.get(place).copied()
    }
}
