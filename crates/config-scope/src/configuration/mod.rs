//! A configuration as a whole: what it declares, what depends on what.

mod declarations;
mod layout;

pub use declarations::{Import, LocalModule, Node, Output, Removed, Variable};

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    address::{ConfigAddress, ConfigModule},
    doubt::{Doubt, DoubtKind},
    graph::{Graph, ModuleNodes, NodeId, NodeKind, Towards, build},
    module::{LoadError, Loaded, Location, Module, ParseCache, load},
    moves::Move,
    source::{Flavour, SourceTree},
};

/// Everything known about a configuration. Built once, then only asked.
#[derive(Debug)]
pub struct Configuration {
    pub(crate) loaded: Loaded,
    pub(crate) graph: Graph,
    pub(crate) module_nodes: Vec<ModuleNodes>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ids: Vec<NodeId>,
    pub(crate) by_address: BTreeMap<ConfigAddress, usize>,
    pub(crate) moves: Vec<Move>,
    pub(crate) removed: Vec<Removed>,
    pub(crate) imports: Vec<Import>,
    doubts: Vec<Doubt>,
}

impl Configuration {
    /// Reads the root module and every module it calls.
    pub fn load(tree: &dyn SourceTree) -> Result<Self, LoadError> {
        Self::load_with(tree, Flavour::default(), &ParseCache::new())
    }

    /// The same, for a given client, and remembering parsed files in `cache`.
    pub fn load_with(
        tree: &dyn SourceTree,
        flavour: Flavour,
        cache: &ParseCache,
    ) -> Result<Self, LoadError> {
        let loaded = load(tree, flavour, cache)?;
        let built = build(&loaded);
        let mut nodes = Vec::with_capacity(built.resources.len());
        let mut ids = Vec::with_capacity(built.resources.len());
        let mut by_address = BTreeMap::new();
        for (module, key, id) in built.resources {
            let owner = &loaded.modules[module];
            let declared = &owner.facts.resources[&key];
            let (mode, kind, name) = key;
            let address = ConfigAddress {
                module: owner.path.clone(),
                mode,
                kind,
                name,
            };
            by_address.insert(address.clone(), nodes.len());
            ids.push(id);
            nodes.push(Node {
                address,
                at: declared.at.clone(),
                overridden_at: declared.also_at.clone(),
                repetition: declared.facts.repetition,
            });
        }
        let doubts = doubts(&loaded);
        let (moves, removed, imports) = movements(&loaded);
        let (graph, module_nodes) = (built.graph, built.modules);
        Ok(Self {
            loaded,
            graph,
            module_nodes,
            nodes,
            ids,
            by_address,
            moves,
            removed,
            imports,
            doubts,
        })
    }

    /// Every resource block of every module, by module and address.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.by_address.values().map(|index| &self.nodes[*index])
    }

    pub fn find_node(&self, address: &ConfigAddress) -> Option<&Node> {
        self.by_address
            .get(address)
            .map(|index| &self.nodes[*index])
    }

    /// Every module, the root included.
    pub fn modules(&self) -> impl Iterator<Item = &ConfigModule> {
        self.loaded.modules.iter().map(|module| &module.path)
    }

    /// What the resource at `address` needs, without what these need in turn. Empty for an
    /// address that is not declared.
    pub fn dependencies(&self, address: &ConfigAddress) -> BTreeSet<ConfigAddress> {
        self.nearest(address, Towards::Dependencies)
    }

    /// The resources that need the one at `address` directly.
    pub fn direct_dependents(&self, address: &ConfigAddress) -> BTreeSet<ConfigAddress> {
        self.nearest(address, Towards::Dependents)
    }

    /// `write` and everything it needs. Addresses that are not declared are left out.
    pub fn closure<'a>(
        &self,
        write: impl IntoIterator<Item = &'a ConfigAddress>,
    ) -> BTreeSet<ConfigAddress> {
        self.resources_of(&self.graph.reach(self.seeds(write), Towards::Dependencies))
    }

    /// `changed` and everything that needs it. Addresses that are not declared are left out.
    pub fn dependents<'a>(
        &self,
        changed: impl IntoIterator<Item = &'a ConfigAddress>,
    ) -> BTreeSet<ConfigAddress> {
        self.resources_of(&self.graph.reach(self.seeds(changed), Towards::Dependents))
    }

    /// The root module's outputs, by name.
    pub fn outputs(&self) -> Vec<Output> {
        let root = &self.loaded.modules[0];
        let output = |(name, declared): (&String, &crate::module::Declared<_>)| {
            let facts: &crate::facts::OutputFacts = &declared.facts;
            let id = self.module_nodes[0].outputs[name];
            let needs = self.graph.nearest_resources(id, Towards::Dependencies);
            Output {
                name: name.clone(),
                at: declared.at.clone(),
                sensitive: facts.sensitive,
                ephemeral: facts.ephemeral,
                dependencies: self.resources_of(&needs),
            }
        };
        root.facts.outputs.iter().map(output).collect()
    }

    /// The root module's variables, by name.
    pub fn variables(&self) -> Vec<Variable> {
        let variables = self.loaded.modules[0].facts.variables.iter();
        let variable = variables.map(|(name, declared)| Variable {
            name: name.clone(),
            at: declared.at.clone(),
            has_default: declared.facts.has_default,
            sensitive: declared.facts.sensitive,
            ephemeral: declared.facts.ephemeral,
        });
        variable.collect()
    }

    /// The root variables that the resources at `addresses`, or what these need, are computed
    /// from.
    pub fn referenced_variables<'a>(
        &self,
        addresses: impl IntoIterator<Item = &'a ConfigAddress>,
    ) -> BTreeSet<String> {
        let reached = self
            .graph
            .reach(self.seeds(addresses), Towards::Dependencies);
        let names = reached
            .into_iter()
            .filter_map(|id| match self.graph.kind(id) {
                NodeKind::RootVariable(name) => Some(name.clone()),
                _ => None,
            });
        names.collect()
    }

    /// Every `moved` block, in the order of modules and files.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    pub fn removed(&self) -> &[Removed] {
        &self.removed
    }

    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// Everything that keeps a scope over this configuration from being proven.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// The files that could not be parsed.
    pub fn unparsed(&self) -> impl Iterator<Item = &Doubt> {
        self.doubts
            .iter()
            .filter(|doubt| doubt.kind == DoubtKind::Unparsed)
    }

    fn seeds<'a>(&self, addresses: impl IntoIterator<Item = &'a ConfigAddress>) -> Vec<NodeId> {
        let index = addresses
            .into_iter()
            .filter_map(|address| self.by_address.get(address));
        index.map(|index| self.ids[*index]).collect()
    }

    fn nearest(&self, address: &ConfigAddress, towards: Towards) -> BTreeSet<ConfigAddress> {
        match self.by_address.get(address) {
            Some(index) => {
                self.resources_of(&self.graph.nearest_resources(self.ids[*index], towards))
            }
            None => BTreeSet::new(),
        }
    }

    pub(crate) fn resources_of(&self, ids: &[NodeId]) -> BTreeSet<ConfigAddress> {
        let resources = ids.iter().filter_map(|id| match self.graph.kind(*id) {
            NodeKind::Resource(index) => Some(self.nodes[*index].address.clone()),
            _ => None,
        });
        resources.collect()
    }
}

fn movements(loaded: &Loaded) -> (Vec<Move>, Vec<Removed>, Vec<Import>) {
    let (mut moves, mut removed, mut imports) = (Vec::new(), Vec::new(), Vec::new());
    for Module { path, facts, .. } in &loaded.modules {
        moves.extend(facts.moves.iter().map(|declared| Move {
            module: path.clone(),
            from: declared.facts.0.clone(),
            to: declared.facts.1.clone(),
            at: declared.at.clone(),
        }));
        removed.extend(facts.removed.iter().map(|declared| Removed {
            module: path.clone(),
            from: declared.facts.0.beneath(path),
            destroy: declared.facts.1,
            at: declared.at.clone(),
        }));
        imports.extend(facts.imports.iter().map(|declared| Import {
            module: path.clone(),
            to: declared.facts.0.beneath(path),
            at: declared.at.clone(),
        }));
    }
    (moves, removed, imports)
}

fn doubts(loaded: &Loaded) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut seen = BTreeSet::new();
    for module in &loaded.modules {
        if !seen.insert(&module.directory) {
            continue;
        }
        let unread = module
            .facts
            .unread
            .iter()
            .map(|fault| (fault, DoubtKind::Unparsed));
        let strange = module
            .facts
            .strange
            .iter()
            .map(|fault| (fault, DoubtKind::NotUnderstood));
        doubts.extend(unread.chain(strange).map(|((file, fault), kind)| Doubt {
            at: Location {
                file: file.clone(),
                line: fault.line,
            },
            kind,
            what: fault.what.clone(),
        }));
    }
    for (path, at, why) in &loaded.unresolved {
        let what = format!("{path} is not known: {why}");
        doubts.push(Doubt {
            at: at.clone(),
            kind: DoubtKind::UnknownModule,
            what,
        });
    }
    doubts
}
