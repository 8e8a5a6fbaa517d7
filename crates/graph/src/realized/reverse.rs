//! The graph backwards: who depends on a node. Made when it is needed, in one pass over the graph.
//!
//! Only destroying asks for dependents, so a graph does not pay for keeping this at each patch.

use super::{NodeId, RealizedGraph};

/// For each node the nodes that directly depend on it, by way of the lists they share.
#[derive(Debug)]
pub struct Dependents {
    /// The lists each node is a member of.
    lists_with: Csr,
    /// The nodes that have each list.
    nodes_with: Csr,
}

/// Lists of numbers, one for each index, in two flat arrays.
#[derive(Debug)]
pub(crate) struct Csr {
    ends: Vec<u32>,
    values: Vec<u32>,
}

impl Dependents {
    /// Reads the whole graph.
    pub fn of(graph: &RealizedGraph) -> Self {
        // Instances come in no order, but most resources have one list: keeping the last one of each
        // node leaves few pairs that are there twice.
        let mut last = vec![u32::MAX; graph.node_count()];
        let mut pairs = Vec::new();
        let mut in_use = vec![false; graph.list_slots()];
        for (node, list) in graph.uses() {
            in_use[list as usize] = true;
            if last[node.index()] != list {
                last[node.index()] = list;
                pairs.push((list, node.0));
            }
        }
        let used = (0_u32..).zip(&in_use).filter(|(_, used)| **used);
        let members = used.flat_map(|(list, _)| {
            let members = graph.list(list).iter();
            members.map(move |member| (member.0, list))
        });
        let members: Vec<(u32, u32)> = members.collect();
        Self {
            lists_with: Csr::new(graph.node_count(), &members),
            nodes_with: Csr::new(graph.list_slots(), &pairs),
        }
    }

    /// How much memory this takes, about.
    pub fn size_bytes(&self) -> usize {
        self.lists_with.size_bytes() + self.nodes_with.size_bytes()
    }

    /// The numbers of the lists that `node` is a member of.
    pub(crate) fn lists_with(&self, node: NodeId) -> &[u32] {
        self.lists_with.get(node.index())
    }

    /// The nodes that have this list.
    pub(crate) fn nodes_with(&self, list: u32) -> impl Iterator<Item = NodeId> {
        self.nodes_with
            .get(list as usize)
            .iter()
            .copied()
            .map(NodeId)
    }
}

impl Csr {
    /// Sorts pairs of index and value by their index; indexes must be below `len`.
    pub(crate) fn new(len: usize, pairs: &[(u32, u32)]) -> Self {
        let mut ends = vec![0_u32; len];
        for (index, _) in pairs {
            ends[*index as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            let count = *end;
            *end = total;
            total += count;
        }
        let mut values = vec![0; pairs.len()];
        for (index, value) in pairs {
            let place = &mut ends[*index as usize];
            values[*place as usize] = *value;
            *place += 1;
        }
        Self { ends, values }
    }

    fn size_bytes(&self) -> usize {
        (self.ends.capacity() + self.values.capacity()) * size_of::<u32>()
    }

    pub(crate) fn get(&self, index: usize) -> &[u32] {
        let start = match index {
            0 => 0,
            _ => self.ends.get(index - 1).copied().unwrap_or_default(),
        };
        let end = self.ends.get(index).copied().unwrap_or(start);
        &self.values[start as usize..end as usize]
    }
}
