//! Comparing a document with the head: what the transaction will write. Pure, and all of what costs time in proportion to
//! the document.

use std::borrow::Cow;

use store::{Form, NewInstance, NewOutput};
use tfstate::{Document, Opaque, OpaqueReason, Output, RowKind, State};

use crate::compare::{Changes, Known, compare};

/// A document compared with the head: what the transaction will write.
pub(super) struct Prepared {
    pub(super) changes: Changes,
    pub(super) form: Form,
    pub(super) opaque_reason: Option<String>,
    pub(super) header: Option<Vec<u8>>,
    pub(super) rows_digest: [u8; 32],
    pub(super) instance_count: usize,
}

/// Rows to be born, borrowed from the document.
#[derive(Default)]
pub(crate) struct Births<'a> {
    pub(crate) instances: Vec<NewInstance<'a>>,
    pub(crate) outputs: Vec<NewOutput<'a>>,
    pub(crate) parts: Vec<([u8; 32], Cow<'a, [u8]>)>,
}

impl<'a> Births<'a> {
    /// These instances and outputs of a state, by their numbers in it, and all its parts.
    pub(crate) fn of(state: &'a State<'_>, instances: &[usize], outputs: &[usize]) -> Self {
        let instances = instances.iter().map(|&index| new_instance(state, index));
        let outputs = outputs.iter().map(|&index| &state.outputs[index]);
        let parts = state.parts.iter();
        Self {
            instances: instances.collect(),
            outputs: outputs.map(new_output).collect(),
            parts: parts
                .map(|part| (part.digest.0, Cow::Borrowed(&*part.body)))
                .collect(),
        }
    }
}

/// Compares with the head, brings what is new into rendered form, and proves that rendering gives the
/// posted bytes; where it does not, those are kept beside the rows. `carried` is the rows digest of the
/// head: an opaque document leaves the rows as they are.
pub(super) fn prepare(
    document: &mut Document<'_>,
    posted: &[u8],
    rows: &[store::LiveRow],
    outputs: &[store::LiveOutput],
    carried: [u8; 32],
) -> Prepared {
    let state = match document {
        Document::Opaque(opaque) => return Prepared::opaque(opaque, carried),
        Document::State(state) => state,
    };
    let known = Known::new(rows);
    state.canonicalise(|ord, digest| known.contains(ord, &digest.0));
    let reproduces = state.reproduces(posted);
    Prepared {
        changes: compare(state, rows, outputs),
        form: if reproduces { Form::Rows } else { Form::Kept },
        opaque_reason: None,
        header: Some(state.header.encode()),
        rows_digest: state.rows_digest().to_bytes(),
        instance_count: state
            .instances
            .iter()
            .filter(|row| row.kind != RowKind::Shell)
            .count(),
    }
}

impl Prepared {
    fn opaque(opaque: &Opaque, carried: [u8; 32]) -> Self {
        Self {
            changes: Changes::default(),
            form: Form::Opaque,
            opaque_reason: Some(opaque_reason(&opaque.reason)),
            header: None,
            rows_digest: carried,
            instance_count: 0,
        }
    }

    pub(super) fn births<'a>(&self, document: &'a Document<'_>) -> Option<Births<'a>> {
        let Document::State(state) = document else {
            return None;
        };
        let changes = &self.changes;
        Some(Births::of(state, &changes.born, &changes.outputs_born))
    }
}

pub(crate) fn new_output<'a>(output: &'a Output<'_>) -> NewOutput<'a> {
    NewOutput {
        name: Cow::Borrowed(&output.name),
        name_token: Cow::Borrowed(output.name_token),
        body: Cow::Borrowed(&output.body),
        digest: output.digest.0,
    }
}

/// For people and for the column.
pub(crate) fn opaque_reason(reason: &OpaqueReason) -> String {
    match reason {
        OpaqueReason::Encrypted => "the client encrypted it".to_owned(),
        OpaqueReason::OlderVersion(version) => format!("its format is version {version}"),
        OpaqueReason::NewerVersion(version) => {
            format!("its format is version {version}, newer than 4")
        }
        OpaqueReason::NotReadable(why) => why.replace('\0', "\u{fffd}"),
    }
}

pub(crate) fn new_instance<'a>(state: &'a State<'_>, index: usize) -> NewInstance<'a> {
    let instance = &state.instances[index];
    let block = &state.blocks[instance.block as usize];
    let address = state.address(instance);
    NewInstance {
        ord: Cow::Borrowed(&instance.ord),
        kind: match instance.kind {
            RowKind::Current => "current",
            RowKind::Deposed => "deposed",
            RowKind::Shell => "shell",
        },
        address: address.to_string(),
        config_address: address.config_address(),
        module: Cow::Borrowed(&block.module),
        mode: block.mode.as_str(),
        resource_type: Cow::Borrowed(&block.kind),
        name: Cow::Borrowed(&block.name),
        index_key: instance
            .index_key
            .and_then(|token| std::str::from_utf8(token).ok())
            .map(Cow::Borrowed),
        deposed: instance.deposed.as_deref().map(Cow::Borrowed),
        provider: block.provider.as_deref().map(Cow::Borrowed),
        block: Cow::Borrowed(&block.text),
        body: Cow::Borrowed(&instance.body),
        digest: instance.digest.0,
        dependencies: state.dependencies(instance),
    }
}
