//! Resource-instance addresses: what they are made of, and how Terraform prints them.
//!
//! An address has one canonical spelling, [`Address`]'s `Display`. Parsing is in `parse`; the
//! table of runes Terraform prints literally is in `printable`.

mod parse;
mod printable;

use std::fmt;

pub use parse::AddressError;
pub(crate) use parse::is_identifier;

/// Whether a resource is managed or a data source. Data sources sort first, as their word does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Mode {
    Data,
    Managed,
}

impl Mode {
    /// The word a state document uses for this mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Managed => "managed",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            "data" => Ok(Self::Data),
            "managed" => Ok(Self::Managed),
            _ => Err(AddressError {
                offset: 0,
                what: "the mode is neither managed nor data",
            }),
        }
    }
}

/// An instance key. Terraform parses only numbers from zero up, but reads any whole number that
/// fits its `int` from a state document, and prints it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Key {
    Int(i64),
    Str(String),
}

/// One step of a module path: `module.name` or `module.name[key]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModuleStep {
    pub name: String,
    pub key: Option<Key>,
}

/// The address of a module instance; the root module is the empty path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ModulePath(pub Vec<ModuleStep>);

/// The address of a resource instance.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    pub module: Vec<ModuleStep>,
    pub mode: Mode,
    /// The resource type.
    pub kind: String,
    pub name: String,
    pub key: Option<Key>,
}

impl Address {
    /// The address of the resource block in the configuration: no keys anywhere.
    /// This is the form `dependencies` uses.
    pub fn config_address(&self) -> String {
        let mut text = String::new();
        for step in &self.module {
            text.push_str("module.");
            text.push_str(&step.name);
            text.push('.');
        }
        self.push_resource(&mut text);
        text
    }

    /// The address of the resource this is an instance of: module keys stay, the last key goes.
    pub fn resource_address(&self) -> String {
        let mut text = String::new();
        push_module(&mut text, &self.module);
        if !self.module.is_empty() {
            text.push('.');
        }
        self.push_resource(&mut text);
        text
    }

    /// The module part, printed; empty for the root module.
    pub fn module_path(&self) -> String {
        let mut text = String::new();
        push_module(&mut text, &self.module);
        text
    }

    fn push_resource(&self, text: &mut String) {
        if self.mode == Mode::Data {
            text.push_str("data.");
        }
        text.push_str(&self.kind);
        text.push('.');
        text.push_str(&self.name);
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.resource_address();
        if let Some(key) = &self.key {
            push_key(&mut text, key);
        }
        f.write_str(&text)
    }
}

impl fmt::Display for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        push_module(&mut text, &self.0);
        f.write_str(&text)
    }
}

impl fmt::Display for Key {
    /// Prints the key as it stands between the brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Str(text) => {
                let mut quoted = String::with_capacity(text.len() + 2);
                push_quoted(&mut quoted, text);
                f.write_str(&quoted)
            }
        }
    }
}

fn push_module(text: &mut String, steps: &[ModuleStep]) {
    for (place, step) in steps.iter().enumerate() {
        if place > 0 {
            text.push('.');
        }
        text.push_str("module.");
        text.push_str(&step.name);
        if let Some(key) = &step.key {
            push_key(text, key);
        }
    }
}

fn push_key(text: &mut String, key: &Key) {
    use fmt::Write as _;
    text.push('[');
    match key {
        // Writing to a String cannot fail.
        Key::Int(number) => _ = write!(text, "{number}"),
        Key::Str(value) => push_quoted(text, value),
    }
    text.push(']');
}

/// Quotes as Terraform's `toHCLQuotedString`: template introducers are doubled, and whatever Go
/// calls non-printable becomes an escape.
fn push_quoted(text: &mut String, value: &str) {
    use fmt::Write as _;
    text.push('"');
    let mut runes = value.chars().peekable();
    while let Some(rune) = runes.next() {
        match rune {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '$' | '%' => {
                text.push(rune);
                if runes.peek() == Some(&'{') {
                    text.push(rune);
                }
            }
            ' '..='~' => text.push(rune),
            _ if printable::is_printable(rune) => text.push(rune),
            // Writing to a String cannot fail.
            _ if u32::from(rune) < 0x1_0000 => _ = write!(text, "\\u{:04x}", u32::from(rune)),
            _ => _ = write!(text, "\\U{:08x}", u32::from(rune)),
        }
    }
    text.push('"');
}
