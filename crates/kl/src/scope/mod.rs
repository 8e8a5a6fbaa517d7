//! The local half of a scope: from what a person selects to what the server is asked.
//!
//! [`selectors`] turns flags into files and targets, [`compose`] into a request that holds only what
//! bears on the scope, [`problems`] says what is wrong with a selection, [`targets`] turns the
//! contract that comes back into options for a plan. What the files mean is `config-scope`'s to
//! know, what the state has is the server's; nothing here decides whether a scope is safe.

mod compose;
mod cover;
mod git;
mod problems;
mod selectors;
mod targets;

pub(crate) use self::compose::{Known, compose};
pub(crate) use self::cover::{covers, parse_target};
pub(crate) use self::problems::refuse_unparsed;
pub(crate) use self::selectors::{Asked, Selected, select};
pub(crate) use self::targets::plan_targets;

use config_scope::{Configuration, Mode};
use sha2::{Digest as _, Sha256};

/// SHA-256 over the managed blocks that a configuration declares, in the form of the state's own
/// digest: where the two are equal there is neither an orphan nor anything undeployed.
pub(crate) fn digest(configuration: &Configuration) -> String {
    let mut managed: Vec<String> = configuration
        .nodes()
        .filter(|node| node.address.mode == Mode::Managed)
        .map(|node| node.address.to_string())
        .collect();
    managed.sort_unstable();
    let mut digest = Sha256::new();
    for address in managed {
        digest.update(address);
        digest.update("\n");
    }
    hex(&digest.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}
