//! Config-level addresses: blocks of a configuration, without instance keys.
//!
//! `dependencies` in a state and all edges of a graph are a matter of blocks; which instances a block
//! has is a matter of rows. Instance addresses are [`tfstate::Address`].

use std::fmt;
use std::str::FromStr;

use tfstate::{Mode, ModuleStep};

/// What a block manages. Ephemeral resources never reach a state, but they carry dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BlockMode {
    Data,
    Ephemeral,
    Managed,
}

impl BlockMode {
    /// The mode its instances have in a state, if they get there.
    pub fn in_state(self) -> Option<Mode> {
        match self {
            Self::Data => Some(Mode::Data),
            Self::Ephemeral => None,
            Self::Managed => Some(Mode::Managed),
        }
    }
}

/// The address of a resource block: `[module.<call>.]*[data.|ephemeral.]<type>.<name>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConfigAddress(Box<str>);

/// A text that is no config-level address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a config-level address is `[module.<call>.]*[data.]<type>.<name>`, without keys")]
pub struct NotAConfigAddress;

/// A config-level address taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts<'t> {
    /// The path of the module, as [`ConfigAddress::module`].
    pub(crate) module: &'t str,
    pub(crate) mode: BlockMode,
    pub(crate) kind: &'t str,
    pub(crate) name: &'t str,
}

impl ConfigAddress {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the module the block stands in, `module.a.module.b`; empty for the root module.
    pub fn module(&self) -> &str {
        self.parts().module
    }

    pub fn mode(&self) -> BlockMode {
        self.parts().mode
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        parts(&self.0).expect("only texts that can be taken apart become addresses")
    }

    /// The block that `address` is an instance of; `None` if its address would read as something
    /// else, which a type named `ephemeral` does.
    pub fn of(address: &tfstate::Address) -> Option<Self> {
        address.config_address().parse().ok()
    }
}

impl FromStr for ConfigAddress {
    type Err = NotAConfigAddress;

    /// Reads the printed form. Names are only checked for being free of what separates names.
    fn from_str(text: &str) -> Result<Self, NotAConfigAddress> {
        match parts(text) {
            Some(_) => Ok(Self(text.into())),
            None => Err(NotAConfigAddress),
        }
    }
}

impl fmt::Display for ConfigAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes a config-level address apart; `None` when it is none.
pub(crate) fn parts(text: &str) -> Option<Parts<'_>> {
    let mut rest = text;
    while let Some(call) = rest.strip_prefix("module.") {
        let (name, after) = call.split_once('.')?;
        if !is_name(name) {
            return None;
        }
        rest = after;
    }
    let module = text[..text.len() - rest.len()].trim_end_matches('.');
    let (mode, block) = if let Some(block) = rest.strip_prefix("data.") {
        (BlockMode::Data, block)
    } else if let Some(block) = rest.strip_prefix("ephemeral.") {
        (BlockMode::Ephemeral, block)
    } else {
        (BlockMode::Managed, rest)
    };
    let (kind, name) = block.split_once('.')?;
    let fits = is_name(kind) && is_name(name);
    fits.then_some(Parts {
        module,
        mode,
        kind,
        name,
    })
}

/// The calls of a config-level module path, outermost first.
pub(crate) fn calls(module: &str) -> impl Iterator<Item = &str> {
    // Names of calls hold no dot, so every second word is one.
    module.split('.').skip(1).step_by(2)
}

/// The config-level path of a module: its steps without keys.
pub(crate) fn module_path(steps: &[ModuleStep]) -> String {
    let calls: Vec<String> = steps
        .iter()
        .map(|step| format!("module.{}", step.name))
        .collect();
    calls.join(".")
}

/// Whether the config-level module path `inner` is `outer` or lies beneath it. Paths without keys
/// hold no dot but those between words, so a prefix that ends at one is a prefix of segments.
pub(crate) fn is_within(inner: &str, outer: &str) -> bool {
    match inner.strip_prefix(outer) {
        Some(rest) => rest.is_empty() || outer.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

fn is_name(text: &str) -> bool {
    let separates = |byte: u8| matches!(byte, b'.' | b'[' | b']' | b'"' | b'*' | 0..=b' ' | 0x7f);
    !text.is_empty() && !text.bytes().any(separates)
}

#[cfg(test)]
mod tests {
    use super::{BlockMode, ConfigAddress, calls, is_within};

    #[test]
    fn addresses_are_taken_apart_at_their_words() {
        for (text, module, mode) in [
            ("t.n", "", BlockMode::Managed),
            ("data.t.n", "", BlockMode::Data),
            ("ephemeral.t.n", "", BlockMode::Ephemeral),
            ("module.a.t.n", "module.a", BlockMode::Managed),
            (
                "module.a.module.b.data.t.n",
                "module.a.module.b",
                BlockMode::Data,
            ),
            (
                "module.module.module.data.data.t.n",
                "module.module.module.data",
                BlockMode::Data,
            ),
        ] {
            let address: ConfigAddress = text.parse().unwrap();
            assert_eq!((address.module(), address.mode()), (module, mode), "{text}");
        }
        for text in [
            "",
            "t",
            "module.a",
            "module.a.t",
            "t.n.x",
            "t.n[0]",
            "t. n",
            "t..n",
            "data.t",
        ] {
            assert!(text.parse::<ConfigAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn module_paths_compare_by_words() {
        assert!(is_within("module.db.module.x", "module.db"));
        assert!(is_within("module.db", "module.db"));
        assert!(is_within("module.db", ""));
        assert!(!is_within("module.db2", "module.db"));
        assert!(!is_within("", "module.db"));
        assert_eq!(calls("module.a.module.b").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(calls("").count(), 0);
    }
}
