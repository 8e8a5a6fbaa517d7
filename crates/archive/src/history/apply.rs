//! Applying a delta: what its pieces are, and where they go.

use std::borrow::Cow;
use std::sync::Arc;

use tfstate::{Document, RowKind, State, parse};

use super::rows::{InstanceRow, OutputRow, PartRow};
use super::{Body, Rows, address_of, named_parts, text};
use crate::delta::{ChangeKind, Delta, OutputChange, RowChange, RowText};
use crate::refusal::{Fault, Rule};

/// The parts after a delta; those that stayed keep their place in memory.
pub(super) fn parts_of(state: &State<'_>, before: Vec<PartRow>) -> Vec<PartRow> {
    let mut parts = named_parts(state, |body| Body::Own(body.into()));
    for old in before {
        if let Some(part) = parts.iter_mut().find(|part| part.digest == old.digest) {
            part.body = old.body;
        }
    }
    parts
}

/// The delta as a document: its header in full, and the rows it brings.
pub(super) fn delta_document(
    delta: &Delta,
    rows: &Rows,
    document: &[u8],
) -> Result<Vec<u8>, Fault> {
    let mut members = Vec::with_capacity(delta.members.len());
    for (name, text) in &delta.members {
        let text = match text {
            Some(text) => Cow::Borrowed(&**text),
            None => match rows.parts.iter().find(|part| part.name == *name) {
                Some(part) => String::from_utf8_lossy(part.body.bytes(document)),
                None => {
                    let detail = format!("the version before has no large member {name}");
                    return Err(Fault::new(Rule::DeltaPlace, detail));
                }
            },
        };
        members.push((&**name, text));
    }
    let outputs: Vec<(&str, &str)> = delta
        .outputs
        .iter()
        .filter_map(|output| output.now.as_ref())
        .map(|(token, body)| (&**token, &**body))
        .collect();
    let instances = delta
        .rows
        .iter()
        .filter_map(RowChange::now)
        .map(|row| (&*row.block, row.body.as_deref()));
    Ok(text::document(&members, &outputs, instances))
}

/// Parses [`delta_document`]: its rows must be exactly the pieces of the delta, one by one.
pub(super) fn read_pieces<'a>(delta: &Delta, text: &'a [u8]) -> Result<State<'a>, Fault> {
    let not_rows = |what: &str| Fault::new(Rule::DeltaRows, what);
    let state = match parse(text) {
        Ok(Document::State(state)) => state,
        Ok(Document::Opaque(_)) => return Err(not_rows("its pieces make no readable state")),
        Err(refusal) => return Err(not_rows(&refusal.to_string())),
    };
    let pieces: Vec<&RowText> = delta.rows.iter().filter_map(RowChange::now).collect();
    let outputs: Vec<_> = delta
        .outputs
        .iter()
        .filter_map(|output| Some((&output.name, output.now.as_ref()?)))
        .collect();
    let instances_match = pieces.len() == state.instances.len()
        && pieces.iter().zip(&state.instances).all(|(piece, row)| {
            *state.block(row).text == *piece.block.as_bytes()
                && (row.kind == RowKind::Shell) == piece.body.is_none()
                && *row.body == *piece.body.as_deref().unwrap_or_default().as_bytes()
        });
    let outputs_match = outputs.len() == state.outputs.len()
        && outputs
            .iter()
            .zip(&state.outputs)
            .all(|((name, (token, body)), row)| {
                row.name == **name
                    && row.name_token == token.as_bytes()
                    && *row.body == *body.as_bytes()
            });
    if instances_match && outputs_match && state.reproduces(text) {
        Ok(state)
    } else {
        Err(not_rows("its pieces are not the rows they claim to be"))
    }
}

pub(super) fn outputs(
    rows: &mut Rows,
    changes: Vec<OutputChange>,
    state: &State<'_>,
    closed: &mut Vec<String>,
) -> Result<(), Fault> {
    let mut brought = state.outputs.iter();
    for change in changes {
        let place = rows
            .outputs
            .binary_search_by(|row| row.name.cmp(&change.name));
        if let Ok(at) = place {
            rows.sum.remove(rows.outputs[at].digest);
            closed.push(change.name.clone());
        }
        match (place, change.now) {
            (Ok(at), None) => _ = rows.outputs.remove(at),
            (Err(_), None) => {
                let detail = format!("the version before has no output {:?}", change.name);
                return Err(Fault::new(Rule::DeltaPlace, detail));
            }
            (place, Some((token, body))) => {
                // Checked before: as many outputs were parsed as the delta brings.
                let Some(digest) = brought.next().map(|output| output.digest) else {
                    break;
                };
                rows.sum.add(digest);
                let row = OutputRow {
                    name: change.name,
                    token: token.into_bytes().into(),
                    digest,
                    body: Body::Own(body.into_bytes().into()),
                };
                match place {
                    Ok(at) => rows.outputs[at] = row,
                    Err(at) => rows.outputs.insert(at, row),
                }
            }
        }
    }
    Ok(())
}

pub(super) fn instances(
    rows: &mut Rows,
    changes: Vec<RowChange>,
    state: &State<'_>,
    closed: &mut Vec<Box<[u8]>>,
) -> Result<(), Fault> {
    if changes.is_empty() {
        return Ok(());
    }
    let misplaced =
        |address: &str, what: &str| Err(Fault::new(Rule::DeltaPlace, format!("{address}: {what}")));
    let mut old = std::mem::take(&mut rows.instances).into_iter();
    let mut taken = 0;
    let mut now: Vec<InstanceRow> = Vec::with_capacity(old.len() + changes.len());
    let mut brought = state.instances.iter();
    // Rows with the same block text share it in memory too.
    let mut shared: Option<(Arc<str>, Arc<[u8]>)> = None;
    for change in changes {
        while taken < change.at {
            let Some(row) = old.next() else {
                return misplaced(
                    &change.address,
                    "the version before has no row at its position",
                );
            };
            now.push(row);
            taken += 1;
        }
        let (piece, replaced) = match change.kind {
            ChangeKind::Insert(piece) => (Some(piece), None),
            ChangeKind::Replace(piece) => (Some(piece), Some(old.next())),
            ChangeKind::Remove => (None, Some(old.next())),
        };
        let gone = match replaced {
            None => None,
            Some(Some(row)) => {
                taken += 1;
                rows.sum.remove(row.digest);
                closed.push(row.ord.clone());
                Some(row.ord)
            }
            Some(None) => {
                return misplaced(
                    &change.address,
                    "the version before has no row at its position",
                );
            }
        };
        let row = piece.and_then(|piece| brought.next().map(|parsed| (piece, parsed)));
        let ord = match (&row, &gone) {
            (Some((_, parsed)), Some(gone)) if parsed.ord != *gone => {
                return misplaced(&change.address, "it takes the place of another row");
            }
            (Some((_, parsed)), _) => &parsed.ord,
            (None, Some(gone)) => gone,
            (None, None) => continue,
        };
        if address_of(ord).as_ref() != Some(&(change.address.clone(), change.deposed)) {
            return misplaced(
                &change.address,
                "the row at its position has another address",
            );
        }
        if let Some((piece, parsed)) = row {
            rows.sum.add(parsed.digest);
            let block = match &shared {
                Some((text, block)) if Arc::ptr_eq(text, &piece.block) => Arc::clone(block),
                _ => Arc::from(piece.block.as_bytes()),
            };
            shared = Some((piece.block, Arc::clone(&block)));
            now.push(InstanceRow {
                ord: parsed.ord.clone(),
                digest: parsed.digest,
                kind: parsed.kind,
                block,
                body: Body::Own(piece.body.unwrap_or_default().into_bytes().into()),
            });
        }
    }
    now.extend(old);
    if let Some(pair) = now.array_windows().find(|[a, b]| a.ord >= b.ord) {
        let address = address_of(&pair[1].ord).map_or_else(String::new, |(address, _)| address);
        return misplaced(
            &address,
            "its row is not where the order of the document has it",
        );
    }
    rows.instances = now;
    Ok(())
}
