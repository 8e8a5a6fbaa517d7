//! The rows of the current version: enough to apply a delta to, and to render the document.
//!
//! Bodies of a key frame stay spans of its document; only what deltas brought is held beside it.
//! So the memory is that of one document, plus what has changed since, plus some bytes a row.

use std::sync::Arc;

use tfstate::{
    Address, Digest, Header, MissingPart, ModulePath, OrdKey, Place, Renderer, RowKind, RowsDigest,
};

/// What a row costs beside its body.
const ROW_COST: u64 = 200;

/// Rendered bytes handed on at once.
const CHUNK: usize = 256 << 10;

/// The rows of one version.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) header: Option<Header>,
    pub(crate) parts: Vec<PartRow>,
    pub(crate) outputs: Vec<OutputRow>,
    pub(crate) instances: Vec<InstanceRow>,
    /// Whether bodies are at hand, so that a delta may follow.
    pub(crate) complete: bool,
    /// The sum over instances and outputs.
    pub(crate) sum: RowsDigest,
    /// Bytes of bodies that are no spans.
    pub(crate) own_bytes: u64,
}

/// A large header member.
pub(crate) struct PartRow {
    /// The member's name as raw JSON string.
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) body: Body,
}

pub(crate) struct OutputRow {
    pub(crate) name: String,
    pub(crate) token: Box<[u8]>,
    pub(crate) digest: Digest,
    pub(crate) body: Body,
}

pub(crate) struct InstanceRow {
    pub(crate) ord: Box<[u8]>,
    pub(crate) digest: Digest,
    pub(crate) kind: RowKind,
    pub(crate) block: Arc<[u8]>,
    pub(crate) body: Body,
}

/// Bytes of a row.
pub(crate) enum Body {
    /// In the key frame.
    Span {
        start: u32,
        len: u32,
    },
    Own(Box<[u8]>),
    /// Given up: only place and digest are still needed.
    Gone,
}

impl Body {
    /// `piece`, as a span where it lies in `document`.
    pub(crate) fn of(piece: &[u8], document: &[u8]) -> Self {
        let offset = piece.as_ptr().addr().checked_sub(document.as_ptr().addr());
        let inside = offset.filter(|start| start + piece.len() <= document.len());
        match (inside.map(u32::try_from), u32::try_from(piece.len())) {
            (Some(Ok(start)), Ok(len)) => Self::Span { start, len },
            _ => Self::Own(piece.into()),
        }
    }

    pub(crate) fn bytes<'a>(&'a self, document: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Span { start, len } => &document[*start as usize..][..*len as usize],
            Self::Own(bytes) => bytes,
            Self::Gone => b"",
        }
    }

    /// Bytes held beside the key frame.
    pub(crate) fn own(&self) -> u64 {
        match self {
            Self::Own(bytes) => bytes.len() as u64,
            Self::Span { .. } | Self::Gone => 0,
        }
    }
}

impl Rows {
    /// Gives up everything but places and digests.
    pub(crate) fn forget(&mut self) {
        self.header = None;
        self.parts = Vec::new();
        self.complete = false;
        self.own_bytes = 0;
        let nothing: Arc<[u8]> = Arc::from([]);
        for row in &mut self.instances {
            row.block = Arc::clone(&nothing);
            row.body = Body::Gone;
        }
        for row in &mut self.outputs {
            row.body = Body::Gone;
        }
    }

    /// Bytes of memory beside the key frame's document, roughly.
    pub(crate) fn memory(&self) -> u64 {
        let rows = (self.instances.len() + self.outputs.len()) as u64;
        self.own_bytes.saturating_add(rows.saturating_mul(ROW_COST))
    }

    pub(crate) fn count_own_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| &part.body);
        let outputs = self.outputs.iter().map(|row| &row.body);
        let instances = self.instances.iter().map(|row| &row.body);
        parts.chain(outputs).chain(instances).map(Body::own).sum()
    }

    /// The sum over instances, outputs and parts, as [`tfstate::State::rows_digest`] has it.
    pub(crate) fn digest(&self) -> RowsDigest {
        let mut sum = self.sum;
        let mut seen: Vec<Digest> = self.parts.iter().map(|part| part.digest).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().for_each(|part| sum.add(part));
        sum
    }

    pub(crate) fn instance_count(&self) -> u64 {
        self.instances
            .iter()
            .filter(|row| row.kind != RowKind::Shell)
            .count() as u64
    }

    /// Renders the document, piece by piece. `document` is the key frame the spans lie in. `each` may take a piece's buffer
    /// and leave another one.
    pub(crate) fn render<E>(
        &self,
        document: &[u8],
        mut each: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Result<(), MissingPart>, E> {
        let Some(header) = &self.header else {
            return Ok(Ok(()));
        };
        let part = |digest: &Digest| {
            let part = self.parts.iter().find(|part| part.digest == *digest);
            part.map(|part| part.body.bytes(document))
        };
        let outputs = self
            .outputs
            .iter()
            .map(|row| (&row.token, row.body.bytes(document)));
        let mut renderer = match Renderer::new(header, outputs, part) {
            Ok(renderer) => renderer,
            Err(missing) => return Ok(Err(missing)),
        };
        let mut text = Vec::with_capacity(CHUNK + CHUNK / 4);
        renderer.start(&mut text);
        for row in &self.instances {
            renderer.instance(&row.block, row.kind, row.body.bytes(document), &mut text);
            if text.len() >= CHUNK {
                each(&mut text)?;
                text.clear();
                text.reserve(CHUNK + CHUNK / 4);
            }
        }
        renderer.finish(&mut text);
        each(&mut text)?;
        Ok(Ok(()))
    }
}

/// The address of the row at a place, and the key of a deposed object there. `None` when the bytes
/// are no place.
pub(crate) fn address_of(ord: &[u8]) -> Option<(String, Option<String>)> {
    let place = Place::decode(ord).ok()?;
    let module: ModulePath = place.module.parse().ok()?;
    let (key, deposed) = match place.key {
        OrdKey::Shell => (None, None),
        OrdKey::Instance { key, deposed } => (key, deposed),
    };
    let address = Address {
        module: module.0,
        mode: place.mode,
        kind: place.kind,
        name: place.name,
        key,
    };
    Some((address.to_string(), deposed))
}
