//! Which provider configuration serves a resource: written in its module, passed to it by name, or
//! inherited from a caller (`internal/terraform/transform_provider.go`).
//!
//! Local names differ from module to module, so the search goes by what the provider is.

use super::{ModuleNodes, NodeId};
use crate::{
    facts::ProviderName,
    module::{Loaded, Module},
};

/// The provider a type implies: its name up to the first underscore.
pub(super) fn implied(kind: &str) -> ProviderName {
    let local = kind
        .split_once('_')
        .map_or(kind, |(local, _)| local)
        .to_owned();
    ProviderName { local, alias: None }
}

/// The configurations that `name` means in `module`: one, or none where the provider is not
/// configured, or several where the passing of an alias cannot be followed.
pub(super) fn find(
    loaded: &Loaded,
    nodes: &[ModuleNodes],
    module: usize,
    name: &ProviderName,
) -> Vec<NodeId> {
    let mut at = module;
    let mut source = source_of(&loaded.modules[at], &name.local);
    let mut alias = name.alias.clone();
    loop {
        let here = &loaded.modules[at];
        let means =
            |found: &ProviderName| found.alias == alias && source_of(here, &found.local) == source;
        let found: Vec<NodeId> = nodes[at]
            .providers
            .iter()
            .filter(|(name, _)| means(name))
            .map(|(_, id)| *id)
            .collect();
        if !found.is_empty() {
            return found;
        }
        let Some(caller) = here.parent else {
            return Vec::new();
        };
        let passed = pairs(loaded, at, caller)
            .iter()
            .find(|(inside, _)| means(inside));
        match passed {
            Some((_, outside)) => {
                source = source_of(&loaded.modules[caller], &outside.local);
                alias.clone_from(&outside.alias);
            }
            // Only a default configuration is inherited.
            None if alias.is_some() => return any_of_source(loaded, nodes, at, &source),
            None => {}
        }
        at = caller;
    }
}

/// What the caller passes: name inside, name outside.
fn pairs(loaded: &Loaded, module: usize, caller: usize) -> &[(ProviderName, ProviderName)] {
    let call = loaded.modules[module].path.0.last();
    let call = call.and_then(|call| loaded.modules[caller].facts.calls.get(call));
    call.and_then(|call| call.facts.providers.as_deref())
        .unwrap_or_default()
}

/// An alias that nobody passes is an error to Terraform; every configuration of that provider on
/// the way up is taken.
fn any_of_source(
    loaded: &Loaded,
    nodes: &[ModuleNodes],
    module: usize,
    source: &str,
) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut at = Some(module);
    while let Some(index) = at {
        let here = &loaded.modules[index];
        let configured = nodes[index].providers.iter();
        let same = configured.filter(|(name, _)| source_of(here, &name.local) == source);
        found.extend(same.map(|(_, id)| *id));
        at = here.parent;
    }
    found
}

/// The full name of the provider that `local` means in a module, without the public registry.
fn source_of(module: &Module, local: &str) -> String {
    let source = module.facts.required_providers.get(local);
    let source = source.map_or(local, String::as_str).to_lowercase();
    let source = ["registry.terraform.io/", "registry.opentofu.org/"]
        .iter()
        .find_map(|host| source.strip_prefix(host))
        .unwrap_or(&source);
    match source {
        "terraform" => "terraform.io/builtin/terraform".to_owned(),
        _ if source.contains('/') => source.to_owned(),
        _ => format!("hashicorp/{source}"),
    }
}
