//! What depends on what in a state.

use axum::Json;
use axum::extract::State;
use graph::{ConfigAddress, Reach};
use protocol::Code;
use protocol::states::GraphNeighbours;
use serde::Deserialize;
use tfstate::Address;
use utoipa::IntoParams;

use crate::access::StateCaller;
use crate::error::ApiError;
use crate::routes::parameter::QueryParams;
use crate::routes::terraform::acting;
use crate::state::AppState;

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct GraphQuery {
    /// A resource's address, with or without keys: the graph is one of blocks.
    address: String,
    /// Whether to follow dependencies to their end; direct ones only unless given.
    #[serde(default)]
    transitive: bool,
}

/// What a resource depends on and what depends on it, as far as recorded.
#[utoipa::path(get, path = "/v1/states/{ws}/{env}/{name}/graph", tag = "states",
    params(GraphQuery, ("ws" = String, Path), ("env" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = GraphNeighbours)))]
pub(super) async fn get_graph(
    State(app): State<AppState>,
    caller: StateCaller,
    QueryParams(query): QueryParams<GraphQuery>,
) -> Result<Json<GraphNeighbours>, ApiError> {
    let block = block(&query.address)?;
    let reach = if query.transitive {
        Reach::Transitive
    } else {
        Reach::Direct
    };
    let found = app
        .engine
        .surroundings(&acting(&caller)?, caller.name(), &block, reach)
        .await?;
    Ok(Json(GraphNeighbours {
        seq: found.seq,
        address: block.to_string(),
        instances: found.instances,
        dependencies: found.neighbours.dependencies,
        dependents: found.neighbours.dependents,
        transitive: query.transitive,
    }))
}

fn block(text: &str) -> Result<ConfigAddress, ApiError> {
    if let Ok(block) = text.parse() {
        return Ok(block);
    }
    let address: Address = text.parse().map_err(|error: tfstate::AddressError| {
        ApiError::with_detail(Code::InvalidRequest, format!("`address`: {error}"))
    })?;
    ConfigAddress::of(&address).ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "`address`: this type has no place in a graph",
        )
    })
}
