//! Who depends on what a scope writes, as far as the state records it.

use std::collections::BTreeSet;

use crate::realized::NodeId;
use crate::{Dependents, RealizedGraph};

/// The same as [`dependents`] without the graph backwards: one pass over the graph, which is less than making that.
pub fn dependents_at_once(graph: &RealizedGraph, targets: &[Target]) -> Vec<String> {
    let mut meant = vec![false; graph.node_count()];
    for node in targets.iter().flat_map(|target| nodes_of(graph, target)) {
        meant[node.index()] = true;
    }
    let numbers = 0..u32::try_from(graph.list_slots()).unwrap_or(u32::MAX);
    let names_one: Vec<bool> = numbers
        .map(|list| graph.list(list).iter().any(|node| meant[node.index()]))
        .collect();
    let mut found = vec![false; graph.node_count()];
    for (node, list) in graph.uses() {
        found[node.index()] |= names_one[list as usize] && !meant[node.index()];
    }
    let found = (0_u32..).zip(found).filter(|(_, found)| *found);
    let mut names: Vec<String> = found
        .map(|(node, _)| graph.name(NodeId(node)).to_owned())
        .collect();
    names.sort_unstable();
    names
}

use super::Target;

/// The blocks that are recorded to depend on something that `targets` mean and that none of them means, sorted. Recorded
/// dependencies are transitive, so indirect dependents are among them. `dependents` must be of the same graph.
pub fn dependents(
    graph: &RealizedGraph,
    dependents: &Dependents,
    targets: &[Target],
) -> Vec<String> {
    let mut meant = vec![false; graph.node_count()];
    let mut nodes = Vec::new();
    for node in targets.iter().flat_map(|target| nodes_of(graph, target)) {
        if !std::mem::replace(&mut meant[node.index()], true) {
            nodes.push(node);
        }
    }
    let mut seen = vec![false; graph.list_slots()];
    let mut found = BTreeSet::new();
    for list in nodes.iter().flat_map(|node| dependents.lists_with(*node)) {
        if !std::mem::replace(&mut seen[*list as usize], true) {
            let outside = dependents
                .nodes_with(*list)
                .filter(|node| !meant[node.index()]);
            found.extend(outside.map(|node| graph.name(node)));
        }
    }
    found.into_iter().map(str::to_owned).collect()
}

/// The blocks that a target means, keys aside.
pub(super) fn nodes_of(graph: &RealizedGraph, target: &Target) -> Vec<NodeId> {
    match target.block() {
        Some(block) => graph.find_node(block.as_str()).into_iter().collect(),
        None => graph
            .nodes_within(target.config_module().as_str())
            .collect(),
    }
}
