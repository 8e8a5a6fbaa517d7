//! The dependency graph of a configuration, and walks over it.
//!
//! Besides resources it has a node for everything that passes a dependency on: locals, variables,
//! outputs, provider configurations, checks, files that are read, and two for each module call,
//! one that its contents wait for (`count`, `for_each`, `depends_on`) and one that stands for all
//! of its contents. An edge leads from what needs to what is needed. Where Terraform's own graph
//! (`terraform graph`) has a path between two resources, this one has a path too.

mod edges;
mod nodes;
mod providers;

use std::sync::OnceLock;

pub(crate) use nodes::{ModuleNodes, NodeKind, build};

/// Index of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    kinds: Vec<NodeKind>,
    needs: Vec<Vec<NodeId>>,
    /// The edges turned round; made when first asked for.
    needed_by: OnceLock<Vec<Vec<NodeId>>>,
}

/// Which way to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Towards {
    Dependencies,
    Dependents,
}

impl Graph {
    fn add(&mut self, kind: NodeKind) -> NodeId {
        let id = NodeId(u32::try_from(self.kinds.len()).unwrap_or(u32::MAX));
        self.kinds.push(kind);
        self.needs.push(Vec::new());
        id
    }

    fn need(&mut self, from: NodeId, to: NodeId) {
        if from != to {
            self.needs[from.index()].push(to);
        }
    }

    pub(crate) fn kind(&self, id: NodeId) -> &NodeKind {
        &self.kinds[id.index()]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeKind)> {
        (0..).map(NodeId).zip(&self.kinds)
    }

    fn neighbours(&self, id: NodeId, towards: Towards) -> &[NodeId] {
        match towards {
            Towards::Dependencies => &self.needs[id.index()],
            Towards::Dependents => &self.needed_by()[id.index()],
        }
    }

    fn needed_by(&self) -> &[Vec<NodeId>] {
        self.needed_by.get_or_init(|| {
            let mut turned = vec![Vec::new(); self.needs.len()];
            for (from, needs) in (0..).map(NodeId).zip(&self.needs) {
                for to in needs {
                    turned[to.index()].push(from);
                }
            }
            turned
        })
    }

    /// Every node that can be reached from `seeds`, the seeds included.
    pub(crate) fn reach(
        &self,
        seeds: impl IntoIterator<Item = NodeId>,
        towards: Towards,
    ) -> Vec<NodeId> {
        self.walk(seeds, towards, |_| true)
    }

    /// The resources that `from` reaches without passing another resource.
    pub(crate) fn nearest_resources(&self, from: NodeId, towards: Towards) -> Vec<NodeId> {
        let mut found = self.walk([from], towards, |id| id == from || !self.is_resource(id));
        found.retain(|id| *id != from && self.is_resource(*id));
        found
    }

    pub(crate) fn is_resource(&self, id: NodeId) -> bool {
        matches!(self.kind(id), NodeKind::Resource(_))
    }

    fn walk(
        &self,
        seeds: impl IntoIterator<Item = NodeId>,
        towards: Towards,
        passes: impl Fn(NodeId) -> bool,
    ) -> Vec<NodeId> {
        let mut seen = vec![false; self.kinds.len()];
        let mut found = Vec::new();
        let mut todo: Vec<NodeId> = seeds.into_iter().collect();
        while let Some(id) = todo.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            found.push(id);
            if passes(id) {
                todo.extend(self.neighbours(id, towards));
            }
        }
        found
    }
}
