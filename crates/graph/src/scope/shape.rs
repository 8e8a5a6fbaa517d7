//! The shape of instance keys: which kinds of keys instances have, and which their blocks give them.

use std::collections::HashMap;

use tfstate::{Address, Key};

use super::Repetition;
use super::request::{Calls, Configuration};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyKind {
    None,
    Number,
    Text,
}

/// The keys of one instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    /// One for each module call on the way, outermost first; empty if none has a key.
    pub(super) calls: Vec<KeyKind>,
    pub(super) own: KeyKind,
}

impl Keys {
    /// The keys of an instance of `block`; `None` if its address cannot be read.
    pub(super) fn of(block: &str, address: &str) -> Option<Self> {
        // Most addresses are that of their block and a key, and parsing all would be most of the
        // work on a scope.
        let own = match address.strip_prefix(block).map(str::as_bytes) {
            Some([]) => Some(KeyKind::None),
            Some([b'[', b'"', ..]) => Some(KeyKind::Text),
            Some([b'[', ..]) => Some(KeyKind::Number),
            _ => None,
        };
        if let Some(own) = own {
            return Some(Self {
                calls: Vec::new(),
                own,
            });
        }
        let address: Address = address.parse().ok()?;
        let calls = address
            .module
            .iter()
            .map(|step| KeyKind::of(step.key.as_ref()));
        Some(Self {
            calls: calls.collect(),
            own: KeyKind::of(address.key.as_ref()),
        })
    }
}

impl KeyKind {
    fn of(key: Option<&Key>) -> Self {
        match key {
            None => Self::None,
            Some(Key::Int(_)) => Self::Number,
            Some(Key::Str(_)) => Self::Text,
        }
    }
}

impl Repetition {
    /// Whether a block with this repetition gives its instances such keys.
    pub(super) fn gives(self, key: KeyKind) -> bool {
        match self {
            Self::Unknown => true,
            Self::Single => key == KeyKind::None,
            Self::Count => key == KeyKind::Number,
            Self::ForEach => key == KeyKind::Text,
        }
    }
}

/// The repetition of each module call.
pub(super) struct CallShapes<'a> {
    listed: HashMap<&'a str, Repetition>,
    others: Repetition,
}

impl<'a> CallShapes<'a> {
    pub(super) fn of(configuration: Option<&'a Configuration>) -> Self {
        match configuration.map(|configuration| &configuration.calls) {
            None | Some(Calls::Unknown) => Self {
                listed: HashMap::new(),
                others: Repetition::Unknown,
            },
            Some(Calls::Repeated(calls)) => {
                let calls = calls
                    .iter()
                    .map(|call| (call.module.as_str(), call.repetition));
                Self {
                    listed: calls.collect(),
                    others: Repetition::Single,
                }
            }
        }
    }

    /// The repetition of the call of the module with this path.
    pub(super) fn get(&self, module: &str) -> Repetition {
        self.listed.get(module).copied().unwrap_or(self.others)
    }
}
