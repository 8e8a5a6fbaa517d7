//! What a person, a `moved` block or a plan option names: a module or a resource, one instance of
//! it or all of them.

use std::fmt;

use tfstate::{Address, AddressError, Key, ModulePath, ModuleStep};

use crate::address::{ConfigAddress, ConfigModule, Mode};

/// `[module.<name>[key].]*[data.]<type>.<name>[key]`, or only the module part.
///
/// A missing key means all instances. In the path of a resource Terraform's `-target` does not
/// share that view: see [`crate::PlanTarget::unkeyed_call`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    pub module: Vec<ModuleStep>,
    /// `None` for the module as a whole.
    pub resource: Option<TargetResource>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TargetResource {
    pub mode: Mode,
    /// The resource type.
    pub kind: String,
    pub name: String,
    pub key: Option<Key>,
}

impl std::str::FromStr for Target {
    type Err = AddressError;

    /// Reads what Terraform takes for a `-target`. Ephemeral resources are in no state and so no
    /// target.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.parse::<ModulePath>() {
            Ok(path) if !path.0.is_empty() => Ok(Self::from(&path)),
            _ => text.parse::<Address>().map(|address| Self::from(&address)),
        }
    }
}

impl Target {
    /// The same target, named relative to `module`, seen from the root module.
    pub(crate) fn beneath(&self, module: &ConfigModule) -> Self {
        let mut path = Self::from(module).module;
        path.extend(self.module.iter().cloned());
        Self {
            module: path,
            resource: self.resource.clone(),
        }
    }

    /// The path of the module part, without keys.
    pub fn config_module(&self) -> ConfigModule {
        ConfigModule(self.module.iter().map(|step| step.name.clone()).collect())
    }

    /// The resource block whose instances are meant; `None` for a module.
    pub fn config_address(&self) -> Option<ConfigAddress> {
        let resource = self.resource.as_ref()?;
        Some(ConfigAddress {
            module: self.config_module(),
            mode: resource.mode,
            kind: resource.kind.clone(),
            name: resource.name.clone(),
        })
    }
}

impl From<&ConfigAddress> for Target {
    fn from(address: &ConfigAddress) -> Self {
        let resource = TargetResource {
            mode: address.mode,
            kind: address.kind.clone(),
            name: address.name.clone(),
            key: None,
        };
        Self {
            resource: Some(resource),
            ..Self::from(&address.module)
        }
    }
}

impl From<&ConfigModule> for Target {
    fn from(module: &ConfigModule) -> Self {
        let step = |name: &String| ModuleStep {
            name: name.clone(),
            key: None,
        };
        Self {
            module: module.0.iter().map(step).collect(),
            resource: None,
        }
    }
}

impl From<&Address> for Target {
    /// The instance at `address`, or, if it has no key, the resource.
    fn from(address: &Address) -> Self {
        let resource = TargetResource {
            mode: match address.mode {
                tfstate::Mode::Data => Mode::Data,
                tfstate::Mode::Managed => Mode::Managed,
            },
            kind: address.kind.clone(),
            name: address.name.clone(),
            key: address.key.clone(),
        };
        Self {
            module: address.module.clone(),
            resource: Some(resource),
        }
    }
}

impl From<&ModulePath> for Target {
    fn from(path: &ModulePath) -> Self {
        Self {
            module: path.0.clone(),
            resource: None,
        }
    }
}

impl fmt::Display for Target {
    /// Prints the canonical spelling.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = ModulePath(self.module.clone());
        write!(f, "{module}")?;
        let Some(resource) = &self.resource else {
            return Ok(());
        };
        if !self.module.is_empty() {
            f.write_str(".")?;
        }
        let TargetResource {
            mode,
            kind,
            name,
            key,
        } = resource;
        write!(f, "{}{kind}.{name}", mode.prefix())?;
        match key {
            Some(key) => write!(f, "[{key}]"),
            None => Ok(()),
        }
    }
}
