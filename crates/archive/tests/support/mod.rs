//! Histories of documents, and an exporter that turns them into archives as the service would: rows
//! with a life span, compared by place and digest.

#![expect(dead_code, reason = "each test binary uses its part of this")]

pub(crate) mod pack;
pub(crate) mod rows;
pub(crate) mod states;

use archive::{
    Finished, Frame, OutputBirth, Preface, PublicKey, RowBirth, Run, Signer, StateInfo, Tag,
    VersionChanges, VersionMeta, VersionRange, WriteError, Writer, bound_of,
};
use chrono::{DateTime, TimeDelta, Utc};
use tfstate::{Digest, Document, State};

/// A version to export: a document that need not follow the one before in any way.
#[derive(Clone)]
pub(crate) struct TestVersion {
    pub(crate) meta: VersionMeta,
    pub(crate) document: Vec<u8>,
}

/// A history to export.
#[derive(Clone, Default)]
pub(crate) struct TestHistory {
    pub(crate) versions: Vec<TestVersion>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) runs: Vec<Run>,
}

pub(crate) fn at(minutes: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000, 123_456_000).unwrap() + TimeDelta::minutes(minutes)
}

pub(crate) fn signer() -> Signer {
    Signer::from_seed(&[7; 32])
}

pub(crate) fn trusted() -> [PublicKey; 1] {
    [signer().public_key()]
}

/// Splits a document and brings it into rendered form; `None` when it is opaque.
pub(crate) fn split(document: &[u8]) -> Option<State<'_>> {
    match tfstate::parse(document).unwrap() {
        Document::State(mut state) => {
            state.canonicalise(|_, _| false);
            Some(state)
        }
        Document::Opaque(_) => None,
    }
}

impl TestHistory {
    /// Versions 1, 2, 3 … of these documents.
    pub(crate) fn of(documents: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut history = Self::default();
        for document in documents {
            let seq = history.versions.last().map_or(0, |last| last.meta.seq) + 1;
            history.push(seq, document);
        }
        history
    }

    pub(crate) fn push(&mut self, seq: u64, document: Vec<u8>) {
        let (serial, lineage, terraform_version, verbatim) =
            match tfstate::parse(&document).unwrap() {
                Document::Opaque(opaque) => (
                    opaque.serial,
                    opaque.lineage,
                    opaque.terraform_version,
                    true,
                ),
                Document::State(_) => {
                    let state = split(&document).unwrap();
                    let verbatim = !state.reproduces(&document);
                    (
                        Some(state.serial),
                        Some(state.lineage),
                        Some(state.terraform_version),
                        verbatim,
                    )
                }
            };
        self.versions.push(TestVersion {
            meta: VersionMeta {
                seq,
                id: format!("ver_{seq:032x}"),
                serial,
                lineage,
                terraform_version,
                source: "terraform".to_owned(),
                created_at: at((seq % 1_000) as i64),
                created_by: "Ann O’Hara <ann@example.com>".to_owned(),
                run: None,
                forced: seq.is_multiple_of(3),
                unlocked: seq.is_multiple_of(5),
                verbatim,
                bytes: document.len() as u64,
                sha256: Digest::of(&document),
                provenance: None,
            },
            document,
        });
    }

    pub(crate) fn tag(mut self, name: &str, seq: u64) -> Self {
        self.tags.push(Tag {
            name: name.to_owned(),
            seq,
            description: Some(format!("where {name} stands")),
            created_by: "bob".to_owned(),
            created_at: at(1000),
        });
        self
    }

    /// Makes a run the author of these versions.
    pub(crate) fn run(mut self, id: &str, versions: &[u64]) -> Self {
        for version in &mut self.versions {
            if versions.contains(&version.meta.seq) {
                version.meta.run = Some(id.to_owned());
            }
        }
        self.runs.push(Run {
            id: id.to_owned(),
            kind: "apply".to_owned(),
            status: "finished".to_owned(),
            actor: "ann".to_owned(),
            base_seq: None,
            started_at: at(0),
            finished_at: Some(at(1)),
            versions: versions.to_vec(),
        });
        self
    }

    fn is_tagged(&self, seq: u64) -> bool {
        self.tags.iter().any(|tag| tag.seq == seq)
    }

    /// The preface an exporter would write.
    pub(crate) fn preface(&self) -> Preface {
        let (first, last) = (
            self.versions.first().unwrap(),
            self.versions.last().unwrap(),
        );
        let bytes = self.versions.iter().map(|version| version.meta.bytes).sum();
        Preface {
            writer: "kilolock test".to_owned(),
            exported_at: at(2000),
            exported_by: "ann".to_owned(),
            state: StateInfo {
                workspace: "ws_0123456789ab".to_owned(),
                environment: "env_0123456789ab".to_owned(),
                name: "prod".to_owned(),
                id: "st_0".to_owned(),
                head_seq: last.meta.seq,
                head_id: last.meta.id.clone(),
                serial: last.meta.serial,
                lineage: last.meta.lineage.clone(),
            },
            versions: VersionRange {
                count: self.versions.len() as u64,
                first: first.meta.seq,
                last: last.meta.seq,
            },
            has_runs: !self.runs.is_empty(),
            max_bytes: bound_of(self.versions.len() as u64, bytes),
        }
    }

    /// The signed archive.
    pub(crate) fn export(&self) -> Vec<u8> {
        self.export_signed(Some(&signer())).sink
    }

    pub(crate) fn export_signed(&self, signer: Option<&Signer>) -> Finished<Vec<u8>> {
        let mut writer = Writer::start(Vec::new(), self.preface()).unwrap();
        let mut before: Option<&TestVersion> = None;
        for version in &self.versions {
            self.write(&mut writer, before, version);
            before = Some(version);
        }
        let mut closing = writer.tags(&self.tags).unwrap();
        if !self.runs.is_empty() {
            closing.runs(&self.runs).unwrap();
        }
        closing.finish(signer).unwrap()
    }

    fn write(
        &self,
        writer: &mut Writer<Vec<u8>>,
        before: Option<&TestVersion>,
        version: &TestVersion,
    ) {
        let TestVersion { meta, document } = version;
        if !writer.needs_key_frame(meta.verbatim, self.is_tagged(meta.seq)) {
            let before = split(&before.unwrap().document).unwrap();
            let now = split(document).unwrap();
            match write_delta(writer, meta, &before, &now) {
                Err(WriteError::DeltaTooLarge { .. }) => {}
                done => return done.unwrap(),
            }
        }
        write_key_frame(writer, meta, document);
    }

    /// Which frame each version has in an archive.
    pub(crate) fn frames(archive: &archive::Verified) -> Vec<Frame> {
        archive.versions.iter().map(|entry| entry.frame).collect()
    }
}

/// Streams a key frame in small pieces.
fn write_key_frame(writer: &mut Writer<Vec<u8>>, meta: &VersionMeta, document: &[u8]) {
    let mut frame = writer.key_frame(meta).unwrap();
    if !meta.verbatim {
        for row in &split(document).unwrap().instances {
            frame.place(&row.ord).unwrap();
        }
    }
    for piece in document.chunks(1000) {
        frame.write(piece).unwrap();
    }
    frame.finish().unwrap();
}

/// Writes what changed between two states, as rows with a life span give it.
pub(crate) fn write_delta(
    writer: &mut Writer<Vec<u8>>,
    meta: &VersionMeta,
    before: &State<'_>,
    now: &State<'_>,
) -> Result<(), WriteError> {
    let closed: Vec<Vec<u8>> = before
        .instances
        .iter()
        .filter(|old| {
            !now.instances
                .iter()
                .any(|new| new.ord == old.ord && new.digest == old.digest)
        })
        .map(|old| old.ord.to_vec())
        .collect();
    let born: Vec<RowBirth<'_>> = now
        .instances
        .iter()
        .filter(|new| {
            !before
                .instances
                .iter()
                .any(|old| new.ord == old.ord && new.digest == old.digest)
        })
        .map(|new| RowBirth {
            ord: &new.ord,
            block: &now.block(new).text,
            body: &new.body,
        })
        .collect();
    let outputs_closed: Vec<String> = before
        .outputs
        .iter()
        .filter(|old| {
            !now.outputs
                .iter()
                .any(|new| new.name == old.name && new.digest == old.digest)
        })
        .map(|old| old.name.clone())
        .collect();
    let outputs_born: Vec<OutputBirth<'_>> = now
        .outputs
        .iter()
        .filter(|new| {
            !before
                .outputs
                .iter()
                .any(|old| new.name == old.name && new.digest == old.digest)
        })
        .map(|new| OutputBirth {
            name: &new.name,
            token: new.name_token,
            body: &new.body,
        })
        .collect();
    let parts: Vec<(Digest, &[u8])> = now
        .parts
        .iter()
        .map(|part| (part.digest, &*part.body))
        .collect();
    writer.delta(
        meta,
        &VersionChanges {
            header: &now.header,
            parts: &parts,
            outputs_closed: &outputs_closed,
            outputs_born: &outputs_born,
            closed: &closed,
            born: &born,
        },
    )
}

/// Takes a document and holds it against its digest when it is flushed.
pub(crate) struct DigestSink {
    bytes: u64,
    sha256: Digest,
    found: Vec<u8>,
}

impl DigestSink {
    pub(crate) fn expecting(bytes: u64, sha256: Digest) -> Self {
        Self {
            bytes,
            sha256,
            found: Vec::new(),
        }
    }
}

impl std::io::Write for DigestSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.found.write(bytes)
    }

    /// The end of the document.
    fn flush(&mut self) -> std::io::Result<()> {
        assert_eq!(self.found.len() as u64, self.bytes);
        assert_eq!(Digest::of(&self.found), self.sha256);
        Ok(())
    }
}
