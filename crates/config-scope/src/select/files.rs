//! What one file has to do with a configuration.

use std::collections::BTreeSet;

use crate::{
    address::{ConfigAddress, ConfigModule},
    configuration::Configuration,
    graph::{NodeId, NodeKind, Towards},
    module::{Declared, Location, Module, ModuleCall},
    source::SourcePath,
    target::Target,
};

/// The part a file plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileRole {
    /// A configuration file that was read.
    Configuration,
    /// A configuration file that could not be read: what it declares is not known.
    Unparsed,
    /// A variables file of the root module's directory (`.tfvars`).
    Variables,
    /// Another file, which expressions read (`file()`, `templatefile()` and the like).
    Input,
    /// Nothing in the configuration mentions it.
    Unknown,
}

/// What a file declares, and what it has an influence on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileReport {
    pub file: SourcePath,
    pub role: FileRole,
    /// Resource blocks that stand in the file, or that it overrides, in every module made from it.
    pub declares: BTreeSet<ConfigAddress>,
    /// Module calls that stand in the file, or that it overrides.
    pub calls: BTreeSet<ConfigModule>,
    /// What its `moved`, `removed` and `import` blocks name.
    pub names: Vec<Target>,
    /// The resources that are computed from its locals, variables, outputs, provider
    /// configurations, or from its text, apart from those it declares itself. These are not
    /// selected with the file: a person must be told of them.
    pub affects: BTreeSet<ConfigAddress>,
}

impl FileReport {
    /// Whether selecting the file selects anything.
    pub fn selects_nothing(&self) -> bool {
        self.declares.is_empty() && self.calls.is_empty() && self.names.is_empty()
    }
}

impl Configuration {
    /// What the file at `file` declares and affects.
    pub fn declared_in(&self, file: &SourcePath) -> FileReport {
        let mut report = FileReport {
            file: file.clone(),
            role: FileRole::Unknown,
            declares: BTreeSet::new(),
            calls: BTreeSet::new(),
            names: Vec::new(),
            affects: BTreeSet::new(),
        };
        let directory = file.parent();
        let mut sources: Vec<NodeId> = Vec::new();
        for (index, module) in self.loaded.modules.iter().enumerate() {
            if module.directory != directory {
                continue;
            }
            if module.facts.unread.iter().any(|(unread, _)| unread == file) {
                report.role = FileRole::Unparsed;
            } else if module.facts.files.contains(file) {
                report.role = FileRole::Configuration;
                self.declarations(index, module, file, &mut report, &mut sources);
            } else if let Some(names) = module.facts.assigned.get(file)
                && module.path.is_root()
            {
                report.role = FileRole::Variables;
                let variables = &self.module_nodes[index].variables;
                sources.extend(names.iter().filter_map(|name| variables.get(name)));
            }
        }
        if report.role == FileRole::Unknown {
            sources.extend(self.reads_of(file));
            if !sources.is_empty() {
                report.role = FileRole::Input;
            }
        }
        for source in sources {
            let found = self.graph.nearest_resources(source, Towards::Dependents);
            report.affects.extend(self.resources_of(&found));
        }
        report
            .affects
            .retain(|address| !report.declares.contains(address));
        report
    }

    fn declarations(
        &self,
        index: usize,
        module: &Module,
        file: &SourcePath,
        report: &mut FileReport,
        sources: &mut Vec<NodeId>,
    ) {
        let nodes = &self.module_nodes[index];
        let facts = &module.facts;
        for (key, resource) in &facts.resources {
            if stands_in(resource, file) {
                let (mode, kind, name) = key.clone();
                let module = module.path.clone();
                report.declares.insert(ConfigAddress {
                    module,
                    mode,
                    kind,
                    name,
                });
            }
        }
        for (name, call) in &facts.calls {
            if stands_in(call, file) {
                report.calls.insert(module.path.child(name));
                // A whole module is selected with the call; who uses its outputs is affected.
                if let Some(ModuleCall::Found(child)) = module.calls.get(name) {
                    sources.extend(self.module_nodes[*child].outputs.values());
                }
            }
        }
        let local = facts
            .locals
            .iter()
            .filter(|(_, local)| stands_in(*local, file));
        sources.extend(local.map(|(name, _)| nodes.locals[name]));
        let variables = facts
            .variables
            .iter()
            .filter(|(_, declared)| stands_in(*declared, file));
        sources.extend(variables.map(|(name, _)| nodes.variables[name]));
        let outputs = facts
            .outputs
            .iter()
            .filter(|(_, output)| stands_in(*output, file));
        sources.extend(outputs.map(|(name, _)| nodes.outputs[name]));
        let providers = facts
            .providers
            .iter()
            .filter(|(_, declared)| stands_in(*declared, file));
        sources.extend(providers.map(|(name, _)| nodes.providers[name]));

        let in_file = |at: &Location| at.file == *file;
        let here = |module_of: &ConfigModule| *module_of == module.path;
        let moves = self
            .moves
            .iter()
            .filter(|moved| here(&moved.module) && in_file(&moved.at));
        report.names.extend(moves.flat_map(|moved| moved.ends()));
        let removed = self
            .removed
            .iter()
            .filter(|removed| here(&removed.module) && in_file(&removed.at));
        report
            .names
            .extend(removed.map(|removed| removed.from.clone()));
        let imports = self
            .imports
            .iter()
            .filter(|import| here(&import.module) && in_file(&import.at));
        report.names.extend(imports.map(|import| import.to.clone()));
    }

    /// The nodes for reads of `file` itself, or of some file in a directory it stands in.
    fn reads_of(&self, file: &SourcePath) -> Vec<NodeId> {
        let found = self.graph.nodes().filter(|(_, kind)| match kind {
            NodeKind::File(path) => path == file,
            NodeKind::FilesIn(directory) => directory.contains(file),
            _ => false,
        });
        found.map(|(id, _)| id).collect()
    }
}

fn stands_in<T>(declared: &Declared<T>, file: &SourcePath) -> bool {
    declared.places().any(|at| at.file == *file)
}
