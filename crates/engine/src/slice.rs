//! Slices: the document of a part of a state, as Terraform would write it.
//!
//! Only the rows of the slice are read, each by its place, so its cost does not grow with the state.

use bytes::Bytes;
use store::{OutputRow, SliceRow, WorkspaceTx};
use tfstate::{Address, Digest, Header, Place, Renderer, RowKind, instance_digest, output_digest};
use uuid::Uuid;

use crate::EngineError;

/// Which part of which version a slice shows, and what stands around it.
#[derive(Debug, Clone, Copy)]
pub struct SliceSpec<'a> {
    pub state: Uuid,
    pub seq: i64,
    /// Instance addresses; each is shown with all its objects, current and deposed.
    pub addresses: &'a [String],
    /// Names of root outputs.
    pub outputs: &'a [String],
    pub lineage: &'a str,
    pub serial: u64,
    pub terraform_version: &'a str,
}

/// A slice as it is served, and the rows it was made of: what comes back is compared with them.
#[derive(Debug)]
pub struct RenderedSlice {
    pub document: Bytes,
    /// In document order.
    pub rows: Vec<SliceRow>,
    /// By name.
    pub outputs: Vec<OutputRow>,
}

/// Renders a slice. What is named and not in the version is left out, as Terraform would leave it out.
pub async fn render_slice(
    tx: &mut WorkspaceTx,
    spec: &SliceSpec<'_>,
) -> Result<RenderedSlice, EngineError> {
    let rows = rows_at(tx, spec.state, spec.seq, spec.addresses).await?;
    let outputs = store::outputs_named(tx, spec.state, spec.seq, spec.outputs).await?;
    for output in &outputs {
        let digest = output_digest(&output.name_token, &output.body);
        if output.digest != digest.as_bytes() {
            return Err(EngineError::Damaged {
                seq: spec.seq,
                what: "an output is not what its digest says",
            });
        }
    }
    let document = tokio::task::block_in_place(|| document(spec, &rows, &outputs))?;
    Ok(RenderedSlice {
        document,
        rows,
        outputs,
    })
}

/// Where the head holds something at these addresses, and at which of them.
pub(crate) async fn live_places_at(
    tx: &mut WorkspaceTx,
    state: Uuid,
    addresses: &[String],
) -> Result<Vec<(Vec<u8>, String)>, EngineError> {
    let (from, until) = ranges(addresses);
    Ok(store::live_places_in_ranges(tx, state, &from, &until).await?)
}

/// The ranges of places of these addresses: where each begins and where it ends.
fn ranges(addresses: &[String]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut places: Vec<_> = addresses
        .iter()
        .filter_map(|text| text.parse::<Address>().ok())
        .map(|address| Place::range_of(&address))
        .collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().unzip()
}

/// What a version holds at these addresses, in document order, each row proven to be what was written.
pub(crate) async fn rows_at(
    tx: &mut WorkspaceTx,
    state: Uuid,
    seq: i64,
    addresses: &[String],
) -> Result<Vec<SliceRow>, EngineError> {
    let (from, until) = ranges(addresses);
    let rows = store::rows_in_ranges(tx, state, seq, &from, &until).await?;
    tokio::task::block_in_place(|| {
        let sound = |row: &SliceRow| {
            instance_digest(&Digest::of(&row.block), &row.body).as_bytes() == &row.digest[..]
        };
        if rows.iter().all(sound) {
            Ok(rows)
        } else {
            Err(EngineError::Damaged {
                seq,
                what: "a row is not what its digest says",
            })
        }
    })
}

fn document(
    spec: &SliceSpec<'_>,
    rows: &[SliceRow],
    outputs: &[OutputRow],
) -> Result<Bytes, EngineError> {
    let header = Header::new(spec.terraform_version, spec.serial, spec.lineage);
    let outputs = outputs.iter().map(|row| (&row.name_token, &row.body));
    // A header made here names no parts.
    let mut renderer =
        Renderer::new(&header, outputs, |_| None).map_err(|_| EngineError::Damaged {
            seq: spec.seq,
            what: "its header names a part",
        })?;
    let size: usize = rows
        .iter()
        .map(|row| row.block.len() + row.body.len())
        .sum();
    let mut document = Vec::with_capacity(size + 1_024);
    renderer.start(&mut document);
    for row in rows {
        let kind = match row.kind.as_str() {
            "shell" => RowKind::Shell,
            "deposed" => RowKind::Deposed,
            _ => RowKind::Current,
        };
        renderer.instance(&row.block, kind, &row.body, &mut document);
    }
    renderer.finish(&mut document);
    Ok(Bytes::from(document))
}
