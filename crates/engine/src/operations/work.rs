//! What an operation comes to: rows as they are, and what is to stand in their stead.

use std::collections::{BTreeMap, BTreeSet};

use graph::claims::{Claim, ClaimSet, Path};
use store::{SliceRow, Version, WorkspaceTx};
use tfstate::{Address, Document, Header, Place as DocumentPlace, Renderer, RowKind, State};
use uuid::Uuid;

use crate::commit::{Delta, Place as DeltaPlace};
use crate::graphs::StateGraph;
use crate::write::new_instance;
use crate::{EngineError, slice};

/// Where an operation is worked out: a version of a state, inside a transaction that sees it.
pub(super) struct Place<'a> {
    pub(super) tx: &'a mut WorkspaceTx,
    pub(super) graph: &'a StateGraph,
    pub(super) state: Uuid,
    pub(super) seq: i64,
}

impl Place<'_> {
    /// What the version holds at these addresses.
    pub(super) async fn rows(
        &mut self,
        addresses: &[String],
    ) -> Result<Vec<SliceRow>, EngineError> {
        slice::rows_at(self.tx, self.state, self.seq, addresses).await
    }
}

/// What is done, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Remove,
    Move,
    Replace,
    Restore,
    Patch,
    /// Nothing is to be done.
    NoOp,
}

/// A row that is to stand somewhere.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) address: Address,
    pub(super) kind: RowKind,
    pub(super) deposed: Option<String>,
    pub(super) block: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Piece {
    /// A row as it is. `None` when its address cannot be read.
    pub(super) fn of(row: &SliceRow) -> Option<Self> {
        Some(Self {
            address: row.address.parse().ok()?,
            kind: match row.kind.as_str() {
                "shell" => RowKind::Shell,
                "deposed" => RowKind::Deposed,
                _ => RowKind::Current,
            },
            deposed: row.deposed.clone(),
            block: row.block.clone(),
            body: row.body.clone(),
        })
    }
}

pub(super) struct Work {
    pub(super) verb: Verb,
    /// The version that something is taken from.
    pub(super) target: Option<Version>,
    /// Every row that may change or go, as it is.
    pub(super) before: Vec<SliceRow>,
    /// All that is to stand at their places and elsewhere.
    pub(super) after: Vec<Piece>,
    /// What the operation is on, as it is.
    pub(super) subject: Vec<SliceRow>,
    /// What it is to be; empty for what is taken away.
    pub(super) outcome: Vec<SliceRow>,
    /// Blocks that the subject is recorded to depend on, and those that depend on it.
    pub(super) dependencies: Vec<String>,
    pub(super) dependents: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Work {
    pub(super) fn nothing() -> Self {
        Self {
            verb: Verb::NoOp,
            target: None,
            before: Vec::new(),
            after: Vec::new(),
            subject: Vec::new(),
            outcome: Vec::new(),
            dependencies: Vec::new(),
            dependents: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Notes what is around the blocks of the subject.
    pub(super) fn look_around(&mut self, graph: &StateGraph) {
        let blocks: BTreeSet<&str> = self
            .subject
            .iter()
            .map(|row| row.config_address.as_str())
            .collect();
        let (mut dependencies, mut dependents) = (BTreeSet::new(), BTreeSet::new());
        for block in blocks.iter().filter_map(|block| block.parse().ok()) {
            let around =
                graph
                    .realized()
                    .neighbours(graph.dependents(), &block, graph::Reach::Transitive);
            dependencies.extend(around.dependencies);
            dependents.extend(around.dependents);
        }
        let outside = |block: &String| !blocks.contains(block.as_str());
        self.dependencies = dependencies.into_iter().filter(outside).collect();
        self.dependents = dependents.into_iter().filter(outside).collect();
    }

    /// The document of what is to stand; empty where nothing is.
    pub(super) fn document(&self) -> Result<Vec<u8>, EngineError> {
        let mut pieces: Vec<&Piece> = self.after.iter().collect();
        pieces.sort_by_cached_key(|piece| {
            let (from, _) = DocumentPlace::range_of(&piece.address);
            (from, piece.deposed.clone())
        });
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        // What stands around the rows is not looked at.
        let header = Header::new("1.0.0", 1, "");
        let outputs = std::iter::empty::<(Vec<u8>, Vec<u8>)>();
        let mut renderer = Renderer::new(&header, outputs, |_| None)
            .map_err(|_| cannot("the header names a part"))?;
        let mut document = Vec::new();
        renderer.start(&mut document);
        for piece in pieces {
            renderer.instance(&piece.block, piece.kind, &piece.body, &mut document);
        }
        renderer.finish(&mut document);
        Ok(document)
    }

    /// What changes, given what is to stand, parsed.
    pub(super) fn delta<'a>(&self, after: Option<&'a State<'_>>) -> Result<Delta<'a>, EngineError> {
        let mut before: BTreeMap<&[u8], &SliceRow> =
            self.before.iter().map(|row| (&row.ord[..], row)).collect();
        let mut delta = Delta::default();
        let instances = after.map_or(&[][..], |state| &state.instances);
        for (index, instance) in instances.iter().enumerate() {
            let known = before.remove(&*instance.ord);
            if known.is_some_and(|row| row.digest == instance.digest.as_bytes()) {
                continue;
            }
            let state = after.ok_or_else(|| cannot("rows without a document"))?;
            delta.instances.push(DeltaPlace {
                ord: instance.ord.to_vec(),
                path: Path::from(&state.address(instance)),
                row: Some(new_instance(state, index)),
            });
        }
        for row in before.into_values() {
            let address: Address = row
                .address
                .parse()
                .map_err(|_| cannot("a recorded address cannot be read"))?;
            delta.instances.push(DeltaPlace {
                ord: row.ord.clone(),
                path: Path::from(&address),
                row: None,
            });
        }
        Ok(delta)
    }
}

/// Reads what [`Work::document`] wrote.
pub(super) fn parsed(document: &[u8]) -> Result<Option<State<'_>>, EngineError> {
    if document.is_empty() {
        return Ok(None);
    }
    match tfstate::parse(document)? {
        Document::State(mut state) => {
            state.canonicalise(|_, _| false);
            Ok(Some(state))
        }
        Document::Opaque(_) => Err(cannot("what it comes to is no state")),
    }
}

/// Whatever is written is claimed.
pub(super) fn claims(delta: &Delta<'_>) -> ClaimSet {
    let places = delta.instances.iter();
    ClaimSet::new(places.map(|place| Claim::write(place.path.clone())))
}

pub(super) fn cannot(what: &str) -> EngineError {
    EngineError::BadRequest(format!("the operation cannot be done here: {what}"))
}

/// What becomes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// An address that an operation writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub address: String,
    pub kind: ChangeKind,
}

/// What an operation does, for people.
#[derive(Debug)]
pub struct Preview {
    pub verb: Verb,
    /// The version it is on.
    pub current: Version,
    /// The version that something is taken from.
    pub target: Option<Version>,
    /// Sorted.
    pub changes: Vec<Change>,
    /// What it is on, as it is.
    pub subject: Vec<SliceRow>,
    /// What that is to be.
    pub outcome: Vec<SliceRow>,
    pub dependencies: Vec<String>,
    pub dependents: Vec<String>,
    pub warnings: Vec<String>,
}

impl Preview {
    pub(super) fn of(work: Work, current: Version) -> Result<Self, EngineError> {
        let document = work.document()?;
        let after = parsed(&document)?;
        let delta = work.delta(after.as_ref())?;
        Ok(Self::with(work, current, &delta))
    }

    pub(super) fn with(work: Work, current: Version, delta: &Delta<'_>) -> Self {
        let was: BTreeSet<&str> = work.before.iter().map(|row| row.address.as_str()).collect();
        let mut kinds: BTreeMap<String, ChangeKind> = BTreeMap::new();
        for place in &delta.instances {
            let address = match &place.row {
                Some(row) => row.address.clone(),
                None => place.path.to_string(),
            };
            let kind = match (&place.row, was.contains(address.as_str())) {
                (Some(_), false) => ChangeKind::Added,
                (Some(_), true) => ChangeKind::Changed,
                (None, _) => ChangeKind::Removed,
            };
            // An object that goes beside one that stays or comes is a change of the address.
            let known = kinds.entry(address).or_insert(kind);
            if *known != kind {
                *known = ChangeKind::Changed;
            }
        }
        let change = |(address, kind)| Change { address, kind };
        Self {
            verb: work.verb,
            current,
            target: work.target,
            changes: kinds.into_iter().map(change).collect(),
            subject: work.subject,
            outcome: work.outcome,
            dependencies: work.dependencies,
            dependents: work.dependents,
            warnings: work.warnings,
        }
    }
}
