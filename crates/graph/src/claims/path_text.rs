//! Paths as text: the way people and protocols write them, and the way the ledger keeps them.

use std::fmt;
use std::str::FromStr;

use tfstate::{Address, Key, Mode, ModulePath};

use super::{Path, Segment};

/// Longest path that is claimed as it is, in bytes of its segments' text. A longer one (a very long
/// instance key) is claimed by a prefix, because the ledger keeps paths in a B-tree, whose entries
/// end at about 2,700 bytes.
pub const MAX_PATH_BYTES: usize = 2_000;

/// The text is no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected an address, a module, `output.NAME`, or `*` for the whole state")]
pub struct PathError;

impl FromStr for Path {
    type Err = PathError;

    /// Reads an address with or without keys, a module path, `output.NAME`, `*` (the whole state),
    /// and any of these followed by `.*`, which means the same as without.
    ///
    /// A managed resource whose type is `output` is written `resource.output.NAME`.
    fn from_str(text: &str) -> Result<Self, PathError> {
        if text == "*" {
            return Ok(Self::root());
        }
        let text = text.strip_suffix(".*").unwrap_or(text);
        if let Some(name) = text.strip_prefix("output.")
            && is_name(name)
        {
            return Ok(Self::output(name));
        }
        if let Some(rest) = text.strip_prefix("resource.")
            && let Ok(address) = rest.parse::<Address>()
        {
            return Ok(Self::from(&address));
        }
        if let Ok(address) = text.parse::<Address>() {
            return Ok(Self::from(&address));
        }
        match text.parse::<ModulePath>() {
            Ok(module) if !module.0.is_empty() => Ok(Self::module(&module.0)),
            _ => Err(PathError),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("*");
        }
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(_) => write!(f, "{segment}")?,
                _ if place == 0 => write!(f, "{segment}")?,
                // Inside a module nothing else is written with this type.
                Segment::Resource {
                    mode: Mode::Managed,
                    kind,
                    name,
                } => {
                    write!(f, ".{kind}.{name}")?;
                }
                _ => write!(f, ".{segment}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => write!(f, "module.{name}"),
            Self::Key(key) => write!(f, "[{key}]"),
            Self::Resource { mode, kind, name } => match mode {
                Mode::Data => write!(f, "data.{kind}.{name}"),
                Mode::Managed if is_reserved(kind) => write!(f, "resource.{kind}.{name}"),
                Mode::Managed => write!(f, "{kind}.{name}"),
            },
            Self::Output(name) => write!(f, "output.{name}"),
        }
    }
}

impl Path {
    /// One text for each segment, free of NUL, as the ledger keeps a path.
    pub fn to_texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// The inverse of [`Path::to_texts`].
    pub fn from_texts<T: AsRef<str>>(texts: &[T]) -> Result<Self, PathError> {
        let mut segments: Vec<Segment> = Vec::with_capacity(texts.len());
        for text in texts {
            let segment = read_segment(text.as_ref()).ok_or(PathError)?;
            let fits = match (segments.last(), &segment) {
                (None, Segment::Key(_)) => false,
                (None, _) => true,
                (Some(Segment::Module(_)), Segment::Output(_)) => false,
                (Some(Segment::Module(_)), _) => true,
                (Some(Segment::Resource { .. }), Segment::Key(_)) => true,
                (Some(Segment::Key(_)), Segment::Module(_) | Segment::Resource { .. }) => {
                    matches!(segments.iter().nth_back(1), Some(Segment::Module(_)))
                }
                (Some(_), _) => false,
            };
            if !fits {
                return Err(PathError);
            }
            segments.push(segment);
        }
        Ok(Self(segments))
    }

    /// The longest prefix whose text fits [`MAX_PATH_BYTES`].
    #[must_use]
    pub(super) fn fitting(&self) -> Self {
        let mut bytes = 0;
        let fits = self.0.iter().take_while(|segment| {
            bytes += segment.to_string().len();
            bytes <= MAX_PATH_BYTES
        });
        let len = fits.count();
        self.prefix(len)
    }
}

fn read_segment(text: &str) -> Option<Segment> {
    if let Some(inner) = text.strip_prefix('[') {
        return read_key(inner.strip_suffix(']')?).map(Segment::Key);
    }
    let words: Vec<&str> = text.split('.').collect();
    if !words.iter().all(|word| is_name(word)) {
        return None;
    }
    let resource = |mode, kind: &str, name: &str| Segment::Resource {
        mode,
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    match words[..] {
        ["module", name] => Some(Segment::Module(name.to_owned())),
        ["output", name] => Some(Segment::Output(name.to_owned())),
        ["data", kind, name] => Some(resource(Mode::Data, kind, name)),
        ["resource", kind, name] => Some(resource(Mode::Managed, kind, name)),
        [kind, name] if !is_reserved(kind) => Some(resource(Mode::Managed, kind, name)),
        _ => None,
    }
}

/// Reads what stands between the brackets.
fn read_key(text: &str) -> Option<Key> {
    if text.starts_with('"') {
        // The quoting of keys is known to the reader of addresses alone.
        format!("a.a[{text}]").parse::<Address>().ok()?.key
    } else {
        text.parse().ok().map(Key::Int)
    }
}

/// Resource types whose address would read as something else.
fn is_reserved(kind: &str) -> bool {
    matches!(kind, "module" | "output")
}

/// Whether `text` can be the name of something: anything free of what separates names in addresses.
fn is_name(text: &str) -> bool {
    let separates = |rune: char| {
        matches!(rune, '.' | '[' | ']' | '"' | '*') || rune.is_whitespace() || rune.is_control()
    };
    !text.is_empty() && !text.contains(separates)
}
