//! What Terraform in this directory is configured to use: the weakest source of settings, and for
//! a project that already works with plain Terraform the only one needed.
//!
//! The initialised backend counts before the block in the `.tf` files, because that is what
//! `terraform plan` would talk to; `TF_HTTP_ADDRESS` and `TF_HTTP_PASSWORD` fill what either
//! leaves open. Trouble here is a note, not an error: the other sources may be enough.

use super::{
    CredentialSource, Layer, Origin, Sourced, StateAddress, Surroundings, backend_block,
    initialised_backend,
};
use crate::secret::Secret;

/// The two settings of an http backend that say where it is and who asks.
#[derive(Debug, Default)]
pub(super) struct HttpBackend {
    pub(super) address: Option<(String, Origin)>,
    pub(super) password: Option<(Secret, Origin)>,
}

/// A layer, and what stood in the way of a fuller one.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) layer: Layer,
    pub(super) notes: Vec<String>,
}

pub(super) fn read(surroundings: &Surroundings) -> Found {
    let mut notes = Vec::new();
    let mut noted = |result: Result<Option<HttpBackend>, String>| {
        result.unwrap_or_else(|note| {
            notes.push(note);
            None
        })
    };
    let backend = noted(initialised_backend::read(surroundings))
        .or_else(|| noted(backend_block::read(surroundings)))
        .unwrap_or_default();

    let variable = |name: &str| {
        surroundings
            .variable(name)
            .map(|text| (text.to_owned(), Origin::Env(name.to_owned())))
    };
    let address = backend.address.or_else(|| variable("TF_HTTP_ADDRESS"));
    let mut password = backend
        .password
        .or_else(|| variable("TF_HTTP_PASSWORD").map(|(text, origin)| (Secret::new(text), origin)));

    let mut layer = Layer::default();
    let mut server = None;
    if let Some((text, origin)) = address {
        match StateAddress::from_backend(&text) {
            Ok((address, inside)) => {
                password =
                    password.or_else(|| inside.map(|text| (Secret::new(text), origin.clone())));
                server = Some(address.server.clone());
                layer = Layer::of_state(address, &origin);
            }
            // Another product's address: its password is none of ours either.
            Err(error) => {
                notes.push(format!("{origin}: {error}"));
                password = None;
            }
        }
    }
    layer.credential = password
        .filter(|(password, _)| !password.expose().is_empty())
        .map(|(password, origin)| {
            Sourced::new(
                CredentialSource::BackendPassword { password, server },
                origin,
            )
        });
    Found { layer, notes }
}
