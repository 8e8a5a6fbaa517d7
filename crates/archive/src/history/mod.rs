//! A history, version by version: applies each to the rows of the one before.
//!
//! Pure: bytes in, rows or a broken rule out. The order of entries is `read`'s, what a version must
//! be is decided there too.

mod apply;
mod compare;
mod rows;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use tfstate::{Digest, Document, Opaque, State, parse};

pub use compare::Changes;
use compare::walk;
pub(crate) use rows::{Body, Rows, address_of};
use rows::{InstanceRow, OutputRow, PartRow};

use crate::delta::Delta;
use crate::members::{Member, MemberValue, members};
use crate::records::VersionMeta;
use crate::refusal::{Fault, Rule};

/// The current version.
#[derive(Default)]
pub(crate) struct History {
    /// The last key frame.
    document: Vec<u8>,
    /// The last delta, as a document.
    delta: Vec<u8>,
    rows: Rows,
}

/// A version just applied.
pub(crate) struct Step<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) rows: &'a Rows,
    /// The last key frame.
    pub(crate) document: &'a [u8],
}

/// What a version's document turned out to be.
pub(crate) enum Content<'a> {
    /// For a key frame the whole state, for a delta its header and what it brings.
    State {
        state: Box<State<'a>>,
        changes: Changes,
    },
    /// No rows: those of the version before stay.
    Opaque(Opaque),
}

impl History {
    /// Gives up what the next key frame does not need, before it is read into memory.
    pub(crate) fn forget(&mut self) {
        self.document = Vec::new();
        self.delta = Vec::new();
        self.rows.forget();
    }

    /// Bytes held, roughly.
    pub(crate) fn memory(&self) -> u64 {
        let texts = (self.document.len() + self.delta.len()) as u64;
        texts.saturating_add(self.rows.memory())
    }

    /// Takes a key frame.
    pub(crate) fn key_frame(
        &mut self,
        document: Vec<u8>,
        meta: &VersionMeta,
    ) -> Result<Step<'_>, Fault> {
        self.forget();
        let Self {
            document: held,
            rows,
            ..
        } = self;
        *held = document;
        let document: &[u8] = held;
        let refused =
            |refusal: tfstate::Refusal| Fault::new(Rule::DocumentRefused, refusal.to_string());
        let content = match parse(document).map_err(refused)? {
            Document::Opaque(opaque) => {
                check_verbatim(meta, false)?;
                let lineage = opaque.lineage.as_deref();
                check_fields(
                    meta,
                    opaque.serial,
                    lineage,
                    opaque.terraform_version.as_deref(),
                )?;
                Content::Opaque(opaque)
            }
            Document::State(mut state) => {
                check_state(meta, &state)?;
                let before = std::mem::take(rows);
                state.canonicalise(|ord, digest| {
                    let at = before.instances.binary_search_by(|row| (*row.ord).cmp(ord));
                    at.is_ok_and(|at| before.instances[at].digest == *digest)
                });
                check_verbatim(meta, state.reproduces(document))?;
                let changes = compare(&state, &before);
                *rows = rows_of(&state, document);
                rows.complete = !meta.verbatim;
                Content::State {
                    state: Box::new(state),
                    changes,
                }
            }
        };
        Ok(Step {
            content,
            rows,
            document,
        })
    }

    /// Takes a delta.
    pub(crate) fn delta(&mut self, delta: Delta, meta: &VersionMeta) -> Result<Step<'_>, Fault> {
        let Self {
            document,
            delta: held,
            rows,
        } = self;
        if !rows.complete {
            let detail = "a delta stands where there is no version whose rows it could change";
            return Err(Fault::new(Rule::KeyFrameRequired, detail));
        }
        *held = apply::delta_document(&delta, rows, document)?;
        let state = apply::read_pieces(&delta, held)?;
        check_state(meta, &state)?;
        let mut changes = Changes {
            born: (0..state.instances.len()).collect(),
            outputs_born: (0..state.outputs.len()).collect(),
            ..Changes::default()
        };
        rows.parts = apply::parts_of(&state, std::mem::take(&mut rows.parts));
        rows.header = Some(state.header.clone());
        apply::outputs(rows, delta.outputs, &state, &mut changes.outputs_closed)?;
        apply::instances(rows, delta.rows, &state, &mut changes.closed)?;
        rows.own_bytes = rows.count_own_bytes();
        Ok(Step {
            content: Content::State {
                state: Box::new(state),
                changes,
            },
            rows,
            document,
        })
    }
}

impl Step<'_> {
    /// Renders the version's document, piece by piece; `each` may take the buffer of a piece.
    pub(crate) fn render<E>(
        &self,
        each: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        // A part that is missing leaves the digest short of the document, which refuses it.
        let _complete = self.rows.render(self.document, each)?;
        Ok(())
    }
}

fn check_verbatim(meta: &VersionMeta, reproduced: bool) -> Result<(), Fault> {
    // A document that is marked verbatim may well be one that renders: its bytes are there.
    if reproduced || meta.verbatim {
        return Ok(());
    }
    let detail = "rendering does not give this document, yet it is not marked verbatim";
    Err(Fault::new(Rule::DocumentNotRendered, detail))
}

fn check_state(meta: &VersionMeta, state: &State<'_>) -> Result<(), Fault> {
    check_fields(
        meta,
        Some(state.serial),
        Some(&state.lineage),
        Some(&state.terraform_version),
    )
}

fn check_fields(
    meta: &VersionMeta,
    serial: Option<u64>,
    lineage: Option<&str>,
    terraform_version: Option<&str>,
) -> Result<(), Fault> {
    let differs = if meta.serial != serial {
        "serial"
    } else if meta.lineage.as_deref() != lineage {
        "lineage"
    } else if meta.terraform_version.as_deref() != terraform_version {
        "terraform_version"
    } else {
        return Ok(());
    };
    let detail = format!(
        "the {differs} of version {} is not that of its document",
        meta.seq
    );
    Err(Fault::new(Rule::DocumentFields, detail))
}

fn compare(state: &State<'_>, before: &Rows) -> Changes {
    let mut changes = Changes::default();
    walk(
        state.instances.iter().map(|row| (&*row.ord, row.digest)),
        before.instances.iter().map(|row| (&*row.ord, row.digest)),
        |index| changes.born.push(index),
        |index| changes.closed.push(before.instances[index].ord.clone()),
    );
    walk(
        state
            .outputs
            .iter()
            .map(|row| (row.name.as_bytes(), row.digest)),
        before
            .outputs
            .iter()
            .map(|row| (row.name.as_bytes(), row.digest)),
        |index| changes.outputs_born.push(index),
        |index| {
            changes
                .outputs_closed
                .push(before.outputs[index].name.clone())
        },
    );
    changes
}

/// All rows of a key frame.
fn rows_of(state: &State<'_>, document: &[u8]) -> Rows {
    let blocks: Vec<Arc<[u8]>> = state
        .blocks
        .iter()
        .map(|block| Arc::from(&*block.text))
        .collect();
    let instance = |row: &tfstate::Instance<'_>| InstanceRow {
        ord: row.ord.clone(),
        digest: row.digest,
        kind: row.kind,
        block: Arc::clone(&blocks[row.block as usize]),
        body: Body::of(&row.body, document),
    };
    let output = |row: &tfstate::Output<'_>| OutputRow {
        name: row.name.clone(),
        token: row.name_token.into(),
        digest: row.digest,
        body: Body::of(&row.body, document),
    };
    let mut rows = Rows {
        header: Some(state.header.clone()),
        parts: named_parts(state, |body| Body::of(body, document)),
        outputs: state.outputs.iter().map(output).collect(),
        instances: state.instances.iter().map(instance).collect(),
        ..Rows::default()
    };
    let digests = state.instances.iter().map(|row| row.digest);
    rows.sum = digests
        .chain(state.outputs.iter().map(|row| row.digest))
        .collect();
    rows.own_bytes = rows.count_own_bytes();
    rows
}

/// The parts of a header under the names of their members.
fn named_parts(state: &State<'_>, body: impl Fn(&[u8]) -> Body) -> Vec<PartRow> {
    let bodies: HashMap<Digest, &[u8]> = state
        .parts
        .iter()
        .map(|part| (part.digest, &*part.body))
        .collect();
    let part = |member: Member| match member.value {
        MemberValue::Text(_) => None,
        MemberValue::Part(digest) => Some(PartRow {
            name: member.name,
            digest,
            body: body(bodies.get(&digest).copied().unwrap_or_default()),
        }),
    };
    members(&state.header)
        .into_iter()
        .filter_map(part)
        .collect()
}
