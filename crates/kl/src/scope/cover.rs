//! Whether an address or prefix covers an instance: by path segments, never as text.

use config_scope::{Mode, Target};
use tfstate::Address;

/// Reads what a contract names; `None` for the whole state and for outputs.
pub(crate) fn parse_target(text: &str) -> Option<Target> {
    text.parse().ok()
}

/// Whether `target` means the instance at `address`. A missing key means all.
pub(crate) fn covers(target: &Target, address: &Address) -> bool {
    let Some(path) = address.module.get(..target.module.len()) else {
        return false;
    };
    let fits = target.module.iter().zip(path).all(|(wanted, step)| {
        wanted.name == step.name && (wanted.key.is_none() || wanted.key == step.key)
    });
    fits && target.resource.as_ref().is_none_or(|wanted| {
        let mode = match address.mode {
            tfstate::Mode::Data => Mode::Data,
            tfstate::Mode::Managed => Mode::Managed,
        };
        address.module.len() == target.module.len()
            && wanted.mode == mode
            && wanted.kind == address.kind
            && wanted.name == address.name
            && (wanted.key.is_none() || wanted.key == address.key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_by_segments() {
        for (target, address, expected) in [
            ("module.db", "module.db[\"a\"].t.x[0]", true),
            ("module.db", "module.db2.t.x", false),
            ("module.db[\"a\"]", "module.db[\"b\"].t.x", false),
            ("t.x", "t.x[\"k\"]", true),
            ("t.x[0]", "t.x[1]", false),
            ("t.x", "module.m.t.x", false),
            ("data.t.x", "t.x", false),
        ] {
            let target = parse_target(target).unwrap();
            let address = address.parse().unwrap();
            assert_eq!(covers(&target, &address), expected, "{target} {address}");
        }
    }
}
