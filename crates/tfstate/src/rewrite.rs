//! Rows rewritten: at another address, with other dependencies, with another attribute value. Whatever is not named stays
//! the bytes it was.
//!
//! Not for: whether a rewrite makes sense. The rule for adding here: it takes a block's text or an instance's body and gives
//! it back in rendered form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::address::{Address, Key};
use crate::document::{BLOCK_DEPTH, INSTANCE_DEPTH};
use crate::json::{Scanner, Shape, decode_string, encode_string, render};

/// A rewritten piece may be this much longer than the piece was, and so many times as long: indentation grows with the square
/// of nesting. A piece that would grow more is not rewritten.
const GROWTH: usize = 16;
const SPARE: usize = 1 << 20;

/// A step into a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Member(String),
    Element(usize),
}

/// A block's text for the resource of `address`. `None` when the text is none.
pub fn block_at(text: &[u8], address: &Address) -> Option<Vec<u8>> {
    let object = [b"{", text, b"}"].concat();
    let mut members = Members::of(&object)?;
    let module = address.module_path();
    members.set(
        "module",
        (!module.is_empty()).then(|| encode_string(&module)),
        "mode",
    );
    members.set("mode", Some(encode_string(address.mode.as_str())), "type");
    members.set("type", Some(encode_string(&address.kind)), "name");
    members.set("name", Some(encode_string(&address.name)), "provider");
    let text = members.text();
    render(&text, Shape::Members, BLOCK_DEPTH, limit(&text))
}

/// An instance's body with another key. `None` when the body is none.
pub fn body_with_key(body: &[u8], key: Option<&Key>) -> Option<Vec<u8>> {
    let mut members = Members::of(body)?;
    let first = members.first_name();
    let key = key.map(|key| match key {
        Key::Int(number) => number.to_string().into_bytes(),
        Key::Str(text) => encode_string(text),
    });
    members.set("index_key", key, &first);
    members.body()
}

/// An instance's body with other dependencies. `None` when the body is none.
pub fn body_with_dependencies(body: &[u8], dependencies: &[String]) -> Option<Vec<u8>> {
    let mut members = Members::of(body)?;
    let list: Vec<Vec<u8>> = dependencies
        .iter()
        .map(|text| encode_string(text))
        .collect();
    let list = [b"[", list.join(&b","[..]).as_slice(), b"]"].concat();
    let list = (!dependencies.is_empty()).then_some(list);
    members.set("dependencies", list, "create_before_destroy");
    members.body()
}

/// An instance's body with another value at a path into its attributes. `None` when the body is none, or has no such place.
pub fn body_with_attribute(body: &[u8], path: &[Step], value: &[u8]) -> Option<Vec<u8>> {
    let mut members = Members::of(body)?;
    let attributes = members.get("attributes")?.to_vec();
    let place = place_of(&attributes, path)?;
    let changed = [&attributes[..place.start], value, &attributes[place.end..]].concat();
    members.set("attributes", Some(changed), "attributes");
    members.body()
}

/// The value at a path into a value.
pub fn value_at<'a>(value: &'a [u8], path: &[Step]) -> Option<&'a [u8]> {
    place_of(value, path).map(|place| &value[place])
}

/// Whether two JSON texts say the same: white space, the order of members and the spelling of strings do not count, the
/// spelling of numbers does. `false` for what is no JSON.
pub fn says_the_same(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (a.trim_ascii(), b.trim_ascii());
    match (a.first(), b.first()) {
        (Some(b'{'), Some(b'{')) => match (by_name(a), by_name(b)) {
            (Some(a), Some(b)) => {
                let same = |(name, value): (&String, &&[u8])| {
                    b.get(name).is_some_and(|other| says_the_same(value, other))
                };
                a.len() == b.len() && a.iter().all(same)
            }
            _ => false,
        },
        (Some(b'['), Some(b'[')) => match (elements(a), elements(b)) {
            (Some(a), Some(b)) => {
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| says_the_same(a, b))
            }
            _ => false,
        },
        (Some(b'"'), Some(b'"')) => {
            decode_string(a).is_some_and(|text| Some(text) == decode_string(b))
        }
        (Some(_), Some(_)) => a == b,
        _ => false,
    }
}

fn limit(text: &[u8]) -> usize {
    text.len() * GROWTH + SPARE
}

/// Where a value stands within another. Of members that occur twice the last counts, as it does for Terraform.
fn place_of(value: &[u8], path: &[Step]) -> Option<Range<usize>> {
    let Some((step, rest)) = path.split_first() else {
        return Some(0..value.len());
    };
    let inner = match step {
        Step::Member(name) => *by_name(value)?.get(name)?,
        Step::Element(place) => *elements(value)?.get(*place)?,
    };
    let within = place_of(inner, rest)?;
    let start = value.as_ptr_range().start.addr();
    let offset = inner.as_ptr_range().start.addr() - start;
    Some(offset + within.start..offset + within.end)
}

fn by_name(object: &[u8]) -> Option<BTreeMap<String, &[u8]>> {
    let members = raw_members(object)?.into_iter();
    members
        .map(|(name, value)| Some((decode_string(name)?.into_owned(), value)))
        .collect()
}

fn raw_members(object: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut members = Vec::new();
    let mut scanner = Scanner::new(object);
    let mut more = scanner.open(b'{').ok()?;
    while more {
        let name = scanner.name().ok()?;
        members.push((name, scanner.value().ok()?));
        more = scanner.another(b'{').ok()?;
    }
    scanner.end().ok()?;
    Some(members)
}

fn elements(array: &[u8]) -> Option<Vec<&[u8]>> {
    let mut elements = Vec::new();
    let mut scanner = Scanner::new(array);
    let mut more = scanner.open(b'[').ok()?;
    while more {
        elements.push(scanner.value().ok()?);
        more = scanner.another(b'[').ok()?;
    }
    scanner.end().ok()?;
    Some(elements)
}

/// The members of one object, in order.
struct Members<'a>(Vec<(Raw<'a>, Raw<'a>)>);

/// Raw JSON.
type Raw<'a> = Cow<'a, [u8]>;

impl<'a> Members<'a> {
    fn of(object: &'a [u8]) -> Option<Self> {
        let members = raw_members(object)?.into_iter();
        Some(Self(
            members
                .map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)))
                .collect(),
        ))
    }

    fn is(name: &[u8], wanted: &str) -> bool {
        decode_string(name).is_some_and(|name| name == wanted)
    }

    fn get(&self, wanted: &str) -> Option<&[u8]> {
        let mut members = self.0.iter().rev();
        members
            .find(|(name, _)| Self::is(name, wanted))
            .map(|(_, value)| &**value)
    }

    fn first_name(&self) -> String {
        let first = self.0.first().and_then(|(name, _)| decode_string(name));
        first.map(Cow::into_owned).unwrap_or_default()
    }

    /// Gives a member a value, where it stands or else before `next`, or takes it away.
    fn set(&mut self, wanted: &str, value: Option<Vec<u8>>, next: &str) {
        let place = |name: &str| self.0.iter().position(|(member, _)| Self::is(member, name));
        let place = place(wanted)
            .or_else(|| place(next))
            .unwrap_or(self.0.len());
        self.0.retain(|(member, _)| !Self::is(member, wanted));
        if let Some(value) = value {
            let place = place.min(self.0.len());
            self.0.insert(
                place,
                (Cow::Owned(encode_string(wanted)), Cow::Owned(value)),
            );
        }
    }

    /// Without braces.
    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(name);
            text.push(b':');
            text.extend_from_slice(value);
        }
        text
    }

    fn body(&self) -> Option<Vec<u8>> {
        let text = [b"{", self.text().as_slice(), b"}"].concat();
        render(&text, Shape::Value, INSTANCE_DEPTH, limit(&text))
    }
}
