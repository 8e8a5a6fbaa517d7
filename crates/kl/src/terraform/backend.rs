//! Which backend the configuration has: a run needs `http`, to be led elsewhere.

use std::path::Path;

use super::override_file::OverrideFile;
use crate::config::{BackendKind, StateAddress, backend_kind};
use crate::failure::{Failure, Result};

/// Makes sure that the backend can be redirected: it is `http`, or may be overridden while kl works; answers whether it has
/// to be.
///
/// # Errors
/// A usage failure with the block to paste.
pub(crate) fn require_http(
    directory: &Path,
    state: &StateAddress,
    may_override: bool,
) -> Result<bool> {
    let problem = match kind(directory)? {
        BackendKind::Http => return Ok(false),
        BackendKind::None => "the configuration has no backend block".to_owned(),
        BackendKind::Other(other) => {
            format!("the configuration keeps its state in `{other}`, not in Kilolock")
        }
    };
    if may_override {
        return Ok(true);
    }
    Err(Failure::usage(problem)
        .hint("put this into the configuration and run `terraform init`:")
        .hint("terraform { backend \"http\" {} }")
        .hint(format!(
            "with `kl init {}` for the whole block",
            state.url()
        ))
        .hint(
            "where that cannot be, `--override-backend` does it in a file beside it while kl works",
        ))
}

/// Overrides the backend as long as the value lives.
///
/// # Errors
/// Where somebody else's override file still has its way.
pub(crate) fn override_backend(directory: &Path) -> Result<OverrideFile> {
    let file = OverrideFile::write(directory)?;
    match kind(directory)? {
        BackendKind::Http => Ok(file),
        _ => Err(Failure::usage(
            "another override file has the last word on the backend, and names another than http",
        )),
    }
}

fn kind(directory: &Path) -> Result<BackendKind> {
    backend_kind(directory).map_err(Failure::failed)
}
