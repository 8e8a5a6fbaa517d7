//! Draws the edges: resolves every reference in the module it is written in.

use std::collections::HashMap;

use super::{Graph, ModuleNodes, NodeId, NodeKind, providers};
use crate::{
    facts::{CallFacts, Part, ProviderName},
    module::{Loaded, Module, ModuleCall},
    reference::{FileBase, FileRead, Reference},
    source::SourcePath,
};

/// Arguments of a module call that are no inputs: all instances wait for them.
const CALL_ARGUMENTS: &[&str] = &["count", "for_each", "depends_on", "lifecycle", "enabled"];

/// Arguments of a module call that depend on nothing.
const CALL_SETTINGS: &[&str] = &["source"];

pub(super) fn connect(loaded: &Loaded, nodes: &[ModuleNodes], graph: &mut Graph) {
    let mut edges = Edges {
        loaded,
        nodes,
        graph,
        files: HashMap::new(),
    };
    for index in 0..loaded.modules.len() {
        edges.module(index);
    }
}

struct Edges<'e> {
    loaded: &'e Loaded,
    nodes: &'e [ModuleNodes],
    graph: &'e mut Graph,
    files: HashMap<(SourcePath, bool), NodeId>,
}

impl<'e> Edges<'e> {
    fn module(&mut self, index: usize) {
        let (loaded, nodes) = (self.loaded, self.nodes);
        let (module, own) = (&loaded.modules[index], &nodes[index]);
        self.boundaries(index);
        for (name, local) in &module.facts.locals {
            self.refer(index, own.locals[name], &local.facts.references);
        }
        for (name, variable) in &module.facts.variables {
            self.refer(index, own.variables[name], &variable.facts.validation);
        }
        for (name, output) in &module.facts.outputs {
            self.refer(index, own.outputs[name], output.facts.body.references());
        }
        for (name, references) in &module.facts.checks {
            self.refer(index, own.checks[name], &references.facts);
        }
        for (name, provider) in &module.facts.providers {
            self.refer(index, own.providers[name], provider.facts.body.references());
        }
        for (key, action) in &module.facts.actions {
            self.refer(index, own.actions[key], action.facts.references());
            self.configured_by(index, own.actions[key], &providers::implied(&key.0));
        }
        for (key, resource) in &module.facts.resources {
            let id = own.resources[key];
            self.refer(index, id, resource.facts.body.references());
            let implied = || providers::implied(&resource.facts.kind);
            let provider = resource.facts.provider.clone().unwrap_or_else(implied);
            self.configured_by(index, id, &provider);
        }
        self.imports(index, module);
    }

    /// What stands between a module and its caller: expansion, inputs, and the whole.
    fn boundaries(&mut self, index: usize) {
        let (loaded, nodes) = (self.loaded, self.nodes);
        let (module, own) = (&loaded.modules[index], &nodes[index]);
        for id in own.all() {
            self.graph.need(id, own.expansion);
            self.graph.need(own.whole, id);
        }
        self.graph.need(own.whole, own.expansion);
        for (name, call) in &module.calls {
            let facts = &module.facts.calls[name].facts;
            match call {
                ModuleCall::Found(child) => {
                    self.graph.need(own.whole, nodes[*child].whole);
                    self.graph.need(nodes[*child].expansion, own.expansion);
                    self.inputs(index, *child, facts);
                }
                ModuleCall::Unknown => {
                    let id = own.unknown_calls[name];
                    self.refer(index, id, facts.body.references());
                    for (_, outside) in facts.providers.iter().flatten() {
                        self.configured_by(index, id, outside);
                    }
                }
            }
        }
    }

    fn inputs(&mut self, caller: usize, child: usize, call: &'e CallFacts) {
        let nodes = self.nodes;
        for Part {
            name, references, ..
        } in &call.body.0
        {
            let name = name.as_str();
            if CALL_SETTINGS.contains(&name) {
                continue;
            }
            match nodes[child].variables.get(name) {
                Some(variable) if !CALL_ARGUMENTS.contains(&name) => {
                    self.refer(caller, *variable, references);
                }
                // Also an input that no variable takes: better too much than lost.
                _ => self.refer(caller, nodes[child].expansion, references),
            }
        }
    }

    /// An import is evaluated together with the resource it is for.
    fn imports(&mut self, index: usize, module: &'e Module) {
        for import in &module.facts.imports {
            let (to, references) = &import.facts;
            let Some(resource) = &to.resource else {
                continue;
            };
            let mut owner = Some(index);
            for step in &to.module {
                owner = owner.and_then(|owner| {
                    match self.loaded.modules[owner].calls.get(&step.name) {
                        Some(ModuleCall::Found(child)) => Some(*child),
                        _ => None,
                    }
                });
            }
            let key = (resource.mode, resource.kind.clone(), resource.name.clone());
            if let Some(id) = owner.and_then(|owner| self.nodes[owner].resources.get(&key)) {
                self.refer(index, *id, references);
            }
        }
    }

    fn configured_by(&mut self, module: usize, from: NodeId, provider: &ProviderName) {
        for id in providers::find(self.loaded, self.nodes, module, provider) {
            self.graph.need(from, id);
        }
    }

    fn refer(
        &mut self,
        module: usize,
        from: NodeId,
        references: impl IntoIterator<Item = &'e Reference>,
    ) {
        for reference in references {
            self.one(module, from, reference);
        }
    }

    /// A name that nothing declares leads nowhere: Terraform refuses it.
    fn one(&mut self, module: usize, from: NodeId, reference: &Reference) {
        let own = &self.nodes[module];
        let to = match reference {
            Reference::Resource { mode, kind, name } => own
                .resources
                .get(&(*mode, kind.clone(), name.clone()))
                .copied(),
            Reference::ResourceType { mode, kind } => {
                for (key, id) in &own.resources {
                    if key.0 == *mode && key.1 == *kind {
                        self.graph.need(from, *id);
                    }
                }
                None
            }
            Reference::Local(name) => own.locals.get(name).copied(),
            Reference::Variable(name) => own.variables.get(name).copied(),
            Reference::Action { kind, name } => {
                own.actions.get(&(kind.clone(), name.clone())).copied()
            }
            Reference::Output { call, output } => self.output(module, call, Some(output)),
            Reference::Module(call) => self.output(module, call, None),
            Reference::ProviderFunction(local) => {
                let provider = ProviderName {
                    local: local.clone(),
                    alias: None,
                };
                self.configured_by(module, from, &provider);
                None
            }
            Reference::File(read) => Some(self.file(module, read)),
        };
        if let Some(to) = to {
            self.graph.need(from, to);
        }
    }

    /// One output of a call, or all of the module: also where the output is not declared.
    fn output(&self, module: usize, call: &str, output: Option<&str>) -> Option<NodeId> {
        match self.loaded.modules[module].calls.get(call)? {
            ModuleCall::Found(child) => {
                let inside = &self.nodes[*child];
                let output = output.and_then(|output| inside.outputs.get(output));
                Some(output.copied().unwrap_or(inside.whole))
            }
            ModuleCall::Unknown => self.nodes[module].unknown_calls.get(call).copied(),
        }
    }

    fn file(&mut self, module: usize, read: &FileRead) -> NodeId {
        let base = match read.base {
            FileBase::Module => self.loaded.modules[module].directory.clone(),
            FileBase::Root => SourcePath::root(),
        };
        let path = base.join(&read.path);
        let graph = &mut *self.graph;
        *self
            .files
            .entry((path.clone(), read.exact))
            .or_insert_with(|| {
                graph.add(if read.exact {
                    NodeKind::File(path)
                } else {
                    NodeKind::FilesIn(path)
                })
            })
    }
}
