//! The place of a row in Terraform's document order, as bytes that compare like the order.
//!
//! Module string, mode, type and name compare bytewise; no key comes first, then numbers by
//! value, then strings bytewise; a current object comes before the deposed ones of its address,
//! which follow by deposed key (facts B2). A database that orders the encoded column bytewise
//! thereby yields the rows of a document in the order Terraform writes them.
//!
//! Each text is written with NUL as `00 FF` and ends with `00`. What follows an end is never
//! `FF`, so a text sorts before every longer text it begins.

use crate::address::{Address, Key, Mode};

/// A row's place, decoded. The derived order is the document order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The module path as Terraform prints it; empty for the root.
    pub module: String,
    pub mode: Mode,
    /// The resource type.
    pub kind: String,
    pub name: String,
    pub key: OrdKey,
}

/// What stands at a place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OrdKey {
    /// A block without instances.
    Shell,
    Instance {
        key: Option<Key>,
        deposed: Option<String>,
    },
}

/// The bytes are no encoded place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an encoded place of a state document")]
pub struct OrdError;

const SHELL: u8 = 0;
const NO_KEY: u8 = 1;
const INT_KEY: u8 = 2;
const STRING_KEY: u8 = 3;
const CURRENT: u8 = 0;
const DEPOSED: u8 = 1;

impl Place {
    pub fn encode(&self) -> Box<[u8]> {
        let mut ord = Vec::new();
        push_block(&mut ord, &self.module, self.mode, &self.kind, &self.name);
        match &self.key {
            OrdKey::Shell => push_shell(&mut ord),
            OrdKey::Instance { key, deposed } => {
                push_instance(&mut ord, key.as_ref(), deposed.as_deref());
            }
        }
        ord.into_boxed_slice()
    }

    /// The places of everything that can stand at an address: from the first until before the second. Without a key
    /// the resource's shell is among them.
    pub fn range_of(address: &Address) -> (Vec<u8>, Vec<u8>) {
        let mut from = Vec::new();
        let module = address.module_path();
        push_block(
            &mut from,
            &module,
            address.mode,
            &address.kind,
            &address.name,
        );
        let mut until = from.clone();
        match &address.key {
            None => {
                from.push(SHELL);
                until.push(INT_KEY);
            }
            key => {
                push_instance(&mut from, key.as_ref(), None);
                push_key(&mut until, key.as_ref());
                until.push(DEPOSED + 1);
            }
        }
        (from, until)
    }

    /// The inverse of [`Place::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, OrdError> {
        let mut rest = bytes;
        let module = take_text(&mut rest)?;
        let mode = match take_byte(&mut rest)? {
            0 => Mode::Data,
            1 => Mode::Managed,
            _ => return Err(OrdError),
        };
        let kind = take_text(&mut rest)?;
        let name = take_text(&mut rest)?;
        let key = match take_byte(&mut rest)? {
            SHELL => OrdKey::Shell,
            tag => {
                let key = match tag {
                    NO_KEY => None,
                    INT_KEY => Some(Key::Int(take_int(&mut rest)?)),
                    STRING_KEY => Some(Key::Str(take_text(&mut rest)?)),
                    _ => return Err(OrdError),
                };
                let deposed = match take_byte(&mut rest)? {
                    CURRENT => None,
                    DEPOSED => Some(take_text(&mut rest)?),
                    _ => return Err(OrdError),
                };
                OrdKey::Instance { key, deposed }
            }
        };
        if rest.is_empty() {
            Ok(Self {
                module,
                mode,
                kind,
                name,
                key,
            })
        } else {
            Err(OrdError)
        }
    }
}

/// What all rows of one resource block begin with.
pub(crate) fn push_block(ord: &mut Vec<u8>, module: &str, mode: Mode, kind: &str, name: &str) {
    push_text(ord, module);
    ord.push(match mode {
        Mode::Data => 0,
        Mode::Managed => 1,
    });
    push_text(ord, kind);
    push_text(ord, name);
}

pub(crate) fn push_shell(ord: &mut Vec<u8>) {
    ord.push(SHELL);
}

pub(crate) fn push_instance(ord: &mut Vec<u8>, key: Option<&Key>, deposed: Option<&str>) {
    push_key(ord, key);
    match deposed {
        None => ord.push(CURRENT),
        Some(deposed) => {
            ord.push(DEPOSED);
            push_text(ord, deposed);
        }
    }
}

fn push_key(ord: &mut Vec<u8>, key: Option<&Key>) {
    match key {
        None => ord.push(NO_KEY),
        Some(Key::Int(number)) => {
            ord.push(INT_KEY);
            // Flipping the sign bit makes negative numbers sort first.
            ord.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
        }
        Some(Key::Str(text)) => {
            ord.push(STRING_KEY);
            push_text(ord, text);
        }
    }
}

fn push_text(ord: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(nul) = memchr::memchr(0, rest) {
        ord.extend_from_slice(&rest[..=nul]);
        ord.push(0xff);
        rest = &rest[nul + 1..];
    }
    ord.extend_from_slice(rest);
    ord.push(0);
}

fn take_text(rest: &mut &[u8]) -> Result<String, OrdError> {
    let mut text = Vec::new();
    loop {
        let end = memchr::memchr(0, rest).ok_or(OrdError)?;
        text.extend_from_slice(&rest[..end]);
        *rest = &rest[end + 1..];
        match rest.split_first() {
            Some((0xff, after)) => {
                text.push(0);
                *rest = after;
            }
            _ => return String::from_utf8(text).map_err(|_| OrdError),
        }
    }
}

fn take_int(rest: &mut &[u8]) -> Result<i64, OrdError> {
    let (bytes, after) = rest.split_first_chunk::<8>().ok_or(OrdError)?;
    *rest = after;
    Ok(i64::from_be_bytes(*bytes) ^ i64::MIN)
}

fn take_byte(rest: &mut &[u8]) -> Result<u8, OrdError> {
    let (&byte, after) = rest.split_first().ok_or(OrdError)?;
    *rest = after;
    Ok(byte)
}
