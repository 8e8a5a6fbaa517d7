//! The lines of `versions/<seq>.delta.jsonl`, and their order.
//!
//! Texts of the state are JSON strings that hold the raw text, so that a generic JSON reader gives
//! back exactly the bytes. Rows are named by their position in the version before: a reader needs
//! neither addresses nor the rules of their order.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json::check_depth;
use crate::refusal::{Fault, Rule};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line<'a> {
    /// Always the first line: the top-level members in order, each a name token and its text. No
    /// text: as in the version before.
    Header {
        members: Vec<(Cow<'a, str>, Option<Cow<'a, str>>)>,
    },
    /// An output that appeared or changed; its name, also as raw JSON string.
    OutputSet {
        name: Cow<'a, str>,
        token: Cow<'a, str>,
        body: Cow<'a, str>,
    },
    OutputGone {
        name: Cow<'a, str>,
    },
    /// A row before the one at this position of the version before.
    Insert {
        at: u64,
        address: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deposed: Option<Cow<'a, str>>,
        /// Absent: that of the row before it in this file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block: Option<Cow<'a, str>>,
        /// Absent: the block has no instances.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Cow<'a, str>>,
    },
    /// The row that takes the place of the one at this position.
    Replace {
        at: u64,
        address: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deposed: Option<Cow<'a, str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block: Option<Cow<'a, str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Cow<'a, str>>,
    },
    /// The row at this position is gone.
    Remove {
        at: u64,
        address: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deposed: Option<Cow<'a, str>>,
    },
}

/// A delta, read.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// Name tokens and texts; no text: as in the version before.
    pub(crate) members: Vec<(String, Option<String>)>,
    /// By name, ascending.
    pub(crate) outputs: Vec<OutputChange>,
    /// By position, ascending.
    pub(crate) rows: Vec<RowChange>,
}

#[derive(Debug)]
pub(crate) struct OutputChange {
    pub(crate) name: String,
    /// Token and body; absent: the output is gone.
    pub(crate) now: Option<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct RowChange {
    pub(crate) at: u64,
    pub(crate) address: String,
    pub(crate) deposed: Option<String>,
    pub(crate) kind: ChangeKind,
}

#[derive(Debug)]
pub(crate) enum ChangeKind {
    Insert(RowText),
    Replace(RowText),
    Remove,
}

/// What a row is made of.
#[derive(Debug)]
pub(crate) struct RowText {
    pub(crate) block: Arc<str>,
    /// Absent for a block without instances.
    pub(crate) body: Option<String>,
}

impl RowChange {
    /// The row that is there now.
    pub(crate) fn now(&self) -> Option<&RowText> {
        match &self.kind {
            ChangeKind::Insert(row) | ChangeKind::Replace(row) => Some(row),
            ChangeKind::Remove => None,
        }
    }
}

/// Reads a delta line by line from pieces that end anywhere.
pub(crate) struct DeltaReader {
    delta: Delta,
    /// How many lines there is memory for.
    room: u64,
    has_header: bool,
    block: Option<Arc<str>>,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
}

impl DeltaReader {
    pub(crate) fn new(room: u64) -> Self {
        Self {
            delta: Delta::default(),
            room,
            has_header: false,
            block: None,
            line: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Result<(), Fault> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            if self.line.is_empty() {
                self.line(line)?;
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.line(&line)?;
            }
            piece = rest;
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Delta, Fault> {
        if !self.line.is_empty() {
            return Err(Fault::new(Rule::DeltaLine, "the last line has no end"));
        }
        if !self.has_header {
            return Err(Fault::new(Rule::DeltaLine, "there is no header line"));
        }
        Ok(self.delta)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.room = self.room.checked_sub(1).ok_or_else(|| {
            let detail = "the delta has more lines than there is memory for";
            Fault::new(Rule::OverMemory, detail)
        })?;
        let line: Line<'static> = serde_json::from_slice(line).map_err(|error| {
            // Only ill-formed lines can be deep: every member of a line is known.
            check_depth(line)
                .err()
                .unwrap_or_else(|| Fault::new(Rule::DeltaLine, error.to_string()))
        })?;
        if self.has_header == matches!(line, Line::Header { .. }) {
            return Err(Fault::new(
                Rule::DeltaOrder,
                "the header is the first line, and no other",
            ));
        }
        match line {
            Line::Header { members } => {
                self.has_header = true;
                let own = |(name, text): (Cow<'_, str>, Option<Cow<'_, str>>)| {
                    (name.into_owned(), text.map(Cow::into_owned))
                };
                self.delta.members = members.into_iter().map(own).collect();
                Ok(())
            }
            Line::OutputSet { name, token, body } => {
                self.output(name, Some((token.into_owned(), body.into_owned())))
            }
            Line::OutputGone { name } => self.output(name, None),
            Line::Insert {
                at,
                address,
                deposed,
                block,
                body,
            } => {
                let row = self.row_text(block, body)?;
                self.row(at, address, deposed, ChangeKind::Insert(row))
            }
            Line::Replace {
                at,
                address,
                deposed,
                block,
                body,
            } => {
                let row = self.row_text(block, body)?;
                self.row(at, address, deposed, ChangeKind::Replace(row))
            }
            Line::Remove {
                at,
                address,
                deposed,
            } => self.row(at, address, deposed, ChangeKind::Remove),
        }
    }

    fn output(&mut self, name: Cow<'_, str>, now: Option<(String, String)>) -> Result<(), Fault> {
        let after_rows = !self.delta.rows.is_empty();
        if after_rows
            || self
                .delta
                .outputs
                .last()
                .is_some_and(|last| *last.name >= *name)
        {
            return Err(Fault::new(
                Rule::DeltaOrder,
                format!("output {name:?} is out of order"),
            ));
        }
        self.delta.outputs.push(OutputChange {
            name: name.into_owned(),
            now,
        });
        Ok(())
    }

    fn row_text(
        &mut self,
        block: Option<Cow<'_, str>>,
        body: Option<Cow<'_, str>>,
    ) -> Result<RowText, Fault> {
        if let Some(block) = block {
            self.block = Some(block.into());
        }
        let Some(block) = self.block.clone() else {
            return Err(Fault::new(
                Rule::DeltaLine,
                "the first row of a delta names no block",
            ));
        };
        Ok(RowText {
            block,
            body: body.map(Cow::into_owned),
        })
    }

    fn row(
        &mut self,
        at: u64,
        address: Cow<'_, str>,
        deposed: Option<Cow<'_, str>>,
        kind: ChangeKind,
    ) -> Result<(), Fault> {
        // Several rows may be inserted at one position, before what else happens there.
        let follows = self.delta.rows.last().is_none_or(|last| match last.kind {
            ChangeKind::Insert(_) => last.at <= at,
            ChangeKind::Replace(_) | ChangeKind::Remove => last.at < at,
        });
        if !follows {
            return Err(Fault::new(
                Rule::DeltaOrder,
                format!("{address} is out of order"),
            ));
        }
        self.delta.rows.push(RowChange {
            at,
            address: address.into_owned(),
            deposed: deposed.map(Cow::into_owned),
            kind,
        });
        Ok(())
    }
}
