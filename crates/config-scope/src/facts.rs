//! What one file says, in the terms the graph is built from. Nothing of the syntax is left.
//!
//! Facts hold no path, so that files with the same content (a module installed twice) share them.

use crate::{address::Mode, reference::References, target::Target};

/// Everything of interest in one file.
#[derive(Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) items: Vec<Item>,
    /// What stands in the file and is not understood, though the file could be read.
    pub(crate) strange: Vec<Fault>,
}

/// Something wrong at a place in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// One-based.
    pub(crate) line: u32,
    pub(crate) what: String,
}

#[derive(Debug)]
pub(crate) struct Item {
    /// Where the block or the local begins, one-based.
    pub(crate) line: u32,
    pub(crate) kind: ItemKind,
}

#[derive(Debug)]
pub(crate) enum ItemKind {
    Resource(ResourceFacts),
    Module(CallFacts),
    Local(LocalFacts),
    Variable(VariableFacts),
    Output(OutputFacts),
    Provider(ProviderFacts),
    Check {
        name: String,
        references: References,
    },
    Action {
        kind: String,
        name: String,
        body: Parts,
    },
    Moved {
        from: Target,
        to: Target,
    },
    Removed {
        from: Target,
        destroy: bool,
    },
    Import {
        to: Target,
        references: References,
    },
    /// `required_providers`: local name and source.
    Requires(Vec<(String, String)>),
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceFacts {
    pub(crate) mode: Mode,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) repetition: Option<Repetition>,
    pub(crate) provider: Option<ProviderName>,
    pub(crate) body: Parts,
}

/// Which argument gives a block its instances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Repetition {
    Count,
    ForEach,
}

/// A module call.
#[derive(Clone, Debug)]
pub(crate) struct CallFacts {
    pub(crate) name: String,
    pub(crate) source: Option<CallSource>,
    pub(crate) repetition: Option<Repetition>,
    /// The `providers` argument: name inside the module, name outside. `None` if not given.
    pub(crate) providers: Option<Vec<(ProviderName, ProviderName)>>,
    /// Inputs, and the arguments that every instance waits for.
    pub(crate) body: Parts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallSource {
    Literal(String),
    /// Computed, as newer clients allow: the directory cannot be known here.
    Computed,
}

#[derive(Clone, Debug)]
pub(crate) struct LocalFacts {
    pub(crate) name: String,
    pub(crate) references: References,
}

#[derive(Clone, Debug)]
pub(crate) struct VariableFacts {
    pub(crate) name: String,
    pub(crate) has_default: bool,
    pub(crate) sensitive: bool,
    pub(crate) ephemeral: bool,
    /// What the validation conditions point at.
    pub(crate) validation: References,
}

#[derive(Clone, Debug)]
pub(crate) struct OutputFacts {
    pub(crate) name: String,
    pub(crate) sensitive: bool,
    pub(crate) ephemeral: bool,
    pub(crate) body: Parts,
}

#[derive(Clone, Debug)]
pub(crate) struct ProviderFacts {
    pub(crate) name: ProviderName,
    pub(crate) body: Parts,
}

/// The name of a provider configuration in a module: `aws` or `aws.west`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ProviderName {
    pub(crate) local: String,
    pub(crate) alias: Option<String>,
}

/// The arguments and nested blocks of a block, each with what it points at. They stay apart
/// because override files replace them one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(pub(crate) Vec<Part>);

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) form: Form,
    pub(crate) references: References,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Attribute,
    Block,
    /// A JSON member, which only a schema could tell to be one or the other.
    Either {
        is_void: bool,
    },
}

impl Parts {
    pub(crate) fn references(&self) -> impl Iterator<Item = &crate::reference::Reference> {
        self.0.iter().flat_map(|part| &part.references)
    }

    pub(crate) fn push(&mut self, name: &str, form: Form, references: References) {
        self.0.push(Part {
            name: name.to_owned(),
            form,
            references,
        });
    }

    /// Takes over what an override file says, as Terraform merges bodies
    /// (`internal/configs/module_merge_body.go`): an argument replaces the argument of its name,
    /// blocks replace all blocks of their type. What `adds` names is joined instead.
    pub(crate) fn override_with(&mut self, over: &Self, adds: &[&str]) {
        self.0.retain(|base| {
            adds.contains(&base.name.as_str())
                || !over
                    .0
                    .iter()
                    .any(|part| part.name == base.name && part.form.replaces(base.form))
        });
        self.0.extend(over.0.iter().cloned());
    }
}

impl Form {
    /// Whether a part of this form takes the place of a `base` of the same name. Where only a
    /// schema could tell, both stay: too much is safe.
    fn replaces(self, base: Self) -> bool {
        match (self, base) {
            (Self::Attribute, Self::Attribute) | (Self::Block, Self::Block) => true,
            (Self::Attribute, Self::Block) | (Self::Block, Self::Attribute) => false,
            (Self::Attribute | Self::Block, Self::Either { .. }) => true,
            (Self::Either { .. }, Self::Attribute) => true,
            (Self::Either { is_void }, Self::Block | Self::Either { .. }) => !is_void,
        }
    }
}
