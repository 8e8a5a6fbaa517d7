//! A scope contract in the words of the wire.

use std::time::Duration;

use graph::claims::{Access, ClaimSet};
use graph::confidence::Confidence;
use graph::scope::ScopeContract;
use protocol::scope as wire;

use crate::graphs::Provenance;

/// How an answer came about.
pub(super) struct Work {
    pub(super) provenance: Provenance,
    pub(super) duration: Duration,
}

pub(super) fn contract(
    contract: &ScopeContract,
    dependents: Vec<String>,
    work: &Work,
) -> wire::ScopeContract {
    wire::ScopeContract {
        fetch_addresses: contract.fetch_addresses.clone(),
        write_addresses: contract.write_addresses.clone(),
        read_addresses: contract.read_addresses.clone(),
        config_required_nodes: contract.config_required_nodes.clone(),
        removed_config_nodes: contract.removed_config_nodes.clone(),
        missing_from_state: contract.missing_from_state.clone(),
        undeployed_candidates: contract.undeployed_candidates.clone(),
        unknown_missing_from_state: contract.unknown_missing_from_state.clone(),
        reservation_candidates: claims(&contract.reservation_candidates),
        write_targets: contract
            .write_targets
            .iter()
            .map(ToString::to_string)
            .collect(),
        outputs_inside: contract.outputs.inside.clone(),
        outputs_written: contract.outputs.written.clone(),
        outputs_beyond: contract
            .outputs
            .beyond
            .iter()
            .map(|output| wire::ScopeOutput {
                name: output.name.clone(),
                dependencies: output.outside.clone(),
            })
            .collect(),
        dependents,
        confidence: match contract.confidence {
            Confidence::Safe => wire::ScopeConfidence::Safe,
            Confidence::Widened => wire::ScopeConfidence::Widened,
            Confidence::Unsafe => wire::ScopeConfidence::Unsafe,
        },
        notes: contract.notes(),
        diagnostics: diagnostics(contract, work),
    }
}

/// Claims as the protocol writes them.
fn claims(claims: &ClaimSet) -> Vec<wire::ScopeClaim> {
    let claim = |(path, access): (&graph::claims::Path, Access)| wire::ScopeClaim {
        address: path.to_string(),
        mode: match access {
            Access::Read => wire::ClaimMode::Read,
            Access::Write => wire::ClaimMode::Write,
        },
    };
    claims.iter().map(claim).collect()
}

fn diagnostics(contract: &ScopeContract, work: &Work) -> wire::ScopeDiagnostics {
    let counted = &contract.diagnostics;
    wire::ScopeDiagnostics {
        graph_cache_hit: work.provenance == Provenance::Cached,
        realized_resource_count: counted.realized_resource_count as u64,
        dependency_edge_count: counted.dependency_edge_count as u64,
        inventory_scan_count: match work.provenance {
            Provenance::Cached => 0,
            Provenance::Patched { rows } | Provenance::Shared { rows } => rows as u64,
            Provenance::Built => counted.realized_resource_count as u64,
        },
        walked_node_count: counted.walked_node_count as u64,
        config_node_count: counted.config_node_count as u64,
        module_selector_count: counted.module_selector_count as u64,
        fetch_address_count: counted.fetch_address_count as u64,
        write_address_count: counted.write_address_count as u64,
        read_address_count: counted.read_address_count as u64,
        expand_duration_ms: u64::try_from(work.duration.as_millis()).unwrap_or(u64::MAX),
    }
}
