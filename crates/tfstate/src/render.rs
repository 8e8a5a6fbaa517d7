//! The document rebuilt from header and rows, one row at a time.
//!
//! The renderer writes Terraform's layout around texts it takes as they are. Nothing is kept but
//! the text of the current block, so a document of any size renders in a bounded buffer.

use std::borrow::Cow;

use crate::Digest;
use crate::document::RowKind;
use crate::header::{Empty, Header, Value};
use crate::sink::Sink;

/// A part the header names was not at hand, so the document cannot be rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the part {digest} of the document is missing")]
pub struct MissingPart {
    pub digest: Digest,
}

/// Renders one document: [`Renderer::start`], then [`Renderer::instance`] for each row in order,
/// then [`Renderer::finish`]. Each appends to the buffer it is given, which may be drained
/// between calls.
pub struct Renderer<'a, O> {
    members: std::vec::IntoIter<(Cow<'a, [u8]>, Piece<'a>)>,
    outputs: O,
    first_member: bool,
    /// The resources member has been opened with a row.
    in_resources: bool,
    /// Text of the block that is open; `None` when none is.
    block: Option<Vec<u8>>,
    /// How the header wants empty resources, while their place has been reached and no row came.
    waiting: Option<(Cow<'a, [u8]>, Option<Empty>)>,
}

enum Piece<'a> {
    Text(Cow<'a, [u8]>),
    /// `None`: the header has no such member.
    Outputs(Option<Empty>),
    Resources(Option<Empty>),
}

impl<'a, O, N, B> Renderer<'a, O>
where
    O: Iterator<Item = (N, B)>,
    N: AsRef<[u8]>,
    B: AsRef<[u8]>,
{
    /// `outputs` yields name tokens and bodies in bytewise order of the names; `parts` finds the
    /// body of a part.
    ///
    /// # Errors
    /// [`MissingPart`] when `parts` does not know a digest the header names.
    pub fn new(
        header: &'a Header,
        outputs: O,
        parts: impl Fn(&Digest) -> Option<&'a [u8]>,
    ) -> Result<Self, MissingPart> {
        let mut members = Vec::with_capacity(header.members.len() + 2);
        let (mut has_outputs, mut has_resources) = (false, false);
        for member in &header.members {
            let piece = match &member.value {
                Value::Raw(raw) => Piece::Text(Cow::Borrowed(raw)),
                Value::Part(digest) => {
                    let body = parts(digest).ok_or(MissingPart { digest: *digest })?;
                    Piece::Text(Cow::Borrowed(body))
                }
                Value::Outputs(empty) => {
                    has_outputs = true;
                    Piece::Outputs(Some(*empty))
                }
                Value::Resources(empty) => {
                    has_resources = true;
                    Piece::Resources(Some(*empty))
                }
            };
            members.push((Cow::Borrowed(&*member.name), piece));
        }
        // Rows without a place in the header follow its members; without rows nothing is added.
        if !has_outputs {
            members.push((Cow::Borrowed(&b"\"outputs\""[..]), Piece::Outputs(None)));
        }
        if !has_resources {
            members.push((Cow::Borrowed(&b"\"resources\""[..]), Piece::Resources(None)));
        }
        Ok(Self {
            members: members.into_iter(),
            outputs,
            first_member: true,
            in_resources: false,
            block: None,
            waiting: None,
        })
    }

    /// The same renderer, borrowing nothing: for a document that is rendered over a longer time than its
    /// header is at hand.
    pub fn into_owned(self) -> Renderer<'static, O> {
        let own = |text: Cow<'a, [u8]>| Cow::Owned(text.into_owned());
        let members: Vec<_> = self
            .members
            .map(|(name, piece)| {
                let piece = match piece {
                    Piece::Text(text) => Piece::Text(own(text)),
                    Piece::Outputs(empty) => Piece::Outputs(empty),
                    Piece::Resources(empty) => Piece::Resources(empty),
                };
                (own(name), piece)
            })
            .collect();
        Renderer {
            members: members.into_iter(),
            outputs: self.outputs,
            first_member: self.first_member,
            in_resources: self.in_resources,
            block: self.block,
            waiting: self.waiting.map(|(name, empty)| (own(name), empty)),
        }
    }

    /// Writes everything before the first resource block.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        self.write_start(out);
    }

    /// Writes one row. Consecutive rows with the same block text share a block.
    pub fn instance(&mut self, block_text: &[u8], kind: RowKind, body: &[u8], out: &mut Vec<u8>) {
        self.write_instance(block_text, kind, body, out);
    }

    /// Writes everything after the last resource block.
    pub fn finish(self, out: &mut Vec<u8>) {
        self.write_finish(out);
    }

    pub(crate) fn write_start(&mut self, out: &mut impl Sink) -> bool {
        out.piece(b"{") && self.members_up_to_resources(out)
    }

    fn members_up_to_resources(&mut self, out: &mut impl Sink) -> bool {
        while let Some((name, piece)) = self.members.next() {
            let goes_on = match piece {
                Piece::Text(text) => self.member(&name, out) && out.piece(&text),
                Piece::Outputs(empty) => self.output_rows(&name, empty, out),
                Piece::Resources(empty) => {
                    self.waiting = Some((name, empty));
                    return true;
                }
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn member(&mut self, name: &[u8], out: &mut impl Sink) -> bool {
        let lead: &[u8] = if self.first_member { b"\n  " } else { b",\n  " };
        self.first_member = false;
        out.piece(lead) && out.piece(name) && out.piece(b": ")
    }

    fn output_rows(&mut self, name: &[u8], empty: Option<Empty>, out: &mut impl Sink) -> bool {
        let Some(mut row) = self.outputs.next() else {
            return match empty {
                Some(Empty::Brackets) => self.member(name, out) && out.piece(b"{}"),
                Some(Empty::Null) => self.member(name, out) && out.piece(b"null"),
                None => true,
            };
        };
        if !(self.member(name, out) && out.piece(b"{\n    ")) {
            return false;
        }
        loop {
            let (token, body) = &row;
            if !(out.piece(token.as_ref()) && out.piece(b": ") && out.piece(body.as_ref())) {
                return false;
            }
            match self.outputs.next() {
                Some(next) => row = next,
                None => return out.piece(b"\n  }"),
            }
            if !out.piece(b",\n    ") {
                return false;
            }
        }
    }

    pub(crate) fn write_instance(
        &mut self,
        text: &[u8],
        kind: RowKind,
        body: &[u8],
        out: &mut impl Sink,
    ) -> bool {
        if kind != RowKind::Shell && self.block.as_deref() == Some(text) {
            return out.piece(b",\n        ") && out.piece(body);
        }
        if !(self.close_block(out) && self.open_block(text, out)) {
            return false;
        }
        if kind == RowKind::Shell {
            return out.piece(b"[]\n    }");
        }
        self.block = Some(text.to_vec());
        out.piece(b"[\n        ") && out.piece(body)
    }

    fn open_block(&mut self, text: &[u8], out: &mut impl Sink) -> bool {
        let lead: &[u8] = if self.in_resources {
            b",\n    {\n      "
        } else {
            self.in_resources = true;
            if let Some((name, _)) = self.waiting.take()
                && !self.member(&name, out)
            {
                return false;
            }
            b"[\n    {\n      "
        };
        let gap: &[u8] = if text.is_empty() { b"" } else { b",\n      " };
        out.piece(lead) && out.piece(text) && out.piece(gap) && out.piece(b"\"instances\": ")
    }

    fn close_block(&mut self, out: &mut impl Sink) -> bool {
        self.block.take().is_none() || out.piece(b"\n      ]\n    }")
    }

    pub(crate) fn write_finish(mut self, out: &mut impl Sink) -> bool {
        if !self.close_block(out) {
            return false;
        }
        let closed = match self.waiting.take() {
            None => !self.in_resources || out.piece(b"\n  ]"),
            Some((name, Some(Empty::Brackets))) => self.member(&name, out) && out.piece(b"[]"),
            Some((name, Some(Empty::Null))) => self.member(&name, out) && out.piece(b"null"),
            Some((_, None)) => true,
        };
        let end: &[u8] = if closed && self.members_up_to_resources(out) {
            if self.first_member { b"}\n" } else { b"\n}\n" }
        } else {
            return false;
        };
        out.piece(end)
    }
}
