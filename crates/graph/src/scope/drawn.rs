//! A scope as it is drawn from a set of targets, before anything widens it.

use std::collections::BTreeSet;

use tfstate::Address;

use crate::realized::{NodeId, Object};

use super::union::Union;
use super::walk::{self, Nodes};
use super::{Operation, Target};

/// The blocks a scope consists of, and which of them it writes.
pub(super) struct Drawn {
    /// All blocks that are written or read, with everything these depend on.
    pub(super) closure: Nodes,
    /// Blocks of which all instances are written.
    pub(super) whole: Nodes,
    /// Blocks of which the instances that a keyed target means are written.
    pub(super) partly: Nodes,
    /// Blocks that are written only because a target they depend on is destroyed.
    pub(super) dependents: Vec<NodeId>,
    pub(super) walked_edges: usize,
}

impl Drawn {
    pub(super) fn new(
        union: &Union<'_>,
        operation: Operation,
        write: &[Target],
        read: &[Target],
    ) -> Self {
        let mut whole = Nodes::none(union);
        let mut partly = Nodes::none(union);
        for target in write {
            let nodes = if target.is_unkeyed() {
                &mut whole
            } else {
                &mut partly
            };
            for node in union.nodes_of(target) {
                nodes.add(node);
            }
        }
        let mut dependents = Vec::new();
        if operation == Operation::Destroy {
            let mut destroyed = Nodes::none(union);
            for node in whole.iter().chain(partly.iter()) {
                destroyed.add(node);
            }
            let targeted = destroyed.len();
            walk::add_dependents(union, &mut destroyed);
            dependents.extend(destroyed.iter().skip(targeted));
            for node in &dependents {
                whole.add(*node);
            }
        }
        let read = read.iter().flat_map(|target| union.nodes_of(target));
        let start = whole.iter().chain(partly.iter()).chain(read);
        let (closure, walked_edges) = walk::with_dependencies(union, start);
        Self {
            closure,
            whole,
            partly,
            dependents,
            walked_edges,
        }
    }

    /// Whether some or all instances of a block are written.
    pub(super) fn writes(&self, node: NodeId) -> bool {
        self.whole.contains(node) || self.partly.contains(node)
    }
}

/// The addresses of a scope in the state.
#[derive(Default)]
pub(super) struct Addresses<'a> {
    pub(super) write: BTreeSet<&'a str>,
    pub(super) read: BTreeSet<&'a str>,
    /// Addresses that say nothing, so that it is not known what they belong to.
    pub(super) unreadable: BTreeSet<&'a str>,
}

impl<'a> Addresses<'a> {
    pub(super) fn of(union: &Union<'a>, drawn: &Drawn, write: &[Target]) -> Self {
        let mut addresses = Self::default();
        let keyed: Vec<&Target> = write.iter().filter(|target| !target.is_unkeyed()).collect();
        for node in drawn.closure.iter() {
            if union.mode(node).is_none() {
                addresses.unreadable.insert(union.name(node));
            }
            for instance in union.graph.instances_at(node) {
                let text = instance.row.address;
                let is_written = drawn.whole.contains(node)
                    || drawn.partly.contains(node) && addresses.is_meant(text, &keyed);
                if is_written {
                    addresses.write.insert(text);
                } else {
                    addresses.read.insert(text);
                }
            }
        }
        addresses
    }

    fn is_meant(&mut self, text: &'a str, keyed: &[&Target]) -> bool {
        let Ok(address) = text.parse::<Address>() else {
            self.unreadable.insert(text);
            return false;
        };
        keyed.iter().any(|target| target.means(&address))
    }
}

/// Whether the state has an object that a target means.
pub(super) fn is_in_state(union: &Union<'_>, target: &Target) -> bool {
    let mut instances = union
        .nodes_of(target)
        .into_iter()
        .flat_map(|node| union.graph.instances_at(node))
        .filter(|instance| instance.row.object != Object::Shell);
    if target.is_unkeyed() {
        return instances.next().is_some();
    }
    instances.any(|instance| {
        let address = instance.row.address.parse::<Address>();
        address.is_ok_and(|address| target.means(&address))
    })
}
