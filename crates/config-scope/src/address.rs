//! Config-level addresses: where a block stands in the configuration, without instance keys.
//!
//! A state holds instances (`module.a["x"].t.n[0]`); a configuration declares blocks
//! (`module.a.t.n`). Dependencies are a matter of blocks, so everything in this crate is keyed by
//! [`ConfigAddress`], and instance addresses appear only in targets and `moved` blocks.

use std::fmt;

/// What a block manages. Ephemeral resources never reach a state, but they carry dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Mode {
    Data,
    Ephemeral,
    Managed,
}

impl Mode {
    /// What stands before the type in an address.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Data => "data.",
            Self::Ephemeral => "ephemeral.",
            Self::Managed => "",
        }
    }
}

/// The path of module calls that leads to a block; the root module is the empty path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ConfigModule(pub Vec<String>);

impl ConfigModule {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn child(&self, call: &str) -> Self {
        let mut path = self.0.clone();
        path.push(call.to_owned());
        Self(path)
    }

    /// Whether `other` is this module or lies beneath it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The key of this module in `modules.json`: call names joined by dots.
    pub(crate) fn manifest_key(&self) -> String {
        self.0.join(".")
    }
}

impl fmt::Display for ConfigModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, call) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(".")?;
            }
            write!(f, "module.{call}")?;
        }
        Ok(())
    }
}

/// The address of a resource block: `[module.<call>.]*[data.|ephemeral.]<type>.<name>`.
///
/// This is the form that `dependencies` in a state and `terraform graph` use.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConfigAddress {
    pub module: ConfigModule,
    pub mode: Mode,
    /// The resource type.
    pub kind: String,
    pub name: String,
}

impl fmt::Display for ConfigAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.module.is_root() {
            write!(f, "{}.", self.module)?;
        }
        write!(f, "{}{}.{}", self.mode.prefix(), self.kind, self.name)
    }
}

/// A text that is no config-level address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a config-level address is `[module.<call>.]*[data.]<type>.<name>`, without keys")]
pub struct NotAConfigAddress;

impl std::str::FromStr for ConfigAddress {
    type Err = NotAConfigAddress;

    /// Reads the printed form. Names are not checked beyond being free of dots and brackets.
    fn from_str(text: &str) -> Result<Self, NotAConfigAddress> {
        if text.contains(['[', ']', '"']) || text.split('.').any(str::is_empty) {
            return Err(NotAConfigAddress);
        }
        let mut words = text.split('.').peekable();
        let mut module = ConfigModule::root();
        while words.next_if_eq(&"module").is_some() {
            module
                .0
                .push(words.next().ok_or(NotAConfigAddress)?.to_owned());
        }
        let mode = if words.next_if_eq(&"data").is_some() {
            Mode::Data
        } else if words.next_if_eq(&"ephemeral").is_some() {
            Mode::Ephemeral
        } else {
            Mode::Managed
        };
        match (words.next(), words.next(), words.next()) {
            (Some(kind), Some(name), None) => Ok(Self {
                module,
                mode,
                kind: kind.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(NotAConfigAddress),
        }
    }
}
