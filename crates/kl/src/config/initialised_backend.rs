//! The record that `terraform init` leaves of the backend it initialised.
//!
//! `$TF_DATA_DIR/terraform.tfstate` (default `.terraform`) holds the block merged with
//! `-backend-config`; what comes from `TF_HTTP_*` is null there and read anew by each command.

use serde::Deserialize;

use super::terraform::HttpBackend;
use super::{Origin, Surroundings};
use crate::secret::Secret;

#[derive(Deserialize)]
struct Record {
    backend: Option<Backend>,
}

#[derive(Deserialize)]
struct Backend {
    r#type: String,
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    address: Option<String>,
    password: Option<String>,
}

/// The http backend that was initialised here, or why what was found is of no use; `Ok(None)` if
/// nothing was.
pub(super) fn read(surroundings: &Surroundings) -> Result<Option<HttpBackend>, String> {
    let data = surroundings.variable("TF_DATA_DIR").unwrap_or(".terraform");
    let path = surroundings.directory.join(data).join("terraform.tfstate");
    let shown = surroundings.shown(&path);
    let Ok(bytes) = std::fs::read(&path) else {
        return Ok(None);
    };
    // The reason is left out: serde's messages may quote a value, and passwords stand in this file.
    let record: Record = serde_json::from_slice(&bytes)
        .map_err(|_| format!("{} is not a record of `terraform init`", shown.display()))?;
    let Some(backend) = record.backend else {
        return Ok(None);
    };
    if backend.r#type != "http" {
        return Err(format!(
            "{}: the initialised backend is `{}`, not `http`",
            shown.display(),
            backend.r#type
        ));
    }
    let origin = Origin::File(shown);
    let (address, password) = backend
        .config
        .map_or((None, None), |c| (c.address, c.password));
    Ok(Some(HttpBackend {
        address: address.map(|address| (address, origin.clone())),
        password: password.map(|password| (Secret::new(password), origin)),
    }))
}
