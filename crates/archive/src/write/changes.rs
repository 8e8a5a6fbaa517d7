//! The changes of a version, as rows with a life span give them, made into a delta.

use std::borrow::Cow;
use std::collections::HashMap;

use tfstate::{Digest, Header};

use crate::delta::Line;
use crate::format::{MAX_DELTA_BYTES, SMALL_DELTA_BYTES};
use crate::history::address_of;
use crate::members::{Member, MemberValue, members};
use crate::records::VersionMeta;
use crate::write::error::WriteError;
use crate::write::places::Places;

/// What a version changed against the version before it in the archive. Both lists of rows are in
/// ascending order of place, both lists of outputs of name.
#[derive(Debug, Clone, Copy)]
pub struct VersionChanges<'a> {
    pub header: &'a Header,
    /// Bodies of the header's parts. Those that the version before had as well may be missing.
    pub parts: &'a [(Digest, &'a [u8])],
    /// Names of outputs that ended, changed ones among them.
    pub outputs_closed: &'a [String],
    pub outputs_born: &'a [OutputBirth<'a>],
    /// Places of rows that ended, changed ones among them.
    pub closed: &'a [Vec<u8>],
    pub born: &'a [RowBirth<'a>],
}

/// An output that appeared or changed.
#[derive(Debug, Clone, Copy)]
pub struct OutputBirth<'a> {
    pub name: &'a str,
    /// The name as raw JSON string.
    pub token: &'a [u8],
    pub body: &'a [u8],
}

/// An instance row that appeared or changed.
#[derive(Debug, Clone, Copy)]
pub struct RowBirth<'a> {
    /// Its place, as [`tfstate::Place`] encodes it.
    pub ord: &'a [u8],
    /// The text of its block.
    pub block: &'a [u8],
    /// The instance; empty for a block without instances.
    pub body: &'a [u8],
}

/// Parts a reader knows from the version before, by member name.
pub(crate) type KnownParts = HashMap<String, Digest>;

/// A delta, and what is known after it.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) places: Places,
    pub(crate) parts: KnownParts,
}

/// Writes the lines of a delta against the rows at `places`.
pub(crate) fn encode(
    meta: &VersionMeta,
    changes: &VersionChanges<'_>,
    places: &Places,
    known: &KnownParts,
) -> Result<Encoded, WriteError> {
    let mut lines = Lines {
        seq: meta.seq,
        bytes: Vec::new(),
        limit: meta.bytes.clamp(SMALL_DELTA_BYTES, MAX_DELTA_BYTES),
    };
    let parts = header_line(&mut lines, changes, known)?;
    output_lines(&mut lines, changes)?;
    let places = row_lines(&mut lines, changes, places)?;
    Ok(Encoded {
        bytes: lines.bytes,
        places,
        parts,
    })
}

struct Lines {
    seq: u64,
    bytes: Vec<u8>,
    limit: u64,
}

impl Lines {
    fn push(&mut self, line: &Line<'_>) -> Result<(), WriteError> {
        serde_json::to_writer(&mut self.bytes, line).map_err(std::io::Error::from)?;
        self.bytes.push(b'\n');
        if self.bytes.len() as u64 > self.limit {
            return Err(WriteError::DeltaTooLarge { seq: self.seq });
        }
        Ok(())
    }

    fn wrong(&self, what: impl Into<String>) -> WriteError {
        WriteError::Version {
            seq: self.seq,
            what: what.into(),
        }
    }

    /// A text of a state, which is UTF-8.
    fn text<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, str>, WriteError> {
        let text = std::str::from_utf8(bytes).map_err(|_| self.wrong("a text is not UTF-8"))?;
        Ok(Cow::Borrowed(text))
    }
}

fn header_line(
    lines: &mut Lines,
    changes: &VersionChanges<'_>,
    known: &KnownParts,
) -> Result<KnownParts, WriteError> {
    let mut parts = KnownParts::new();
    let mut listed = Vec::new();
    for Member { name, value } in members(changes.header) {
        let text = match value {
            MemberValue::Text(text) => Some(Cow::Owned(text)),
            MemberValue::Part(part) => {
                parts.insert(name.clone(), part);
                if known.get(&name) == Some(&part) {
                    None
                } else {
                    let body = changes.parts.iter().find(|(digest, _)| *digest == part);
                    let (_, body) = body.ok_or_else(|| {
                        lines.wrong(format!("the text of member {name} is missing"))
                    })?;
                    Some(lines.text(body)?)
                }
            }
        };
        listed.push((Cow::Owned(name), text));
    }
    lines.push(&Line::Header { members: listed })?;
    Ok(parts)
}

fn output_lines(lines: &mut Lines, changes: &VersionChanges<'_>) -> Result<(), WriteError> {
    let ascending = changes.outputs_closed.is_sorted_by(|a, b| a < b)
        && changes.outputs_born.is_sorted_by(|a, b| a.name < b.name);
    if !ascending {
        return Err(lines.wrong("its outputs are not in order"));
    }
    let mut gone = changes.outputs_closed.iter().peekable();
    for output in changes.outputs_born {
        while let Some(name) = gone.next_if(|name| ***name < *output.name) {
            lines.push(&Line::OutputGone { name: name.into() })?;
        }
        gone.next_if(|name| ***name == *output.name);
        let (token, body) = (lines.text(output.token)?, lines.text(output.body)?);
        lines.push(&Line::OutputSet {
            name: output.name.into(),
            token,
            body,
        })?;
    }
    gone.try_for_each(|name| lines.push(&Line::OutputGone { name: name.into() }))
}

fn row_lines(
    lines: &mut Lines,
    changes: &VersionChanges<'_>,
    places: &Places,
) -> Result<Places, WriteError> {
    let ascending = changes.closed.is_sorted_by(|a, b| a < b)
        && changes.born.is_sorted_by(|a, b| a.ord < b.ord);
    if !ascending {
        return Err(lines.wrong("its rows are not in order"));
    }
    let mut closed = changes.closed.iter().peekable();
    let mut last_block = None;
    let (mut removed, mut inserted) = (Vec::new(), Vec::new());
    for row in changes.born {
        while let Some(ord) = closed.next_if(|ord| ***ord < *row.ord) {
            removed.push(remove_line(lines, places, ord)?);
        }
        let replaces = closed.next_if(|ord| ***ord == *row.ord).is_some();
        let (address, deposed) = shown(lines, row.ord)?;
        let block = (last_block != Some(row.block)).then_some(row.block);
        let block = block.map(|block| lines.text(block)).transpose()?;
        last_block = Some(row.block);
        let body = (!row.body.is_empty())
            .then(|| lines.text(row.body))
            .transpose()?;
        let line = match (places.find(row.ord), replaces) {
            (Ok(at), true) => Line::Replace {
                at: at as u64,
                address,
                deposed,
                block,
                body,
            },
            (Err(at), false) => {
                inserted.push((at, Box::from(row.ord)));
                Line::Insert {
                    at: at as u64,
                    address,
                    deposed,
                    block,
                    body,
                }
            }
            (Ok(_), false) => {
                return Err(lines.wrong(format!("{address} appears, but was there before")));
            }
            (Err(_), true) => {
                return Err(lines.wrong(format!("{address} changes, but was not there")));
            }
        };
        lines.push(&line)?;
    }
    for ord in closed {
        removed.push(remove_line(lines, places, ord)?);
    }
    Ok(places.changed(&removed, inserted))
}

fn remove_line(lines: &mut Lines, places: &Places, ord: &[u8]) -> Result<usize, WriteError> {
    let (address, deposed) = shown(lines, ord)?;
    let Ok(at) = places.find(ord) else {
        return Err(lines.wrong(format!("{address} goes, but was not there")));
    };
    lines.push(&Line::Remove {
        at: at as u64,
        address,
        deposed,
    })?;
    Ok(at)
}

type Shown<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

fn shown<'a>(lines: &Lines, ord: &[u8]) -> Result<Shown<'a>, WriteError> {
    let (address, deposed) =
        address_of(ord).ok_or_else(|| lines.wrong("a place cannot be read"))?;
    Ok((Cow::Owned(address), deposed.map(Cow::Owned)))
}
