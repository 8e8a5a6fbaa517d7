//! Reads one file: text to [`FileFacts`], in either syntax.
//!
//! A file is read whole or not at all. Where the parser fails, or is known to see something else
//! than Terraform would, the file is unread and carries one fault; nothing is guessed from it.

mod collect;
mod decode;
mod files;
mod heredoc;
mod json;
mod native;
mod parts;
mod providers;
mod raw;
mod target;
mod walk;

use self::{
    collect::Reading,
    json::{Json, Kind},
    raw::RawBody,
};
use crate::{
    facts::{Fault, FileFacts},
    reference::References,
    source::{Syntax, syntax_of},
};

/// Larger files are not read. The largest hand-written file seen has 0.2 MB, generated JSON 10 MB.
const MAX_FILE_BYTES: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a configuration file.
pub(crate) fn read_configuration(bytes: &[u8], syntax: Syntax) -> Result<FileFacts, Fault> {
    with_body(bytes, syntax, decode::decode)
}

/// Reads a variables file: the names it assigns.
pub(crate) fn read_variables(bytes: &[u8], syntax: Syntax) -> Result<Vec<String>, Fault> {
    with_body(bytes, syntax, |body, _, _| match body {
        RawBody::Hcl(body) => body
            .attributes()
            .map(|assigned| assigned.key.as_str().to_owned())
            .collect(),
        RawBody::Json(json) => json
            .members()
            .iter()
            .map(|(name, _)| name.to_string())
            .collect(),
    })
}

/// The names that a variables file of this name and content assigns; `None` if it cannot be read.
pub fn variables_assigned_in(name: &str, bytes: &[u8]) -> Option<Vec<String>> {
    read_variables(bytes, syntax_of(name)).ok()
}

fn with_body<T>(
    bytes: &[u8],
    syntax: Syntax,
    interpret: impl FnOnce(RawBody<'_>, &Reading<'_>, &Lines) -> T,
) -> Result<T, Fault> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Fault {
            line: 1,
            what: "the file is larger than 64 MiB".to_owned(),
        });
    }
    // Terraform drops the mark from native syntax, and refuses it in JSON.
    let bytes = match syntax {
        Syntax::Hcl => bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes),
        Syntax::Json => bytes,
    };
    let lines = Lines::of(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| Fault {
        line: lines.at(error.valid_up_to()),
        what: "the text is not UTF-8".to_owned(),
    })?;
    let reading = Reading::new(text);
    let result = match syntax {
        Syntax::Hcl => {
            let body = native::parse_body(text).map_err(|error| Fault {
                line: u32::try_from(error.location().line()).unwrap_or(u32::MAX),
                what: error.message().to_owned(),
            })?;
            // Also what is not interpreted must have been read as Terraform does: a heredoc in a
            // description may have swallowed what comes after it.
            reading.collect_body(RawBody::Hcl(&body), &mut References::new());
            interpret(RawBody::Hcl(&body), &reading, &lines)
        }
        Syntax::Json => {
            let json = Json::parse(text).map_err(|fault| Fault {
                line: lines.at(fault.offset),
                what: fault.what,
            })?;
            let json = one_object(json).ok_or_else(|| Fault {
                line: 1,
                what: "a JSON configuration must be an object, or a list of objects".to_owned(),
            })?;
            interpret(RawBody::Json(&json), &reading, &lines)
        }
    };
    match reading.faults.into_inner().into_iter().min() {
        Some((offset, what)) => Err(Fault {
            line: lines.at(offset),
            what,
        }),
        None => Ok(result),
    }
}

/// A body may be given as a list of objects, which means all their members.
fn one_object(json: Json<'_>) -> Option<Json<'_>> {
    match json.kind {
        Kind::Object(_) => Some(json),
        Kind::Array(items) => {
            let mut all = Vec::new();
            for item in items {
                let Kind::Object(members) = one_object(item)?.kind else {
                    return None;
                };
                all.extend(members);
            }
            Some(Json {
                offset: json.offset,
                kind: Kind::Object(all),
            })
        }
        _ => None,
    }
}

/// Turns offsets into line numbers.
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(bytes: &[u8]) -> Self {
        let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self {
            starts: std::iter::once(0)
                .chain(breaks.map(|(place, _)| place + 1))
                .collect(),
        }
    }

    /// The one-based line of `offset`.
    pub(crate) fn at(&self, offset: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(line.max(1)).unwrap_or(u32::MAX)
    }
}
