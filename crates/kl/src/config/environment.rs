//! The environment as a source of settings.
//!
//! `KL_STATE_URL` names a whole state; `KL_SERVER`, `KL_WORKSPACE`, `KL_ENVIRONMENT` and `KL_STATE`
//! say it part by part. `KL_API_URL` is an older name of `KL_SERVER`.

use std::str::FromStr;

use super::address::{environment_id, state_name, workspace_id};
use super::{CredentialSource, Layer, Origin, Sourced, StateAddress, Surroundings};
use crate::failure::{Failure, Result};

/// # Errors
/// Usage failures that name the variable.
pub(super) fn read(surroundings: &Surroundings) -> Result<Layer> {
    let reader = Reader(surroundings);
    let layer = Layer {
        server: match reader.parsed("KL_SERVER")? {
            Some(server) => Some(server),
            None => reader.parsed("KL_API_URL")?,
        },
        workspace: reader.read("KL_WORKSPACE", workspace_id)?,
        environment: reader.read("KL_ENVIRONMENT", environment_id)?,
        state: reader.read("KL_STATE", state_name)?,
        protocol: reader.parsed("KL_PROTOCOL")?,
        credential: reader.credential(),
        wait: reader.parsed("KL_WAIT")?,
        confirm: reader.parsed("KL_CONFIRM")?,
        fallback: reader.parsed("KL_FALLBACK")?,
        iac_binary: match reader.parsed("KL_IAC_BINARY")? {
            Some(binary) => Some(binary),
            None => reader.parsed("KL_IAC_BIN")?,
        },
    };
    match reader.parsed::<StateAddress>("KL_STATE_URL")? {
        Some(address) => layer.and(Layer::of_state(address.value, &address.origin)),
        None => Ok(layer),
    }
}

struct Reader<'a>(&'a Surroundings);

impl Reader<'_> {
    fn parsed<T>(&self, name: &str) -> Result<Option<Sourced<T>>>
    where
        T: FromStr<Err: ToString>,
    {
        self.read(name, str::parse)
    }

    fn read<T, E: ToString>(
        &self,
        name: &str,
        parse: fn(&str) -> Result<T, E>,
    ) -> Result<Option<Sourced<T>>> {
        let Some(text) = self.0.variable(name) else {
            return Ok(None);
        };
        let value = parse(text)
            .map_err(|error| Failure::usage(format!("{name}: {}", error.to_string())))?;
        Ok(Some(Sourced::new(value, Origin::Env(name.to_owned()))))
    }

    fn credential(&self) -> Option<Sourced<CredentialSource>> {
        let origin = |name: &str| Origin::Env(name.to_owned());
        if self.0.variable("KL_TOKEN").is_some() {
            let source = CredentialSource::Variable("KL_TOKEN".to_owned());
            return Some(Sourced::new(source, origin("KL_TOKEN")));
        }
        let file = self.0.variable("KL_TOKEN_FILE")?;
        let source = CredentialSource::File(self.0.expand(file, &self.0.directory));
        Some(Sourced::new(source, origin("KL_TOKEN_FILE")))
    }
}
