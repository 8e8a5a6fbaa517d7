//! What an expression can point at, within the module it is written in.

use std::collections::BTreeSet;

use tfstate::Key;

use crate::address::Mode;

/// Everything one piece of configuration points at.
pub(crate) type References = BTreeSet<Reference>;

/// One thing that an expression needs. Names are as written; whether they exist is decided when
/// the graph is built, where a name that nothing declares has no edge: Terraform refuses it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Reference {
    Resource {
        mode: Mode,
        kind: String,
        name: String,
    },
    /// A type without a name: any resource of it may be meant.
    ResourceType {
        mode: Mode,
        kind: String,
    },
    Local(String),
    Variable(String),
    /// One output of a module call, whatever the key of the instance.
    Output {
        call: String,
        output: String,
    },
    /// A module call as a whole. Terraform waits for everything inside it.
    Module(String),
    /// A function that a provider defines; it may run on the configured provider.
    ProviderFunction(String),
    /// An `action` block (Terraform 1.14).
    Action {
        kind: String,
        name: String,
    },
    File(FileRead),
}

/// A file that an expression reads while it is evaluated, as far as its name is literal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileRead {
    pub(crate) base: FileBase,
    pub(crate) path: String,
    /// False when `path` is only the directory in which the file will be looked for.
    pub(crate) exact: bool,
}

/// What the path of a file read is relative to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum FileBase {
    /// `path.module`: the directory of the module that reads.
    Module,
    /// `path.root`, `path.cwd` or nothing: the directory of the root module.
    Root,
}

/// One step of a traversal after its root name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Attribute(String),
    /// An index with a literal key.
    Key(Key),
    /// A splat, or an index that is an expression.
    Dynamic,
}

impl Reference {
    /// What the traversal `root` + `steps` points at, by Terraform's rules
    /// (`internal/addrs/parse_ref.go`). `None` for what is no object of the configuration
    /// (`each`, `count`, `self`, `path`, `terraform`) and for what Terraform refuses.
    pub(crate) fn resolve(root: &str, steps: &[Step]) -> Option<Self> {
        match root {
            "each" | "count" | "self" | "path" | "terraform" | "tofu" => None,
            "var" => first_name(steps).map(|name| Self::Variable(name.to_owned())),
            "local" => first_name(steps).map(|name| Self::Local(name.to_owned())),
            "module" => Self::module(first_name(steps)?, &steps[1..]),
            "data" => Self::of_type(Mode::Data, first_name(steps)?, &steps[1..]),
            "ephemeral" => Self::of_type(Mode::Ephemeral, first_name(steps)?, &steps[1..]),
            "resource" => Self::of_type(Mode::Managed, first_name(steps)?, &steps[1..]),
            "action" => {
                let (kind, name) = (first_name(steps)?, first_name(&steps[1..])?);
                Some(Self::Action {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                })
            }
            kind => Self::of_type(Mode::Managed, kind, steps),
        }
    }

    fn of_type(mode: Mode, kind: &str, steps: &[Step]) -> Option<Self> {
        let kind = kind.to_owned();
        Some(match first_name(steps) {
            Some(name) => Self::Resource {
                mode,
                kind,
                name: name.to_owned(),
            },
            None => Self::ResourceType { mode, kind },
        })
    }

    /// `module.a.out` and `module.a["k"].out` are one output. Behind a splat or a computed key
    /// Terraform sees the module call alone, and so everything in the module.
    fn module(call: &str, steps: &[Step]) -> Option<Self> {
        let rest = match steps {
            [Step::Key(_), rest @ ..] => rest,
            _ => steps,
        };
        let call = call.to_owned();
        Some(match first_name(rest) {
            Some(output) => Self::Output {
                call,
                output: output.to_owned(),
            },
            None => Self::Module(call),
        })
    }
}

fn first_name(steps: &[Step]) -> Option<&str> {
    match steps.first() {
        Some(Step::Attribute(name)) => Some(name),
        _ => None,
    }
}
