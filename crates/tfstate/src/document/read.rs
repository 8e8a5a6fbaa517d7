//! Reading a posted document: encoding, top level, outputs, and what kind of document it is.

use std::borrow::Cow;

use super::fields::{Field, Fields, Version};
use super::hashing::{self, Hasher};
use super::resources::Resources;
use super::{Document, MAX_ROWS, Opaque, OpaqueReason, Output, Part, State};
use crate::header::{Empty, Header, Member, Value};
use crate::json::{ScanError, Scanner, Shape, decode_string, render};
use crate::refusal::{ByteOrder, Refusal};
use crate::{Digest, output_digest};

/// Longest top-level value that stands in the header; a version stores its header every time.
const MAX_HEADER_VALUE: usize = 1024;

/// Most top-level members a split document may have; Terraform writes seven.
const MAX_MEMBERS: usize = 256;

/// Splits a document.
///
/// Accepts every JSON object; one that is no readable version 4 state comes back as
/// [`Document::Opaque`]. Rows borrow from `bytes` and are as posted, white space included: bring
/// what is new into rendered form with [`State::canonicalise`].
///
/// # Errors
/// [`Refusal`] when the bytes are no JSON object by the rules of Go's decoder (and valid UTF-8),
/// the serial does not fit, or an address occurs twice.
pub fn parse(bytes: &[u8]) -> Result<Document<'_>, Refusal> {
    check_encoding(bytes)?;
    let (read, digests) =
        hashing::while_reading(bytes.len(), |hasher| Reader::new(bytes).read(hasher));
    read?.finish(bytes.len(), &digests)
}

fn check_encoding(bytes: &[u8]) -> Result<(), Refusal> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Err(Refusal::ByteOrderMark),
        [0xff, 0xfe, ..] | [b'{' | b' ' | b'\n' | b'\r' | b'\t', 0, ..] => Err(Refusal::Utf16 {
            order: ByteOrder::Little,
        }),
        [0xfe, 0xff, ..] | [0, b'{' | b' ' | b'\n' | b'\r' | b'\t', ..] => Err(Refusal::Utf16 {
            order: ByteOrder::Big,
        }),
        _ => Ok(()),
    }
}

impl From<ScanError> for Refusal {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Syntax { offset, what } => Self::NotJson { offset, what },
            ScanError::Utf8 { offset } => Self::NotUtf8 { offset },
        }
    }
}

/// A document being read.
struct Reader<'a> {
    scanner: Scanner<'a>,
    split: Split<'a>,
}

/// What has been read.
struct Split<'a> {
    fields: Fields<'a>,
    members: Vec<Member>,
    parts: Vec<Part<'a>>,
    outputs: Vec<Output<'a>>,
    resources: Resources<'a>,
    /// The first thing that keeps the document from being rows.
    problem: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let split = Split {
            fields: Fields::default(),
            members: Vec::with_capacity(8),
            parts: Vec::new(),
            outputs: Vec::new(),
            resources: Resources::default(),
            problem: None,
        };
        Self {
            scanner: Scanner::new(bytes),
            split,
        }
    }

    fn read(mut self, hasher: &mut Hasher<'a>) -> Result<Split<'a>, Refusal> {
        match self.scanner.peek() {
            None => return Err(Refusal::Empty),
            Some(b'{') => {}
            Some(_) => {
                self.scanner.value()?;
                self.scanner.end()?;
                return Err(Refusal::NotAnObject);
            }
        }
        let mut more = self.scanner.open(b'{')?;
        while more {
            let name = self.scanner.name()?;
            self.member(name, hasher)?;
            more = self.scanner.another(b'{')?;
        }
        self.scanner.end()?;
        Ok(self.split)
    }

    fn member(&mut self, name: &'a [u8], hasher: &mut Hasher<'a>) -> Result<(), ScanError> {
        let decoded = decode_string(name).unwrap_or_default();
        let field = Field::named(&decoded);
        if let Some(field @ (Field::Outputs | Field::Resources)) = field {
            let again = self.split.fields.has(field);
            let start = self.scanner.pos();
            let exact = decoded == field.as_str();
            let value = self.rows(field, hasher)?;
            let posted = &self.scanner.bytes()[start..self.scanner.pos()];
            self.split.fields.note(field, posted);
            if again {
                self.split
                    .problem(|| format!("{} occurs more than once", field.as_str()));
            } else if !exact {
                self.split
                    .problem(|| format!("{} is spelled {decoded:?}", field.as_str()));
            }
            self.split.push_member(name, value);
            return Ok(());
        }
        let value = self.scanner.value()?;
        if let Some(field) = field {
            self.split.fields.note(field, value);
        }
        self.split.plain_member(name, field, value);
        Ok(())
    }

    /// Reads the value of `outputs` or `resources` into rows; returns their slot.
    fn rows(&mut self, field: Field, hasher: &mut Hasher<'a>) -> Result<Value, ScanError> {
        let opening = if field == Field::Outputs { b'{' } else { b'[' };
        let next = self.scanner.peek();
        let mut empty = Empty::Brackets;
        if next == Some(opening) && field == Field::Outputs {
            self.outputs()?;
        } else if next == Some(opening) {
            let problem = self.split.resources.read(&mut self.scanner, hasher)?;
            if let Some(problem) = problem {
                self.split.problem(|| problem);
            }
        } else {
            if self.scanner.value()? != b"null" {
                self.split
                    .problem(|| format!("{} has the wrong type", field.as_str()));
            }
            empty = Empty::Null;
        }
        Ok(match field {
            Field::Outputs => Value::Outputs(empty),
            _ => Value::Resources(empty),
        })
    }

    fn outputs(&mut self) -> Result<(), ScanError> {
        let mut more = self.scanner.open(b'{')?;
        while more {
            let token = self.scanner.name()?;
            let body = self.scanner.value()?;
            more = self.scanner.another(b'{')?;
            if self.split.outputs.len() > MAX_ROWS {
                continue;
            }
            let name = decode_string(token).unwrap_or_default().into_owned();
            if name.contains('\0') {
                self.split.problem(|| "an output name holds NUL".to_owned());
            }
            if !body.starts_with(b"{") {
                self.split
                    .problem(|| format!("output {name:?} is no object"));
            }
            self.split.outputs.push(Output {
                name,
                name_token: token,
                body: Cow::Borrowed(body),
                digest: output_digest(token, body),
            });
        }
        Ok(())
    }
}

impl<'a> Split<'a> {
    fn problem(&mut self, what: impl FnOnce() -> String) {
        if self.problem.is_none() {
            self.problem = Some(what());
        }
    }

    /// A member that is no slot: in the header when it is small, a part when it is large.
    fn plain_member(&mut self, name: &'a [u8], field: Option<Field>, value: &'a [u8]) {
        let large = match field {
            Some(Field::CheckResults) => value != b"null",
            // The header must hold what `with_serial` looks for; a long one is not readable anyway.
            Some(Field::Version | Field::TerraformVersion | Field::Serial | Field::Lineage) => {
                false
            }
            _ => value.len() > MAX_HEADER_VALUE,
        };
        if large {
            let digest = Digest::of(value);
            if self.parts.iter().all(|part| part.digest != digest) {
                self.parts.push(Part {
                    digest,
                    body: Cow::Borrowed(value),
                });
            }
            return self.push_member(name, Value::Part(digest));
        }
        let rendered = render(value, Shape::Value, 1, 16 * MAX_HEADER_VALUE);
        self.push_member(
            name,
            Value::Raw(rendered.map_or_else(|| value.into(), Into::into)),
        );
    }

    fn push_member(&mut self, name: &'a [u8], value: Value) {
        if self.members.len() == MAX_MEMBERS || name.len() > MAX_HEADER_VALUE {
            return self.problem(|| "too many or too long top-level names".to_owned());
        }
        self.members.push(Member {
            name: name.into(),
            value,
        });
    }

    /// Decides what the document is.
    fn finish(mut self, posted_len: usize, digests: &[Digest]) -> Result<Document<'a>, Refusal> {
        let version = match self.fields.version() {
            Version::Missing if self.fields.encrypted => {
                self.fields.check_serial()?;
                return Ok(self.opaque(OpaqueReason::Encrypted, None));
            }
            Version::Missing => {
                self.problem = Some("there is no version".to_owned());
                None
            }
            Version::Unreadable | Version::Number(0) => {
                self.problem = Some("the version is no number from 1".to_owned());
                None
            }
            Version::Number(older @ 1..=3) => {
                return Ok(self.opaque(OpaqueReason::OlderVersion(older), Some(older)));
            }
            Version::Number(4) => Some(4),
            Version::Number(newer) => {
                return Ok(self.opaque(OpaqueReason::NewerVersion(newer), Some(newer)));
            }
        };
        self.fields.check_serial()?;
        if self.outputs.len().max(self.resources.len()) > MAX_ROWS {
            return Err(Refusal::TooManyInstances { limit: MAX_ROWS });
        }
        let texts = (self.fields.lineage(), self.fields.terraform_version());
        let (Some(serial), (Some(lineage), Some(terraform_version)), None) =
            (self.fields.serial(), texts, &self.problem)
        else {
            let why = self.problem.take();
            let why = why.unwrap_or_else(|| "serial, lineage or terraform_version".to_owned());
            return Ok(self.opaque(OpaqueReason::NotReadable(why), version));
        };
        sort_outputs(&mut self.outputs);
        let (blocks, instances) = self.resources.into_rows(digests)?;
        Ok(Document::State(State {
            serial,
            lineage,
            terraform_version,
            ambiguous: self.fields.ambiguous,
            header: Header {
                members: self.members,
            },
            parts: self.parts,
            outputs: self.outputs,
            blocks,
            instances,
            posted_len,
        }))
    }

    fn opaque(self, reason: OpaqueReason, version: Option<u64>) -> Document<'a> {
        Document::Opaque(Opaque {
            reason,
            version,
            serial: self.fields.serial_present(),
            lineage: self.fields.lineage_present(),
            terraform_version: self.fields.terraform_version_present(),
            ambiguous: self.fields.ambiguous,
        })
    }
}

/// Sorts by name and keeps the last of each, as Terraform does.
fn sort_outputs(outputs: &mut Vec<Output<'_>>) {
    if outputs.is_sorted_by(|a, b| a.name < b.name) {
        return;
    }
    // The sort is stable, so among equals the last one written comes first here.
    outputs.reverse();
    outputs.sort_by(|a, b| a.name.cmp(&b.name));
    outputs.dedup_by(|later, kept| later.name == kept.name);
}
