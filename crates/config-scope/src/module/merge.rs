//! Merges the files of one directory into one module, override files last, as Terraform does
//! (`internal/configs/module.go`, `module_merge.go`).

use std::{collections::BTreeMap, sync::Arc};

use super::Location;
use crate::{
    address::Mode,
    facts::{
        CallFacts, Fault, FileFacts, Item, ItemKind, LocalFacts, OutputFacts, Parts, ProviderFacts,
        ProviderName, ResourceFacts, VariableFacts,
    },
    reference::References,
    source::SourcePath,
    target::Target,
};

/// Parts of a resource that an override file cannot take away: Terraform ignores or refuses most
/// of what an override says there, so what either file says is kept.
const JOINED: &[&str] = &["lifecycle", "depends_on", "precondition", "postcondition"];

/// What one directory declares.
#[derive(Debug, Default)]
pub(crate) struct ModuleFacts {
    pub(crate) resources: BTreeMap<(Mode, String, String), Declared<ResourceFacts>>,
    pub(crate) calls: BTreeMap<String, Declared<CallFacts>>,
    pub(crate) locals: BTreeMap<String, Declared<LocalFacts>>,
    pub(crate) variables: BTreeMap<String, Declared<VariableFacts>>,
    pub(crate) outputs: BTreeMap<String, Declared<OutputFacts>>,
    pub(crate) providers: BTreeMap<ProviderName, Declared<ProviderFacts>>,
    pub(crate) checks: BTreeMap<String, Declared<References>>,
    pub(crate) actions: BTreeMap<(String, String), Declared<Parts>>,
    pub(crate) moves: Vec<Declared<(Target, Target)>>,
    pub(crate) removed: Vec<Declared<(Target, bool)>>,
    pub(crate) imports: Vec<Declared<(Target, References)>>,
    /// Sources by local name.
    pub(crate) required_providers: BTreeMap<String, String>,
    /// Every configuration file of the directory, read or not, in the order of merging.
    pub(crate) files: Vec<SourcePath>,
    /// Variables files of the directory, with the names they assign.
    pub(crate) assigned: BTreeMap<SourcePath, Vec<String>>,
    /// Files that could not be read.
    pub(crate) unread: Vec<(SourcePath, Fault)>,
    /// What was read and is not understood.
    pub(crate) strange: Vec<(SourcePath, Fault)>,
}

/// Something declared, with every place that has a say in it.
#[derive(Clone, Debug)]
pub(crate) struct Declared<T> {
    pub(crate) facts: T,
    pub(crate) at: Location,
    /// Where it is overridden, or declared once more.
    pub(crate) also_at: Vec<Location>,
}

impl<T> Declared<T> {
    pub(crate) fn places(&self) -> impl Iterator<Item = &Location> {
        std::iter::once(&self.at).chain(&self.also_at)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Override,
}

/// Puts `facts` on top of what is declared under `key`.
fn put<K: Ord, T>(
    map: &mut BTreeMap<K, Declared<T>>,
    key: K,
    at: Location,
    facts: T,
    merge: impl FnOnce(&mut T, T),
) {
    match map.get_mut(&key) {
        Some(base) => {
            merge(&mut base.facts, facts);
            base.also_at.push(at);
        }
        None => {
            _ = map.insert(
                key,
                Declared {
                    facts,
                    at,
                    also_at: Vec::new(),
                },
            )
        }
    }
}

impl ModuleFacts {
    pub(super) fn add_file(&mut self, file: &SourcePath, facts: &FileFacts, role: Role) {
        self.strange.extend(
            facts
                .strange
                .iter()
                .map(|fault| (file.clone(), fault.clone())),
        );
        for item in &facts.items {
            self.add(file, item, role);
        }
    }

    fn add(&mut self, file: &SourcePath, item: &Item, role: Role) {
        let at = Location {
            file: file.clone(),
            line: item.line,
        };
        match &item.kind {
            ItemKind::Resource(resource) => {
                let key = (resource.mode, resource.kind.clone(), resource.name.clone());
                put(
                    &mut self.resources,
                    key,
                    at,
                    resource.clone(),
                    |base, over| {
                        merge_parts(&mut base.body, &over.body, role);
                        base.repetition = over.repetition.or(base.repetition);
                        base.provider = over.provider.or(base.provider.take());
                    },
                );
            }
            ItemKind::Module(call) => {
                put(
                    &mut self.calls,
                    call.name.clone(),
                    at,
                    call.clone(),
                    |base, over| {
                        merge_parts(&mut base.body, &over.body, role);
                        base.repetition = over.repetition.or(base.repetition);
                        base.source = over.source.or(base.source.take());
                        let providers = over.providers.filter(|given| !given.is_empty());
                        base.providers = providers.or(base.providers.take());
                    },
                );
            }
            ItemKind::Local(local) => {
                put(
                    &mut self.locals,
                    local.name.clone(),
                    at,
                    local.clone(),
                    |base, over| {
                        if role == Role::Primary {
                            base.references.extend(over.references);
                        } else {
                            base.references = over.references;
                        }
                    },
                );
            }
            ItemKind::Variable(variable) => {
                let key = variable.name.clone();
                put(
                    &mut self.variables,
                    key,
                    at,
                    variable.clone(),
                    |base, over| {
                        base.has_default |= over.has_default;
                        base.sensitive |= over.sensitive;
                        base.ephemeral |= over.ephemeral;
                        base.validation.extend(over.validation);
                    },
                );
            }
            ItemKind::Output(output) => {
                put(
                    &mut self.outputs,
                    output.name.clone(),
                    at,
                    output.clone(),
                    |base, over| {
                        merge_parts(&mut base.body, &over.body, role);
                        base.sensitive |= over.sensitive;
                        base.ephemeral |= over.ephemeral;
                    },
                );
            }
            ItemKind::Provider(provider) => {
                let key = provider.name.clone();
                put(
                    &mut self.providers,
                    key,
                    at,
                    provider.clone(),
                    |base, over| {
                        merge_parts(&mut base.body, &over.body, role);
                    },
                );
            }
            ItemKind::Check { name, references } => {
                put(
                    &mut self.checks,
                    name.clone(),
                    at,
                    references.clone(),
                    |base, over| {
                        base.extend(over);
                    },
                );
            }
            ItemKind::Action { kind, name, body } => {
                let key = (kind.clone(), name.clone());
                put(&mut self.actions, key, at, body.clone(), |base, over| {
                    merge_parts(base, &over, role);
                });
            }
            ItemKind::Moved { from, to } => self.moves.push(single(at, (from.clone(), to.clone()))),
            ItemKind::Removed { from, destroy } => {
                self.removed.push(single(at, (from.clone(), *destroy)));
            }
            ItemKind::Import { to, references } => {
                self.imports
                    .push(single(at, (to.clone(), references.clone())));
            }
            ItemKind::Requires(required) => {
                self.required_providers.extend(required.iter().cloned())
            }
        }
    }

    /// Merges files in the order given.
    pub(super) fn of(files: Vec<(SourcePath, Role, Result<Arc<FileFacts>, Fault>)>) -> Self {
        let mut module = Self::default();
        for (file, role, facts) in files {
            match facts {
                Ok(facts) => module.add_file(&file, &facts, role),
                Err(fault) => module.unread.push((file.clone(), fault)),
            }
            module.files.push(file);
        }
        module
    }
}

fn single<T>(at: Location, facts: T) -> Declared<T> {
    Declared {
        facts,
        at,
        also_at: Vec::new(),
    }
}

/// A second declaration in a primary file is an error to Terraform: both are kept, and it will say
/// so itself. Only override files replace.
fn merge_parts(base: &mut Parts, over: &Parts, role: Role) {
    match role {
        Role::Primary => base.0.extend(over.0.iter().cloned()),
        Role::Override => base.override_with(over, JOINED),
    }
}
