//! Scopes worked out, before a run or without one.

use axum::Json;
use axum::extract::State;
use protocol::scope::{ScopeConfiguration, ScopeRequest};
use protocol::state_engine::{ExpandRequest, ExpandResponse};
use serde_json::Value;

use super::full_name;
use crate::access::Named;
use crate::error::ApiError;
use crate::routes::terraform::acting;
use crate::state::AppState;

/// A configuration of a hundred thousand blocks with their references fits.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Works out a scope on the newest version.
#[utoipa::path(post, path = "/v1/state-engine/scope/expand", tag = "state engine", request_body = ExpandRequest,
    responses((status = 200, body = ExpandResponse)))]
pub(super) async fn expand_scope(
    State(app): State<AppState>,
    Named { caller, body }: Named<ExpandRequest, MAX_BYTES>,
) -> Result<Json<Value>, ApiError> {
    let expanded = app
        .engine
        .expand(&acting(&caller)?, caller.name(), &asked(body))
        .await?;
    let contract = expanded.wire;
    let response = ExpandResponse {
        state: full_name(&caller),
        contract_source: "backend_authoritative".to_owned(),
        seq: expanded.seq,
        fetch_addresses: contract.fetch_addresses.clone(),
        realized_write_closure: contract.write_addresses.clone(),
        realized_read_closure: contract.read_addresses.clone(),
        missing_from_state: contract.missing_from_state.clone(),
        undeployed_candidates: contract.undeployed_candidates.clone(),
        unknown_missing_from_state: contract.unknown_missing_from_state.clone(),
        reservation_candidates: contract.reservation_candidates.clone(),
        confidence: contract.confidence,
        notes: contract.notes.clone(),
        diagnostics: contract.diagnostics,
        scope_contract: contract,
    };
    let mut answer = serde_json::to_value(response).map_err(|error| ApiError::internal(&error))?;
    for holder in [
        "/reservation_candidates",
        "/scope_contract/reservation_candidates",
    ] {
        if let Some(Value::Array(claims)) = answer.pointer_mut(holder) {
            claims.iter_mut().for_each(spell_both_ways);
        }
    }
    Ok(Json(answer))
}

/// The protocol calls the address of a claim `address_glob`.
fn spell_both_ways(claim: &mut Value) {
    if let Value::Object(members) = claim
        && let Some(address) = members.get("address").cloned()
    {
        members.insert("address_glob".to_owned(), address);
    }
}

/// One request out of what was said in the service's own words and in those of the protocol.
fn asked(request: ExpandRequest) -> ScopeRequest {
    let (mut scope, context) = (request.scope, request.client_context);
    let known = |selector: &protocol::state_engine::Selector| {
        matches!(selector.kind.as_str(), "resource_address" | "module_prefix")
    };
    let selected = request.selectors.into_iter().filter(known);
    scope.write.extend(selected.map(|selector| selector.value));
    scope.write.extend(context.explicit_write_candidates);
    scope.read.extend(context.explicit_read_candidates);
    scope
        .undeployed
        .extend(context.undeployed_config_candidates);
    scope.removed.extend(context.removed_config_candidates);
    if !context.config_nodes.is_empty() {
        let configuration = scope
            .configuration
            .get_or_insert_with(ScopeConfiguration::default);
        configuration.nodes.extend(context.config_nodes);
    }
    scope
}

#[cfg(test)]
mod tests {
    use protocol::scope::{ClaimMode, ScopeClaim, ScopeNode, ScopeRepetition};
    use protocol::state_engine::{ClientContext, Selector};

    use super::*;

    #[test]
    fn both_ways_of_asking_are_one_request() {
        let selector = |kind: &str, value: &str| Selector {
            kind: kind.to_owned(),
            value: value.to_owned(),
        };
        let node = ScopeNode {
            address: "t.c".to_owned(),
            dependencies: Vec::new(),
            repetition: ScopeRepetition::Unknown,
        };
        let scope = asked(ExpandRequest {
            scope: ScopeRequest {
                write: vec!["t.a".to_owned()],
                ..ScopeRequest::default()
            },
            selectors: vec![
                selector("resource_address", "t.b"),
                selector("module_prefix", "module.m"),
                selector("file_hint", "main.tf"),
            ],
            client_context: ClientContext {
                explicit_write_candidates: vec!["t.c".to_owned()],
                explicit_read_candidates: vec!["t.d".to_owned()],
                undeployed_config_candidates: vec!["t.c".to_owned()],
                removed_config_candidates: vec!["t.e".to_owned()],
                config_nodes: vec![node.clone()],
            },
            ..ExpandRequest::default()
        });
        assert_eq!(scope.write, ["t.a", "t.b", "module.m", "t.c"]);
        assert_eq!(
            (scope.read, scope.removed),
            (vec!["t.d".to_owned()], vec!["t.e".to_owned()])
        );
        assert_eq!(scope.undeployed, ["t.c"]);
        assert_eq!(scope.configuration.unwrap().nodes, [node]);
    }

    #[test]
    fn a_claim_is_spelled_both_ways() {
        let claim = ScopeClaim {
            address: "t.a".to_owned(),
            mode: ClaimMode::Write,
        };
        let mut claim = serde_json::to_value(claim).unwrap();
        spell_both_ways(&mut claim);
        let expected =
            serde_json::json!({"address": "t.a", "address_glob": "t.a", "mode": "write"});
        assert_eq!(claim, expected);
    }
}
