//! What a block depends on and what depends on it, for people who look at a graph.

use std::collections::BTreeSet;

use super::{Dependents, NodeId, RealizedGraph};
use crate::address::ConfigAddress;

/// How far to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Neighbours that are not reached by way of another one. Terraform records whole closures, so a reference that is
    /// also reached another way does not show.
    Direct,
    Transitive,
}

/// The blocks around one block, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Neighbours {
    pub dependencies: Vec<String>,
    pub dependents: Vec<String>,
}

impl RealizedGraph {
    /// The neighbours of a block; `dependents` must be of this graph. None for a block that the state does not know.
    pub fn neighbours(
        &self,
        dependents: &Dependents,
        block: &ConfigAddress,
        reach: Reach,
    ) -> Neighbours {
        let Some(node) = self.find_node(block.as_str()) else {
            return Neighbours::default();
        };
        let dependencies_of = |node| self.lists_of(node).flatten().copied().collect::<Vec<_>>();
        let dependents_of = |node| {
            let lists = dependents.lists_with(node).iter();
            lists
                .flat_map(|list| dependents.nodes_with(*list))
                .collect::<Vec<_>>()
        };
        let neighbours = |next: &dyn Fn(NodeId) -> Vec<NodeId>| {
            let found = match reach {
                Reach::Direct => direct(node, next),
                Reach::Transitive => transitive(node, next),
            };
            let mut names: Vec<String> = found
                .into_iter()
                .map(|node| self.name(node).to_owned())
                .collect();
            names.sort_unstable();
            names
        };
        Neighbours {
            dependencies: neighbours(&dependencies_of),
            dependents: neighbours(&dependents_of),
        }
    }
}

/// All that is reached from a node, without the node itself.
fn transitive(from: NodeId, next: &dyn Fn(NodeId) -> Vec<NodeId>) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut open = next(from);
    while let Some(node) = open.pop() {
        if node != from && found.insert(node) {
            open.extend(next(node));
        }
    }
    found
}

/// What is one step away and not two.
fn direct(from: NodeId, next: &dyn Fn(NodeId) -> Vec<NodeId>) -> BTreeSet<NodeId> {
    let near: BTreeSet<NodeId> = next(from)
        .into_iter()
        .filter(|node| *node != from)
        .collect();
    let mut beyond = BTreeSet::new();
    for node in &near {
        beyond.extend(next(*node).into_iter().filter(|further| further != node));
    }
    near.difference(&beyond).copied().collect()
}
