//! What a target means in a state.

use std::collections::BTreeSet;

use tfstate::Address;

use crate::RealizedGraph;

use super::Target;
use super::dependents::nodes_of;

/// The addresses, of objects and of shells, that a target means in the state; sorted.
pub fn addresses_of(graph: &RealizedGraph, target: &Target) -> Vec<String> {
    let nodes = nodes_of(graph, target).into_iter();
    let texts = nodes
        .flat_map(|node| graph.instances_at(node))
        .map(|instance| instance.row.address);
    let is_meant = |text: &&str| {
        let address = text.parse::<Address>();
        target.is_unkeyed() || address.is_ok_and(|address| target.means(&address))
    };
    let meant: BTreeSet<&str> = texts.filter(is_meant).collect();
    meant.into_iter().map(str::to_owned).collect()
}
