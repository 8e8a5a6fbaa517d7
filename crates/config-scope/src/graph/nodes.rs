//! Gives every declaration of every module a node.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use super::{Graph, NodeId, edges};
use crate::{
    address::Mode,
    facts::ProviderName,
    module::{Loaded, ModuleCall},
    source::SourcePath,
};

/// What a node stands for. All but resources only pass dependencies on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    /// Index into the configuration's resources.
    Resource(usize),
    /// A variable of the root module, by name.
    RootVariable(String),
    /// A file that expressions read.
    File(SourcePath),
    /// Any file beneath a directory.
    FilesIn(SourcePath),
    Other,
}

/// The nodes of one module.
#[derive(Debug)]
pub(crate) struct ModuleNodes {
    /// What everything in the module waits for.
    pub(super) expansion: NodeId,
    /// Everything in the module, for references to the module as a whole.
    pub(crate) whole: NodeId,
    pub(crate) resources: BTreeMap<(Mode, String, String), NodeId>,
    pub(crate) locals: HashMap<String, NodeId>,
    pub(crate) variables: HashMap<String, NodeId>,
    pub(crate) outputs: HashMap<String, NodeId>,
    pub(crate) providers: HashMap<ProviderName, NodeId>,
    pub(super) checks: HashMap<String, NodeId>,
    pub(super) actions: HashMap<(String, String), NodeId>,
    /// Calls whose module is not known, standing for the call's own arguments.
    pub(super) unknown_calls: HashMap<String, NodeId>,
}

/// The graph, the nodes of each module, and the module and key of each resource.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) graph: Graph,
    pub(crate) modules: Vec<ModuleNodes>,
    pub(crate) resources: Vec<(usize, (Mode, String, String), NodeId)>,
}

/// Makes the nodes of every module, then the edges between them.
pub(crate) fn build(loaded: &Loaded) -> Built {
    let mut graph = Graph::default();
    let mut resources = Vec::new();
    let mut modules = Vec::with_capacity(loaded.modules.len());
    for (index, module) in loaded.modules.iter().enumerate() {
        let facts = &module.facts;
        let calls = module.calls.iter();
        let unknown_calls = calls.filter(|(_, call)| matches!(call, ModuleCall::Unknown));
        let is_root = module.parent.is_none();
        let variables = facts.variables.keys().map(|name| {
            let root_variable = || NodeKind::RootVariable(name.clone());
            let kind = if is_root {
                root_variable()
            } else {
                NodeKind::Other
            };
            (name.clone(), graph.add(kind))
        });
        let variables = variables.collect();
        let own = facts.resources.keys().map(|key| {
            let id = graph.add(NodeKind::Resource(resources.len()));
            resources.push((index, key.clone(), id));
            (key.clone(), id)
        });
        modules.push(ModuleNodes {
            resources: own.collect(),
            variables,
            expansion: graph.add(NodeKind::Other),
            whole: graph.add(NodeKind::Other),
            locals: others(&mut graph, facts.locals.keys()),
            outputs: others(&mut graph, facts.outputs.keys()),
            providers: others(&mut graph, facts.providers.keys()),
            checks: others(&mut graph, facts.checks.keys()),
            actions: others(&mut graph, facts.actions.keys()),
            unknown_calls: others(&mut graph, unknown_calls.map(|(name, _)| name)),
        });
    }
    edges::connect(loaded, &modules, &mut graph);
    Built {
        graph,
        modules,
        resources,
    }
}

/// A node for each of `keys`.
fn others<'k, K: Clone + Eq + Hash + 'k>(
    graph: &mut Graph,
    keys: impl Iterator<Item = &'k K>,
) -> HashMap<K, NodeId> {
    keys.map(|key| (key.clone(), graph.add(NodeKind::Other)))
        .collect()
}

impl ModuleNodes {
    /// Every node of the module that waits for its expansion and is part of the whole.
    pub(super) fn all(&self) -> impl Iterator<Item = NodeId> {
        self.resources
            .values()
            .chain(self.locals.values())
            .chain(self.variables.values())
            .chain(self.outputs.values())
            .chain(self.providers.values())
            .chain(self.checks.values())
            .chain(self.actions.values())
            .chain(self.unknown_calls.values())
            .copied()
    }
}
