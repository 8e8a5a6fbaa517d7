//! Finds what a target means, and what joins a write set through moves.

use std::collections::BTreeSet;

use super::{TouchedMove, WriteSet};
use crate::{
    address::{ConfigAddress, ConfigModule},
    configuration::Configuration,
    moves::{self, Named},
    target::Target,
};

impl Configuration {
    /// Adds what `target` means to the write set. False if nothing declared or moved matches.
    pub(super) fn take(&self, target: &Target, write: &mut WriteSet) -> bool {
        let Some(address) = target.config_address() else {
            return self.take_module(&target.config_module(), write);
        };
        if self.find_node(&address).is_some() {
            write.addresses.insert(address);
            return true;
        }
        let mut known = self.is_within_unknown_module(&address.module);
        known |= self.moves.iter().any(|moved| moved.concerns(&address));
        known |= self.removed.iter().any(|removed| {
            removed.from.config_address().as_ref() == Some(&address)
                || (removed.from.resource.is_none()
                    && removed.from.config_module().contains(&address.module))
        });
        write.former.insert(address);
        known
    }

    pub(super) fn take_module(&self, module: &ConfigModule, write: &mut WriteSet) -> bool {
        let beneath = self
            .nodes()
            .filter(|node| module.contains(&node.address.module));
        write
            .addresses
            .extend(beneath.map(|node| node.address.clone()));
        write.modules.insert(module.clone());
        self.modules().any(|known| known == module)
            || self.is_within_unknown_module(module)
            || self.moves.iter().any(|moved| moved.concerns_module(module))
            || self.removed.iter().any(|removed| {
                removed.from.resource.is_none() && removed.from.config_module() == *module
            })
    }

    /// Adds the other ends of all moves that the write set has a part in. Returns why the write
    /// set became larger.
    pub(super) fn follow_moves(
        &self,
        write: &mut WriteSet,
        targets: &mut Vec<Target>,
    ) -> Vec<String> {
        let asked = write.addresses.clone();
        let mut touched = Vec::new();
        // A module that joins brings what is declared in it, which may have moved in its turn. As
        // in `follow`, each move counts once.
        for _ in 0..=self.moves.len() {
            let named = write.named();
            let (found, all) = moves::follow(&self.moves, &named);
            touched = found;
            if all == named {
                break;
            }
            for module in all.modules.difference(&named.modules) {
                targets.push(Target::from(module));
                self.take_module(module, write);
            }
            for address in all.addresses.difference(&named.addresses) {
                targets.push(Target::from(address));
                self.take(&Target::from(address), write);
            }
        }
        let added: Vec<String> = write
            .addresses
            .difference(&asked)
            .map(ToString::to_string)
            .collect();
        if added.is_empty() {
            return Vec::new();
        }
        let places: Vec<String> = touched.iter().map(|moved| moved.at.to_string()).collect();
        vec![format!(
            "{} joined the selection through moved blocks at {}",
            added.join(", "),
            places.join(", ")
        )]
    }

    /// The moves that the write set or what it needs take part in, and the addresses at their ends
    /// that are not in the closure.
    pub(super) fn touched_moves(
        &self,
        write: &WriteSet,
        closure: &BTreeSet<ConfigAddress>,
    ) -> (Vec<TouchedMove>, BTreeSet<ConfigAddress>) {
        let mut named = write.named();
        let (in_write_set, _) = moves::follow(&self.moves, &named);
        named.addresses.extend(closure.iter().cloned());
        let (touched, ends) = moves::follow(&self.moves, &named);
        let touched = touched.into_iter().map(|moved| TouchedMove {
            moved: moved.clone(),
            in_write_set: in_write_set.contains(&moved),
        });
        (
            touched.collect(),
            ends.addresses.difference(closure).cloned().collect(),
        )
    }

    fn is_within_unknown_module(&self, module: &ConfigModule) -> bool {
        self.loaded
            .unresolved
            .iter()
            .any(|(path, ..)| path.contains(module))
    }
}

impl WriteSet {
    /// Everything the write set names, declared or not.
    fn named(&self) -> Named {
        Named {
            addresses: self.addresses.union(&self.former).cloned().collect(),
            modules: self.modules.clone(),
        }
    }
}
