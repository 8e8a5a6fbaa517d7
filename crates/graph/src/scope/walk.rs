//! Closures over the union of both graphs.

use crate::realized::NodeId;

use super::union::Union;

/// A set of nodes, and the order in which they were added.
pub(super) struct Nodes {
    marks: Vec<bool>,
    order: Vec<NodeId>,
}

impl Nodes {
    pub(super) fn none(union: &Union<'_>) -> Self {
        Self {
            marks: vec![false; union.len()],
            order: Vec::new(),
        }
    }

    /// Whether it was not there before.
    pub(super) fn add(&mut self, node: NodeId) -> bool {
        let is_new = !std::mem::replace(&mut self.marks[node.index()], true);
        if is_new {
            self.order.push(node);
        }
        is_new
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.marks[node.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.order.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

/// The nodes given and all that they depend on, and how many edges were looked at.
pub(super) fn with_dependencies(
    union: &Union<'_>,
    from: impl IntoIterator<Item = NodeId>,
) -> (Nodes, usize) {
    let mut nodes = Nodes::none(union);
    let mut edges = 0;
    for node in from {
        nodes.add(node);
    }
    let mut next = 0;
    while let Some(node) = nodes.order.get(next).copied() {
        next += 1;
        for dependency in union.dependencies(node) {
            edges += 1;
            nodes.add(dependency);
        }
    }
    (nodes, edges)
}

/// Adds all that depends on the nodes given, directly or not.
pub(super) fn add_dependents(union: &Union<'_>, nodes: &mut Nodes) {
    let recorded = union.recorded_dependents();
    let mut seen = vec![false; union.graph.list_slots()];
    let mut next = 0;
    while let Some(node) = nodes.order.get(next).copied() {
        next += 1;
        for list in recorded.lists_with(node) {
            if !std::mem::replace(&mut seen[*list as usize], true) {
                for dependent in recorded.nodes_with(*list) {
                    nodes.add(dependent);
                }
            }
        }
        for dependent in union.configured_dependents(node) {
            nodes.add(dependent);
        }
    }
}
