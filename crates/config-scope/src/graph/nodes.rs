//! Gives every declaration of every module a node.

use std::collections::{BTreeMap, HashMap};

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

pub(crate) fn build(loaded: &Loaded) -> Built {
    let mut graph = Graph::default();
    let mut resources = Vec::new();
    let mut modules = Vec::with_capacity(loaded.modules.len());
    for (index, module) in loaded.modules.iter().enumerate() {
        let facts = &module.facts;
        let mut add = || graph.add(NodeKind::Other);
        let expansion = add();
        let whole = add();
        let named = |names: Vec<&String>, graph: &mut Graph| -> HashMap<String, NodeId> {
            names
                .into_iter()
                .map(|name| (name.clone(), graph.add(NodeKind::Other)))
                .collect()
        };
        let locals = named(facts.locals.keys().collect(), &mut graph);
        let outputs = named(facts.outputs.keys().collect(), &mut graph);
        let checks = named(facts.checks.keys().collect(), &mut graph);
        let unknown = module
            .calls
            .iter()
            .filter(|(_, call)| matches!(call, ModuleCall::Unknown));
        let unknown_calls = named(unknown.map(|(name, _)| name).collect(), &mut graph);
        let variables = facts.variables.keys().map(|name| {
            let kind = match module.parent {
                None => NodeKind::RootVariable(name.clone()),
                Some(_) => NodeKind::Other,
            };
            (name.clone(), graph.add(kind))
        });
        let variables = variables.collect();
        let providers = facts.providers.keys();
        let providers = providers
            .map(|name| (name.clone(), graph.add(NodeKind::Other)))
            .collect();
        let actions = facts.actions.keys();
        let actions = actions
            .map(|key| (key.clone(), graph.add(NodeKind::Other)))
            .collect();
        let mut own = BTreeMap::new();
        for key in facts.resources.keys() {
            let id = graph.add(NodeKind::Resource(resources.len()));
            resources.push((index, key.clone(), id));
            own.insert(key.clone(), id);
        }
        modules.push(ModuleNodes {
            expansion,
            whole,
            resources: own,
            locals,
            variables,
            outputs,
            providers,
            checks,
            actions,
            unknown_calls,
        });
    }
    edges::connect(loaded, &modules, &mut graph);
    Built {
        graph,
        modules,
        resources,
    }
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
