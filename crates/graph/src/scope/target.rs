//! Targets: what a person, a client or a `moved` block names.

use std::fmt;
use std::str::FromStr;

use tfstate::{Address, Key, ModulePath, ModuleStep};

use crate::address::{self, BlockMode, ConfigAddress, ConfigModule};
use crate::claims::Path;

/// A module or a resource, one instance of it or all of them. A missing key means all instances.
///
/// Terraform's `-target` agrees but for the path of a resource: there a missing key means the
/// instance without one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The whole state.
    Everything,
    /// A module and all beneath it; at least one step.
    Module(Vec<ModuleStep>),
    Resource(TargetResource),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TargetResource {
    pub module: Vec<ModuleStep>,
    pub mode: BlockMode,
    /// The resource type.
    pub kind: String,
    pub name: String,
    pub key: Option<Key>,
}

/// A text that names neither a module nor a resource.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` names neither a module nor a resource")]
pub struct NotATarget(pub String);

impl FromStr for Target {
    type Err = NotATarget;

    /// Reads `[module.<name>[key].]*[data.]<type>.<name>[key]`, or only the module part.
    /// `ephemeral.` is read where no key stands.
    fn from_str(text: &str) -> Result<Self, NotATarget> {
        if let Ok(address) = text.parse::<Address>() {
            return Ok(Self::from(&address));
        }
        if let Ok(module) = text.parse::<ModulePath>()
            && !module.0.is_empty()
        {
            return Ok(Self::Module(module.0));
        }
        match text.parse::<ConfigAddress>() {
            Ok(block) => Ok(Self::from(&block)),
            Err(_) => Err(NotATarget(text.to_owned())),
        }
    }
}

impl From<&Address> for Target {
    fn from(address: &Address) -> Self {
        Self::Resource(TargetResource {
            module: address.module.clone(),
            mode: address.mode.into(),
            kind: address.kind.clone(),
            name: address.name.clone(),
            key: address.key.clone(),
        })
    }
}

impl From<&ConfigAddress> for Target {
    /// All instances of a block, in all module instances.
    fn from(block: &ConfigAddress) -> Self {
        let parts = block.parts();
        Self::Resource(TargetResource {
            module: unkeyed_steps(parts.module),
            mode: parts.mode,
            kind: parts.kind.to_owned(),
            name: parts.name.to_owned(),
            key: None,
        })
    }
}

impl Target {
    /// All instances of the module with this config-level path.
    pub(crate) fn module(path: &str) -> Self {
        Self::Module(unkeyed_steps(path))
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self, Self::Resource(resource) if resource.mode == BlockMode::Ephemeral)
    }

    pub(crate) fn steps(&self) -> &[ModuleStep] {
        match self {
            Self::Everything => &[],
            Self::Module(steps) => steps,
            Self::Resource(resource) => &resource.module,
        }
    }

    /// The config-level path of the module part.
    pub(crate) fn config_module(&self) -> ConfigModule {
        ConfigModule::of(self.steps())
    }

    /// The block whose instances are meant; `None` for a module.
    pub fn block(&self) -> Option<ConfigAddress> {
        let Self::Resource(resource) = self else {
            return None;
        };
        let mut block = resource.clone();
        block.key = None;
        block.module.iter_mut().for_each(|step| step.key = None);
        Self::Resource(block).to_string().parse().ok()
    }

    /// Whether all instances of what is named are meant, in all module instances.
    pub fn is_unkeyed(&self) -> bool {
        let own = match self {
            Self::Resource(resource) => resource.key.as_ref(),
            _ => None,
        };
        own.is_none() && self.steps().iter().all(|step| step.key.is_none())
    }

    /// Whether this target means the instance at `address`.
    pub fn means(&self, address: &Address) -> bool {
        let (steps, resource) = match self {
            Self::Everything => return true,
            Self::Module(steps) => (steps, None),
            Self::Resource(resource) => (&resource.module, Some(resource)),
        };
        let Some(path) = address.module.get(..steps.len()) else {
            return false;
        };
        all_fit(steps, path)
            && resource.is_none_or(|wanted| {
                address.module.len() == steps.len()
                    && wanted.mode == address.mode.into()
                    && wanted.kind == address.kind
                    && wanted.name == address.name
                    && (wanted.key.is_none() || wanted.key == address.key)
            })
    }

    /// Whether every instance that `other` means, this target means too.
    pub fn includes(&self, other: &Self) -> bool {
        let (steps, inner) = (self.steps(), other.steps());
        if steps.len() > inner.len() || !all_fit(steps, inner) {
            return false;
        }
        match (self, other) {
            (Self::Everything, _) => true,
            (_, Self::Everything) => false,
            (Self::Module(_), _) => true,
            (Self::Resource(_), Self::Module(_)) => false,
            (Self::Resource(all), Self::Resource(some)) => {
                steps.len() == inner.len()
                    && (all.mode, &all.kind, &all.name) == (some.mode, &some.kind, &some.name)
                    && (all.key.is_none() || all.key == some.key)
            }
        }
    }

    /// Whether the blocks that the two mean have one in common, keys aside.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (module, other_module) = (self.config_module(), other.config_module());
        let (module, other_module) = (module.as_str(), other_module.as_str());
        match (self, other) {
            (Self::Resource(_), Self::Resource(_)) => self.block() == other.block(),
            (Self::Resource(_), _) => address::is_within(module, other_module),
            (_, Self::Resource(_)) => address::is_within(other_module, module),
            _ => {
                address::is_within(module, other_module) || address::is_within(other_module, module)
            }
        }
    }

    /// The path that a claim on this target stands at; `None` for what never is in a state.
    pub(crate) fn path(&self) -> Option<Path> {
        match self {
            Self::Everything => Some(Path::root()),
            Self::Module(steps) => Some(Path::module(steps)),
            Self::Resource(resource) => {
                let TargetResource {
                    module,
                    kind,
                    name,
                    key,
                    ..
                } = resource;
                let mode = resource.mode.in_state()?;
                Some(Path::resource(module, mode, kind, name, key.as_ref()))
            }
        }
    }
}

impl fmt::Display for Target {
    /// Prints Terraform's spelling; `*` for the whole state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = ModulePath(self.steps().to_vec());
        let resource = match self {
            Self::Everything => return f.write_str("*"),
            Self::Module(_) => return module.fmt(f),
            Self::Resource(resource) => resource,
        };
        if !module.0.is_empty() {
            write!(f, "{module}.")?;
        }
        let mode = match resource.mode {
            BlockMode::Data => "data.",
            BlockMode::Ephemeral => "ephemeral.",
            BlockMode::Managed => "",
        };
        write!(f, "{mode}{}.{}", resource.kind, resource.name)?;
        match &resource.key {
            Some(key) => write!(f, "[{key}]"),
            None => Ok(()),
        }
    }
}

/// Whether each wanted step means the step at its place; further ones may follow.
fn all_fit(wanted: &[ModuleStep], steps: &[ModuleStep]) -> bool {
    let fits = |(wanted, step): (&ModuleStep, &ModuleStep)| {
        wanted.name == step.name && (wanted.key.is_none() || wanted.key == step.key)
    };
    wanted.iter().zip(steps).all(fits)
}

fn unkeyed_steps(module: &str) -> Vec<ModuleStep> {
    // Every second word of a path is the name of a call.
    let names = module.split('.').skip(1).step_by(2);
    names
        .map(|name| ModuleStep {
            name: name.to_owned(),
            key: None,
        })
        .collect()
}
