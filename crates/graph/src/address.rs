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

impl From<Mode> for BlockMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Data => Self::Data,
            Mode::Managed => Self::Managed,
        }
    }
}

/// The address of a resource block: `[module.<call>.]*[data.|ephemeral.]<type>.<name>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConfigAddress(Box<str>);

/// The path of a module in the configuration: `module.a.module.b`; empty for the root module.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ConfigModule(Box<str>);

/// A text that is no config-level address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a config-level address is `[module.<call>.]*[data.]<type>.<name>`, without keys")]
pub struct NotAConfigAddress;

/// A text that is no config-level module path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the path of a module is `module.<call>`, joined by dots, without keys")]
pub struct NotAConfigModule;

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

impl ConfigModule {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The module that these steps are an instance of.
    pub(crate) fn of(steps: &[ModuleStep]) -> Self {
        let calls: Vec<String> = steps
            .iter()
            .map(|step| format!("module.{}", step.name))
            .collect();
        Self(calls.join(".").into())
    }
}

impl FromStr for ConfigModule {
    type Err = NotAConfigModule;

    fn from_str(text: &str) -> Result<Self, NotAConfigModule> {
        let mut words = text.split('.');
        if !text.is_empty() {
            while let Some(word) = words.next() {
                if word != "module" || !words.next().is_some_and(is_name) {
                    return Err(NotAConfigModule);
                }
            }
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for ConfigModule {
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

/// Whether the config-level module path `inner` is `outer` or lies beneath it. Paths without keys
/// hold no dot but those between words, so a prefix that ends at one is a prefix of segments.
pub(crate) fn is_within(inner: &str, outer: &str) -> bool {
    match inner.strip_prefix(outer) {
        Some(rest) => rest.is_empty() || outer.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

/// The paths of all module calls on the way to a module, outermost first, the module's own last.
pub(crate) fn calls_to(module: &str) -> impl Iterator<Item = &str> {
    // Names of calls hold no dot, so a path ends at every second one.
    let dots = module.match_indices('.').map(|(place, _)| place);
    let ends = dots.skip(1).step_by(2);
    let whole = (!module.is_empty()).then_some(module);
    ends.map(|end| &module[..end]).chain(whole)
}

fn is_name(text: &str) -> bool {
    let separates = |byte: u8| matches!(byte, b'.' | b'[' | b']' | b'"' | b'*' | 0..=b' ' | 0x7f);
    !text.is_empty() && !text.bytes().any(separates)
}

#[cfg(test)]
mod tests {
    use super::{BlockMode, ConfigAddress, ConfigModule, calls_to, is_within};

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
        let calls: Vec<&str> = calls_to("module.a.module.b.module.c").collect();
        assert_eq!(
            calls,
            [
                "module.a",
                "module.a.module.b",
                "module.a.module.b.module.c"
            ]
        );
        assert_eq!(calls_to("module.a").collect::<Vec<_>>(), ["module.a"]);
        assert_eq!(calls_to("").count(), 0);
        for text in ["", "module.a", "module.a.module.b"] {
            assert_eq!(text.parse::<ConfigModule>().unwrap().as_str(), text);
        }
        for text in [
            "a",
            "module",
            "module.a.b",
            "module.a[0]",
            "module.a.",
            "module.",
        ] {
            assert!(text.parse::<ConfigModule>().is_err(), "{text:?}");
        }
    }
}
