//! Paths: addresses as segments, from the root of a state down to one instance.
//!
//! Addresses are never compared as text. `module.db` covers `module.db[0]` and `module.db["a"].x.y`
//! but not `module.db2`, because it is a prefix of their segments.

use std::borrow::Borrow;

use tfstate::{Address, Key, Mode, ModuleStep};
use unicode_normalization::UnicodeNormalization as _;

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Segment {
    /// A module call, with all its instances.
    Module(String),
    /// One instance of the module call or resource before it.
    Key(Key),
    /// A resource, with all its instances in the module instance before it.
    Resource {
        mode: Mode,
        kind: String,
        name: String,
    },
    /// An output of the root module.
    Output(String),
}

/// A place in a state and everything beneath it. The empty path is the whole state.
///
/// Segments stand in this order: `(module key?)* (resource key?)?`, or a single output. The order of
/// paths puts each before all that it covers.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Path(pub(super) Vec<Segment>);

impl Path {
    /// The whole state.
    pub fn root() -> Self {
        Self::default()
    }

    /// An output of the root module. Child modules have none in a state.
    pub fn output(name: &str) -> Self {
        Self(vec![Segment::Output(name.to_owned())])
    }

    /// A module, or one instance of it when the last step has a key.
    pub fn module(steps: &[ModuleStep]) -> Self {
        let mut segments = Vec::with_capacity(2 * steps.len() + 2);
        for step in steps {
            segments.push(Segment::Module(step.name.clone()));
            segments.extend(step.key.as_ref().map(Segment::key));
        }
        Self(segments)
    }

    /// A resource, or one instance of it when there is a key.
    pub fn resource(
        module: &[ModuleStep],
        mode: Mode,
        kind: &str,
        name: &str,
        key: Option<&Key>,
    ) -> Self {
        let mut path = Self::module(module);
        path.0.push(Segment::Resource {
            mode,
            kind: kind.to_owned(),
            name: name.to_owned(),
        });
        path.0.extend(key.map(Segment::key));
        path
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `other` is this path or lies beneath it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether a thing exists that lies beneath both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The path cut to its first `len` segments.
    #[must_use]
    pub(super) fn prefix(&self, len: usize) -> Self {
        Self(self.0[..len.min(self.0.len())].to_vec())
    }

    /// The path as it must be claimed: what lies in a module call with keys is claimed as the call.
    ///
    /// `count` and `for_each` may add keys during the run, and a claim on the existing ones would not
    /// cover those. For the same reason one instance of a call is claimed as the call.
    #[must_use]
    pub fn as_claimed(&self) -> Self {
        let keyed_call = self
            .0
            .windows(2)
            .position(|pair| matches!(pair, [Segment::Module(_), Segment::Key(_)]));
        match keyed_call {
            Some(call) => self.prefix(call + 1),
            None => self.clone(),
        }
    }
}

/// Paths compare as their segments do, so a map of paths is searched without making one.
impl Borrow<[Segment]> for Path {
    fn borrow(&self) -> &[Segment] {
        &self.0
    }
}

impl Segment {
    /// Terraform reads keys in addresses as NFC, so two spellings of one key are one thing to it.
    fn key(key: &Key) -> Self {
        match key {
            Key::Int(number) => Self::Key(Key::Int(*number)),
            Key::Str(text) => Self::Key(Key::Str(text.nfc().collect())),
        }
    }
}

impl From<&Address> for Path {
    fn from(address: &Address) -> Self {
        Self::resource(
            &address.module,
            address.mode,
            &address.kind,
            &address.name,
            address.key.as_ref(),
        )
    }
}
