//! Pages by cursor, the same on every list.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How many entries a page has when the request does not say.
pub const DEFAULT_LIMIT: u32 = 100;
/// The largest page. More would hold a connection and memory for one caller.
pub const MAX_LIMIT: u32 = 1000;

/// Which part of a list is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// At most this many entries, 1 to 1000; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before. Opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl PageQuery {
    /// The number of entries to give: what was asked for, brought between 1 and [`MAX_LIMIT`].
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }
}
