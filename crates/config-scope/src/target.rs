//! What a person, a `moved` block or a plan option names: a module or a resource, one instance of
//! it or all of them.

use std::fmt;

use crate::{
    address::{ConfigAddress, ConfigModule, Key, Mode, ModuleStep},
    syntax::read_target,
};

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

/// A text that names neither a module nor a resource.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` names neither a module nor a resource")]
pub struct NotATarget(pub String);

impl std::str::FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Self, NotATarget> {
        read_target(text).ok_or_else(|| NotATarget(text.to_owned()))
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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &Option<Key>| key.as_ref().map_or(String::new(), |key| format!("[{key}]"));
        let mut words: Vec<String> = Vec::new();
        for step in &self.module {
            words.push(format!("module.{}{}", step.name, key(&step.key)));
        }
        if let Some(resource) = &self.resource {
            let TargetResource {
                mode,
                kind,
                name,
                key: own,
            } = resource;
            words.push(format!("{}{kind}.{name}{}", mode.prefix(), key(own)));
        }
        f.write_str(&words.join("."))
    }
}
