//! Scopes that clients ask for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::history::Claim;

/// What a client wants of a state.
pub(super) struct Wanted {
    pub(super) write: Vec<String>,
    /// Each block of the scope, and what it depends on.
    blocks: Vec<(String, Vec<String>)>,
    pub(super) claims: Vec<Claim>,
}

impl Wanted {
    pub(super) fn write(addresses: &[String]) -> Self {
        Self {
            write: addresses.to_vec(),
            blocks: addresses
                .iter()
                .map(|address| (address.clone(), Vec::new()))
                .collect(),
            claims: addresses
                .iter()
                .map(|address| claim(address, true))
                .collect(),
        }
    }

    /// All of it.
    pub(super) fn everything(addresses: &[String]) -> Self {
        Self {
            write: vec!["*".to_owned()],
            claims: vec![claim("*", true)],
            ..Self::write(addresses)
        }
    }

    /// A module with all that is in it.
    pub(super) fn module(module: &str, addresses: &[String]) -> Self {
        let inside: Vec<String> = addresses
            .iter()
            .filter(|address| address.starts_with(module))
            .cloned()
            .collect();
        Self {
            write: vec![module.to_owned()],
            claims: vec![claim(module, true)],
            ..Self::write(&inside)
        }
    }

    /// Besides, the first of them depends on another, which is read.
    pub(super) fn reading(mut self, address: &str) -> Self {
        if let Some((_, dependencies)) = self.blocks.first_mut() {
            dependencies.push(address.to_owned());
            self.blocks.push((address.to_owned(), Vec::new()));
            self.claims.push(claim(address, false));
        }
        self
    }

    /// The addresses that it may write.
    pub(super) fn covered(&self) -> BTreeSet<String> {
        let writes = |address: &&String| {
            !self
                .claims
                .iter()
                .any(|claim| !claim.write && claim.address == **address)
        };
        let blocks = self.blocks.iter().map(|(address, _)| address);
        blocks.filter(writes).cloned().collect()
    }

    pub(super) fn scope(&self) -> Value {
        let nodes = self.blocks.iter().map(|(address, dependencies)| {
            json!({ "address": address, "dependencies": dependencies, "repetition": "single" })
        });
        json!({
            "write": self.write,
            "configuration": { "nodes": nodes.collect::<Vec<_>>(), "calls": [], "outputs": [] },
        })
    }
}

pub(super) fn claim(address: &str, write: bool) -> Claim {
    Claim {
        address: address.to_owned(),
        write,
    }
}
