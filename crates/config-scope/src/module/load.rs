//! Follows module calls from the root: which directory each call means, and what stands in it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::Arc,
};

use super::{
    Location,
    manifest::Manifest,
    merge::{ModuleFacts, Role},
    parse::{ParseCache, parse_all},
};
use crate::{
    address::ConfigModule,
    facts::CallSource,
    source::{
        Flavour, SourceFile, SourcePath, SourceTree, effective_names, is_variables_name, syntax_of,
    },
    syntax::read_variables,
};

/// More module calls than this are refused: a handful of calls per level multiply without end.
const MAX_MODULES: usize = 20_000;

/// Why a configuration could not be looked at at all. A file that cannot be parsed is no such
/// reason: it is in the result, as a doubt.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("there is no directory {0}")]
    NoDirectory(SourcePath),
    #[error("the directory {0} holds no configuration files")]
    NoConfiguration(SourcePath),
    #[error("cannot read the configuration in {directory}")]
    Io {
        directory: SourcePath,
        source: io::Error,
    },
    #[error("cannot read the manifest of installed modules (modules.json); run init again")]
    Manifest(#[source] io::Error),
    #[error("the configuration has more than {MAX_MODULES} module calls")]
    TooManyModules,
}

/// One module of the tree. The same directory called twice is two modules.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) path: ConfigModule,
    pub(crate) directory: SourcePath,
    pub(crate) facts: Arc<ModuleFacts>,
    /// The calling module's index; `None` for the root.
    pub(crate) parent: Option<usize>,
    pub(crate) calls: BTreeMap<String, ModuleCall>,
}

/// What a module call leads to.
#[derive(Debug)]
pub(crate) enum ModuleCall {
    /// Index of the module.
    Found(usize),
    /// Nothing that could be read; `unresolved` says why.
    Unknown,
}

/// The module tree: the root comes first, a caller before what it calls.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) modules: Vec<Module>,
    pub(crate) unresolved: Vec<(ConfigModule, Location, String)>,
}

pub(crate) fn load(
    tree: &dyn SourceTree,
    flavour: Flavour,
    cache: &ParseCache,
) -> Result<Loaded, LoadError> {
    let manifest = match tree.manifest().map_err(LoadError::Manifest)? {
        Some(bytes) => {
            Manifest::parse(&bytes).map_err(|error| LoadError::Manifest(io::Error::other(error)))?
        }
        None => Manifest::default(),
    };
    let mut loader = Loader {
        tree,
        flavour,
        cache,
        manifest,
        directories: HashMap::new(),
    };
    let root = SourcePath::root();
    loader.read_directories(&BTreeSet::from([root.clone()]))?;
    let facts = match loader.directories.get(&root) {
        Some(Some(facts)) if !facts.files.is_empty() => Arc::clone(facts),
        Some(Some(_)) => return Err(LoadError::NoConfiguration(root)),
        _ => return Err(LoadError::NoDirectory(root)),
    };
    let mut loaded = Loaded {
        modules: vec![Module {
            path: ConfigModule::root(),
            directory: root,
            facts,
            parent: None,
            calls: BTreeMap::new(),
        }],
        unresolved: Vec::new(),
    };
    // Level by level, so that the files of a whole level are parsed together.
    let mut level = 0..1;
    while !level.is_empty() {
        let end = loaded.modules.len();
        loader.follow(&mut loaded, level)?;
        level = end..loaded.modules.len();
    }
    Ok(loaded)
}

struct Loader<'l> {
    tree: &'l dyn SourceTree,
    flavour: Flavour,
    cache: &'l ParseCache,
    manifest: Manifest,
    /// `None` for a directory that is not there.
    directories: HashMap<SourcePath, Option<Arc<ModuleFacts>>>,
}

impl Loader<'_> {
    /// Resolves the calls of the modules in `level` and appends what they lead to.
    fn follow(
        &mut self,
        loaded: &mut Loaded,
        level: std::ops::Range<usize>,
    ) -> Result<(), LoadError> {
        let mut wanted = Vec::new();
        for caller in level {
            let module = &loaded.modules[caller];
            for (name, call) in &module.facts.calls {
                let target = self.directory_of(loaded, caller, name, call.facts.source.as_ref());
                wanted.push((caller, name.clone(), call.at.clone(), target));
            }
        }
        if loaded.modules.len() + wanted.len() > MAX_MODULES {
            return Err(LoadError::TooManyModules);
        }
        let directories = wanted
            .iter()
            .filter_map(|(.., target)| target.as_ref().ok().cloned());
        self.read_directories(&directories.collect())?;
        for (caller, name, at, target) in wanted {
            let found = target.and_then(|directory| match self.directories.get(&directory) {
                Some(Some(facts)) if !facts.files.is_empty() => Ok((directory, Arc::clone(facts))),
                _ => Err(format!("there is no configuration in {directory}")),
            });
            let path = loaded.modules[caller].path.child(&name);
            let call = match found {
                Ok((directory, facts)) => {
                    let index = loaded.modules.len();
                    let parent = Some(caller);
                    let calls = BTreeMap::new();
                    loaded.modules.push(Module {
                        path,
                        directory,
                        facts,
                        parent,
                        calls,
                    });
                    ModuleCall::Found(index)
                }
                Err(why) => {
                    loaded.unresolved.push((path, at, why));
                    ModuleCall::Unknown
                }
            };
            loaded.modules[caller].calls.insert(name, call);
        }
        Ok(())
    }

    fn directory_of(
        &self,
        loaded: &Loaded,
        caller: usize,
        name: &str,
        source: Option<&CallSource>,
    ) -> Result<SourcePath, String> {
        let module = &loaded.modules[caller];
        let source = match source {
            Some(CallSource::Literal(source)) => source,
            Some(CallSource::Computed) => return Err("its source is computed".to_owned()),
            None => return Err("it has no source".to_owned()),
        };
        let directory = if is_local(source) {
            module.directory.join(source)
        } else {
            let key = module.path.child(name).manifest_key();
            let installed = self.manifest.directory(&key);
            installed
                .cloned()
                .ok_or("it is not installed; run init".to_owned())?
        };
        let mut above = Some(caller);
        while let Some(index) = above {
            if loaded.modules[index].directory == directory {
                return Err("it calls itself".to_owned());
            }
            above = loaded.modules[index].parent;
        }
        Ok(directory)
    }

    fn read_directories(&mut self, wanted: &BTreeSet<SourcePath>) -> Result<(), LoadError> {
        let mut listings: Vec<(SourcePath, Option<Vec<SourceFile>>)> = Vec::new();
        for directory in wanted {
            if !self.directories.contains_key(directory) {
                let files = self.tree.list(directory).map_err(|source| LoadError::Io {
                    directory: directory.clone(),
                    source,
                })?;
                listings.push((directory.clone(), files));
            }
        }
        let mut plan: Vec<(usize, &SourceFile, Role)> = Vec::new();
        for (place, (_, files)) in listings.iter().enumerate() {
            let files = files.as_deref().unwrap_or_default();
            let names = files.iter().map(|file| file.name.as_str());
            let (primary, overrides) = effective_names(names, self.flavour);
            for (names, role) in [(primary, Role::Primary), (overrides, Role::Override)] {
                let file = |name| files.iter().find(|file| file.name == name);
                let files = names.into_iter().filter_map(file);
                plan.extend(files.map(|file| (place, file, role)));
            }
        }
        let texts: Vec<(&str, &[u8])> = plan
            .iter()
            .map(|(_, file, _)| (file.name.as_str(), file.bytes.as_slice()))
            .collect();
        let mut outcomes = parse_all(&texts, self.cache).into_iter();
        let mut plan = plan.into_iter().peekable();
        for (place, (directory, files)) in listings.iter().enumerate() {
            let mut merged = Vec::new();
            while let Some((_, file, role)) = plan.next_if(|(owner, ..)| *owner == place) {
                let Some(outcome) = outcomes.next() else {
                    break;
                };
                merged.push((directory.join(&file.name), role, outcome));
            }
            let facts = files.as_ref().map(|files| {
                let mut facts = ModuleFacts::of(merged);
                read_assignments(directory, files, &mut facts);
                Arc::new(facts)
            });
            self.directories.insert(directory.clone(), facts);
        }
        Ok(())
    }
}

/// Notes which variables the variables files of a directory assign. One that cannot be read is
/// taken to assign none: it decides no dependency, and Terraform will refuse it.
fn read_assignments(directory: &SourcePath, files: &[SourceFile], facts: &mut ModuleFacts) {
    for file in files.iter().filter(|file| is_variables_name(&file.name)) {
        let names = read_variables(&file.bytes, syntax_of(&file.name)).unwrap_or_default();
        facts.assigned.insert(directory.join(&file.name), names);
    }
}

/// Terraform's rule for a source that is a path next to the caller.
pub(crate) fn is_local(source: &str) -> bool {
    [".", ".."].contains(&source)
        || ["./", "../", ".\\", "..\\"]
            .iter()
            .any(|prefix| source.starts_with(prefix))
}
