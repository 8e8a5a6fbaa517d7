//! An importer that keeps rows with a life span, to hold what reading gives against what was
//! exported.

use std::collections::BTreeMap;

use archive::{Version, VersionContent};
use tfstate::{Digest, Header, Renderer, RowKind, RowsDigest};

use super::split;

/// The rows of the newest version.
#[derive(Default)]
pub(crate) struct RowStore {
    header: Option<Header>,
    parts: BTreeMap<Digest, Vec<u8>>,
    outputs: BTreeMap<String, (Vec<u8>, Vec<u8>)>,
    instances: BTreeMap<Vec<u8>, StoredRow>,
}

struct StoredRow {
    block: Vec<u8>,
    kind: RowKind,
    body: Vec<u8>,
    digest: Digest,
}

impl RowStore {
    /// Takes a version: closes what ended, adds what began.
    ///
    /// # Panics
    /// When something ends that is not there, or begins that is.
    pub(crate) fn import(&mut self, version: &Version<'_>) {
        let VersionContent::State(rows) = &version.content else {
            return;
        };
        for ord in &rows.changes.closed {
            assert!(
                self.instances.remove(&**ord).is_some(),
                "a row ends that is not there"
            );
        }
        for name in &rows.changes.outputs_closed {
            assert!(
                self.outputs.remove(name).is_some(),
                "output {name} ends, but is not there"
            );
        }
        for &born in &rows.changes.born {
            let row = &rows.state.instances[born];
            let value = StoredRow {
                block: rows.state.block(row).text.to_vec(),
                kind: row.kind,
                body: row.body.to_vec(),
                digest: row.digest,
            };
            assert!(
                self.instances.insert(row.ord.to_vec(), value).is_none(),
                "a row begins twice"
            );
        }
        for &born in &rows.changes.outputs_born {
            let output = &rows.state.outputs[born];
            let value = (output.name_token.to_vec(), output.body.to_vec());
            assert!(
                self.outputs.insert(output.name.clone(), value).is_none(),
                "an output begins twice"
            );
        }
        self.parts.extend(
            rows.state
                .parts
                .iter()
                .map(|part| (part.digest, part.body.to_vec())),
        );
        self.header = Some(rows.state.header.clone());
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        let header = self.header.as_ref().unwrap();
        let outputs = self.outputs.values().map(|(token, body)| (token, body));
        let part = |digest: &Digest| self.parts.get(digest).map(Vec::as_slice);
        let mut renderer = Renderer::new(header, outputs, part).unwrap();
        let mut document = Vec::new();
        renderer.start(&mut document);
        for row in self.instances.values() {
            renderer.instance(&row.block, row.kind, &row.body, &mut document);
        }
        renderer.finish(&mut document);
        document
    }

    /// Holds the rows against those of the document the version was exported from.
    pub(crate) fn check(&self, version: &Version<'_>, document: &[u8]) {
        let VersionContent::State(rows) = &version.content else {
            assert!(split(document).is_none());
            return;
        };
        let state = split(document).unwrap();
        let expected: Vec<_> = state
            .instances
            .iter()
            .map(|row| (&*row.ord, row.digest))
            .collect();
        let found: Vec<_> = self
            .instances
            .iter()
            .map(|(ord, row)| (&**ord, row.digest))
            .collect();
        assert_eq!(found, expected);
        let rows_digest: RowsDigest = state.rows_digest();
        assert_eq!(rows.rows_digest, rows_digest);
        if !version.entry.meta.verbatim {
            assert!(
                self.render() == document,
                "the rows do not render to the document"
            );
        }
    }
}
