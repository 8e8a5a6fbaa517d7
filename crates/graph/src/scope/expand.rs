//! Works out a scope contract.

use std::collections::BTreeSet;

use crate::RealizedGraph;
use crate::claims::{Access, ClaimSet};
use crate::confidence::{self, Confidence, Facts};
use crate::realized::NodeId;

use super::claims::{self, Claims};
use super::drawn::{self, Addresses, Drawn};
use super::moves;
use super::outputs::ScopeOutputs;
use super::shape::CallShapes;
use super::union::Union;
use super::walk::Nodes;
use super::widen::{self, Wider};
use super::{Diagnostics, Operation, ScopeContract, ScopeRequest, Target};

/// Closes a scope over the realized graph and the configuration.
///
/// The closure is over blocks: of each block that the write set depends on, all instances in all
/// module instances are part of the scope, because that is what Terraform plans.
pub fn expand(graph: &RealizedGraph, request: &ScopeRequest) -> ScopeContract {
    let union = Union::new(graph, request.configuration.as_ref());
    let pending = moves::pending(&union);
    let mut write: Vec<Target> = request
        .write
        .iter()
        .chain(&request.removed)
        .cloned()
        .collect();
    let mut added = Wider::default();
    let mut refused = Wider::default();
    let drawn = loop {
        let drawn = Drawn::new(&union, request.operation, &write, &request.read);
        let mut wider = widen::widen(&union, &drawn, &write, &pending);
        if wider.is_empty() {
            break drawn;
        }
        if request.operation == Operation::Destroy {
            // One more target is one more thing destroyed: nobody asked for that.
            refused = wider;
            break drawn;
        }
        write.extend(wider.moved.iter().chain(&wider.reshaped).cloned());
        added.moved.append(&mut wider.moved);
        added.reshaped.append(&mut wider.reshaped);
    };
    let addresses = Addresses::of(&union, &drawn, &write);
    let missing = Missing::of(&union, &drawn, request);
    let created = created(&union, &drawn, request.operation);
    let outputs = ScopeOutputs::of(&union, &drawn, &created);
    let (claims, whole_calls) = claim(&union, &drawn, &write, &created, &outputs);
    let touched = widen::touched(&union, &drawn, &write, &pending);
    let facts = Facts {
        nothing_targeted: write.is_empty() && request.read.is_empty(),
        configuration_unknown: request.configuration.is_none(),
        doubts: union
            .configuration
            .map_or_else(Vec::new, |known| known.doubts.clone()),
        unknown: texts(&missing.unknown),
        unreadable: texts(&addresses.unreadable),
        unmovable: texts(refused.moved.iter().chain(&refused.reshaped)),
        dependents: names(&union, drawn.dependents.iter().copied()),
        moved: texts(&added.moved),
        reshaped: texts(&added.reshaped),
        created: names(&union, created.iter()),
        coarsened: texts(claims.coarsened()),
        whole_calls,
        outputs_beyond: outputs
            .beyond
            .iter()
            .map(|output| output.name.clone())
            .collect(),
    };
    let findings = confidence::findings(facts);
    let is_module = |target: &&Target| matches!(target, Target::Module(_));
    ScopeContract {
        fetch_addresses: texts(addresses.write.union(&addresses.read)),
        write_addresses: texts(&addresses.write),
        read_addresses: texts(addresses.read.difference(&addresses.write)),
        config_required_nodes: required(&union, &drawn),
        removed_config_nodes: removed(&union, &drawn, request),
        missing_from_state: texts(&missing.missing),
        undeployed_candidates: texts(&missing.undeployed),
        unknown_missing_from_state: texts(&missing.unknown),
        moves: touched.into_iter().cloned().collect(),
        confidence: Confidence::of(&findings),
        findings,
        diagnostics: Diagnostics {
            realized_resource_count: graph.instance_count(),
            dependency_edge_count: drawn.walked_edges,
            walked_node_count: drawn.closure.len(),
            config_node_count: union.configuration.map_or(0, |known| known.nodes.len()),
            module_selector_count: request.write.iter().filter(is_module).count(),
            fetch_address_count: addresses.write.union(&addresses.read).count(),
            write_address_count: addresses.write.len(),
            read_address_count: addresses.read.difference(&addresses.write).count(),
        },
        reservation_candidates: claims,
        write_targets: write,
        outputs,
    }
}

/// What was named or referred to and is not in the state.
#[derive(Default)]
struct Missing {
    missing: BTreeSet<String>,
    undeployed: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

impl Missing {
    fn of(union: &Union<'_>, drawn: &Drawn, request: &ScopeRequest) -> Self {
        let mut found = Self::default();
        for target in request.write.iter().chain(&request.read) {
            if drawn::is_in_state(union, target) {
                continue;
            }
            let nodes = union.nodes_of(target);
            let is_declared = nodes.iter().any(|node| union.declaration(*node).is_some());
            // Nothing ephemeral is ever in a state.
            if is_declared && target.is_ephemeral() {
                continue;
            }
            found.missing.insert(target.to_string());
            found.sort_in(request, target, is_declared);
        }
        for (from, block) in union.dangling() {
            if drawn.closure.contains(*from) {
                found.sort_in(request, &Target::from(*block), false);
            }
        }
        found
    }

    /// What the client says was removed is missing rightly.
    fn sort_in(&mut self, request: &ScopeRequest, target: &Target, is_declared: bool) {
        let is_among = |some: &[Target]| some.iter().any(|other| other.includes(target));
        if is_declared || is_among(&request.undeployed) {
            self.undeployed.insert(target.to_string());
        } else if !is_among(&request.removed) && *target != Target::Everything {
            self.unknown.insert(target.to_string());
        }
    }
}

/// The blocks that the run will create because something in the write set needs them. Destroying
/// creates nothing.
fn created(union: &Union<'_>, drawn: &Drawn, operation: Operation) -> Nodes {
    let calls = CallShapes::of(union.configuration);
    let mut created = Nodes::none(union);
    if operation == Operation::Destroy {
        return created;
    }
    for node in drawn.closure.iter() {
        if !drawn.writes(node) && claims::is_created(union, &calls, node) {
            created.add(node);
        }
    }
    created
}

fn claim(
    union: &Union<'_>,
    drawn: &Drawn,
    write: &[Target],
    created: &Nodes,
    outputs: &ScopeOutputs,
) -> (ClaimSet, Vec<String>) {
    let mut claims = Claims::new(union, drawn);
    for target in write {
        claims.target(target, Access::Write);
    }
    for node in drawn.dependents.iter().copied().chain(created.iter()) {
        claims.block(union, node, Access::Write);
    }
    for node in drawn
        .closure
        .iter()
        .filter(|node| !drawn.whole.contains(*node))
    {
        claims.block(union, node, Access::Read);
    }
    for name in &outputs.written {
        claims.output(name);
    }
    let whole_calls = texts(&claims.whole_calls);
    (ClaimSet::new(claims.into_claims()), whole_calls)
}

/// The declared blocks of the scope that a state could hold, and this one does not.
fn required(union: &Union<'_>, drawn: &Drawn) -> Vec<String> {
    let is_required = |node: &NodeId| {
        let in_state = union.mode(*node).and_then(|mode| mode.in_state());
        in_state.is_some() && union.declaration(*node).is_some() && !union.is_realized(*node)
    };
    names(union, drawn.closure.iter().filter(is_required))
}

/// What the client said was removed, and what is written although it is not declared.
fn removed(union: &Union<'_>, drawn: &Drawn, request: &ScopeRequest) -> Vec<String> {
    let mut removed: BTreeSet<String> = request.removed.iter().map(ToString::to_string).collect();
    if union.configuration.is_some() {
        let is_removed = |node: &NodeId| drawn.writes(*node) && union.declaration(*node).is_none();
        removed.extend(names(union, drawn.closure.iter().filter(is_removed)));
    }
    removed.into_iter().collect()
}

/// The addresses of nodes, sorted.
fn names(union: &Union<'_>, nodes: impl Iterator<Item = NodeId>) -> Vec<String> {
    let mut names: Vec<String> = nodes.map(|node| union.name(node).to_owned()).collect();
    names.sort_unstable();
    names
}

/// Things as texts, in the order they come.
fn texts<T: ToString>(things: impl IntoIterator<Item = T>) -> Vec<String> {
    things.into_iter().map(|thing| thing.to_string()).collect()
}

/// The managed blocks that the state has objects of and the configuration does not declare, sorted.
/// A run must list them for its user, and neither include nor skip them silently.
pub fn orphans(graph: &RealizedGraph, request: &ScopeRequest) -> Vec<String> {
    let union = Union::new(graph, request.configuration.as_ref());
    let is_orphan = |node: &NodeId| {
        union.declaration(*node).is_none()
            && union.is_realized(*node)
            && union.mode(*node) == Some(crate::BlockMode::Managed)
    };
    names(&union, graph.nodes_within("").filter(is_orphan))
}
