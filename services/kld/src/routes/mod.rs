//! The handlers, and the route table put together from each module's rows.

mod archives;
mod events;
pub mod parameter;
mod runs;
pub mod service;
mod state_engine;
mod states;
pub mod tenancy;
pub(crate) mod terraform;

use crate::table::Route;

/// Every route of the service.
#[must_use]
pub fn table() -> Vec<Route> {
    let mut routes = service::routes();
    routes.extend(tenancy::routes());
    routes.extend(terraform::routes());
    routes.extend(states::routes());
    routes.extend(archives::routes());
    routes.extend(runs::routes());
    routes.extend(events::routes());
    routes.extend(state_engine::routes());
    routes
}
