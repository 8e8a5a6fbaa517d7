//! From a contract to `-target` options.
//!
//! Where Kilolock takes an address without a key for all instances, Terraform takes a module step
//! without a key for the instance that has none. So keys are filled in from the state.

use std::collections::BTreeSet;

use config_scope::{Target, TargetResource};
use protocol::scope::ScopeContract;
use tfstate::Address;

use super::cover::{covers, parse_target};

/// The targets of a plan on the scope; none means the whole state.
pub(crate) fn plan_targets(contract: &ScopeContract) -> Vec<String> {
    let written: Vec<Address> = contract
        .write_addresses
        .iter()
        .filter_map(|address| address.parse().ok())
        .collect();
    let mut targets = BTreeSet::new();
    for text in &contract.write_targets {
        if text == "*" {
            return Vec::new();
        }
        targets.insert(text.clone());
        if let Some(target) = parse_target(text) {
            targets.extend(keyed(&target, &written));
        }
    }
    targets.into_iter().collect()
}

/// The target once for each set of module keys that the state has and the target leaves out.
fn keyed(target: &Target, written: &[Address]) -> Vec<String> {
    // The last step of a module target may stay without a key: that means all its instances.
    let steps = match target.resource {
        Some(_) => target.module.len(),
        None => target.module.len().saturating_sub(1),
    };
    let leaves_out = |address: &&Address| {
        let pairs = target.module[..steps].iter().zip(&address.module);
        let mut pairs = pairs.map(|(wanted, step)| wanted.key.is_none() && step.key.is_some());
        covers(target, address) && pairs.any(|is| is)
    };
    let with_keys = |address: &Address| {
        let mut module = target.module.clone();
        for (wanted, step) in module[..steps].iter_mut().zip(&address.module) {
            wanted.key = step.key.clone();
        }
        let resource: Option<TargetResource> = target.resource.clone();
        Target { module, resource }.to_string()
    };
    written.iter().filter(leaves_out).map(with_keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_keys_are_filled_in_from_the_state() {
        let written: Vec<Address> = [
            "module.a[\"x\"].t.r[0]",
            "module.a[\"y\"].t.r",
            "module.b.t.r[1]",
        ]
        .map(|address| address.parse().unwrap())
        .into();
        let of = |text: &str| keyed(&parse_target(text).unwrap(), &written);
        assert_eq!(
            of("module.a.t.r"),
            ["module.a[\"x\"].t.r", "module.a[\"y\"].t.r"]
        );
        assert!(of("module.a").is_empty());
        assert!(of("module.b.t.r").is_empty());
        assert!(of("module.a[\"x\"].t.r").is_empty());
    }
}
