//! Which backend the configuration has: a run needs `http`, to be led elsewhere.

use std::path::Path;

use crate::config::{BackendKind, StateAddress, backend_kind};
use crate::failure::{Failure, Result};

/// Refuses a configuration whose backend cannot be redirected, and says what to add.
///
/// # Errors
/// A usage failure with the block to paste.
pub(crate) fn require_http(directory: &Path, state: &StateAddress) -> Result<()> {
    let kind = backend_kind(directory).map_err(Failure::failed)?;
    let problem = match kind {
        BackendKind::Http => return Ok(()),
        BackendKind::None => "the configuration has no backend block".to_owned(),
        BackendKind::Other(other) => {
            format!("the configuration keeps its state in `{other}`, not in Kilolock")
        }
    };
    Err(Failure::usage(problem)
        .hint("put this into the configuration and run `terraform init`:")
        .hint("terraform { backend \"http\" {} }")
        .hint(format!(
            "with `kl init {}` for the whole block",
            state.url()
        )))
}
