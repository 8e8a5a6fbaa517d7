//! Reading whole documents: exactly the bytes that were written, for every version.
//!
//! A version never changes, so a small one is kept in memory by its identity and only the question
//! "which version is the head?" goes to the database. A large one is rendered page by page in document
//! order, holding no database connection while the reader takes its time. Every full read is held
//! against the version's digest before its last bytes go out: a lost or damaged row breaks the transfer
//! and is reported, and never looks like a shorter state.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use protocol::{StateName, WorkspaceId};
use sha2::{Digest as _, Sha256};
use store::{Form, Lifecycle, RowPage, SealedKind, SealedPlace, Version, VersionRef, WorkspaceTx};
use tfstate::{Digest, Header, Renderer, RowKind, RowsDigest, instance_digest, output_digest};
use uuid::Uuid;

use crate::documents::{DocumentKey, SMALL_DOCUMENT_BYTES};
use crate::lock::same_spelling;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};

/// Rendered bytes a page aims at: large enough that round trips do not matter, small enough that a
/// reader costs a few megabytes of memory.
const PAGE_BYTES: i64 = 2 * 1024 * 1024;
/// Rows of a page when the size of the document is not known yet.
const DEFAULT_PAGE_ROWS: i64 = 500;
/// Pages rendered ahead of the reader.
const PAGES_AHEAD: usize = 2;

/// A version's document on its way out.
pub struct ReadDocument {
    pub version: Arc<Version>,
    pub body: DocumentBody,
}

pub enum DocumentBody {
    Whole(Bytes),
    /// In pieces; an error means that the rest must not be sent.
    Stream(BoxStream<'static, Result<Bytes, EngineError>>),
}

impl Engine {
    /// The newest document of a state.
    ///
    /// # Errors
    ///
    /// `NoVersion` only when nothing was ever written: everything else that goes wrong is another error,
    /// because Terraform takes "none" as permission to create everything anew.
    pub async fn read_head(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<ReadDocument, EngineError> {
        if let Some(document) = self.remembered_head(caller, name).await? {
            return Ok(document);
        }
        let mut tries = Tries::default();
        loop {
            match self.try_read_head(caller, name).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    /// The newest document where it is in memory: one round trip asks which version that is. `None` decides nothing.
    async fn remembered_head(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Option<ReadDocument>, EngineError> {
        let (workspace, environment) = (caller.workspace(), caller.environment());
        let head = store::find_head_at_once(&self.db, workspace, environment, name).await?;
        let Some(head) = head.filter(|head| head.name == name.as_str()) else {
            return Ok(None);
        };
        let key = DocumentKey {
            workspace: workspace.clone(),
            state: head.state_id,
            seq: head.seq,
        };
        let remembered = self.documents.get(&key, head.sha256.as_deref());
        Ok(remembered.map(|(version, bytes)| ReadDocument {
            version,
            body: DocumentBody::Whole(bytes),
        }))
    }

    async fn try_read_head(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<ReadDocument, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let head = store::find_head(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoVersion)?;
        if head.name != name.as_str() {
            return Err(EngineError::NameCase { stored: head.name });
        }
        // "Nothing was written here" would have Terraform create everything anew.
        if head.lifecycle == Lifecycle::Importing {
            return Err(EngineError::NotWritable("being imported"));
        }
        let version = head.version.ok_or(EngineError::NoVersion)?;
        self.read(caller, tx, head.state_id, version).await
    }

    /// The document of one version.
    pub async fn read_version(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: VersionRef,
    ) -> Result<ReadDocument, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let version = store::find_version(&mut tx, state.id, wanted)
            .await?
            .ok_or(EngineError::NoSuchVersion)?;
        self.read(caller, tx, state.id, version).await
    }

    async fn read(
        &self,
        caller: &Caller,
        mut tx: WorkspaceTx,
        state: Uuid,
        version: Version,
    ) -> Result<ReadDocument, EngineError> {
        let key = DocumentKey {
            workspace: caller.workspace().clone(),
            state,
            seq: version.seq,
        };
        if let Some((version, bytes)) = self.documents.get(&key, version.sha256.as_deref()) {
            tx.commit().await?;
            return Ok(ReadDocument {
                version,
                body: DocumentBody::Whole(bytes),
            });
        }
        let version = Arc::new(version);
        if version.form != Form::Rows {
            let bytes = self.read_kept(caller, &mut tx, state, &version).await?;
            tx.commit().await?;
            self.documents.insert(key, &version, &bytes);
            return Ok(ReadDocument {
                version,
                body: DocumentBody::Whole(bytes),
            });
        }
        let mut rendering = Rendering::start(&mut tx, state, &version).await?;
        if version
            .byte_size
            .is_some_and(|size| size <= SMALL_DOCUMENT_BYTES as i64)
        {
            let mut bytes = Vec::with_capacity(SMALL_DOCUMENT_BYTES);
            while rendering.next_page(&mut tx, &mut bytes).await? {}
            tx.commit().await?;
            let bytes = Bytes::from(bytes);
            self.documents.insert(key, &version, &bytes);
            return Ok(ReadDocument {
                version,
                body: DocumentBody::Whole(bytes),
            });
        }
        tx.commit().await?;
        Ok(ReadDocument {
            body: DocumentBody::Stream(self.stream(caller, rendering)),
            version,
        })
    }

    /// Bytes of a version that rendering does not give.
    pub(crate) async fn read_kept(
        &self,
        caller: &Caller,
        tx: &mut WorkspaceTx,
        state: Uuid,
        version: &Version,
    ) -> Result<Bytes, EngineError> {
        self.read_kept_of(caller.workspace(), tx, state, version)
            .await
    }

    /// The same in any workspace, for work that no request asks for right now.
    pub(crate) async fn read_kept_of(
        &self,
        workspace: &WorkspaceId,
        tx: &mut WorkspaceTx,
        state: Uuid,
        version: &Version,
    ) -> Result<Bytes, EngineError> {
        let packed =
            store::find_document(tx, state, version.seq)
                .await?
                .ok_or(EngineError::Damaged {
                    seq: version.seq,
                    what: "its kept document is gone",
                })?;
        let key = self.data_key_of(tx, workspace).await?;
        let size = version.byte_size.unwrap_or_default() as usize;
        let seq = version.seq;
        let place = SealedPlace {
            workspace,
            state,
            seq,
            kind: SealedKind::Document,
        };
        let bytes = tokio::task::block_in_place(|| {
            let bytes = key.unpack(&place, &packed, size)?;
            if version.sha256.as_deref() == Some(Sha256::digest(&bytes).as_slice()) {
                Ok(bytes)
            } else {
                Err(EngineError::Damaged {
                    seq,
                    what: "its document is not what was written",
                })
            }
        })?;
        Ok(Bytes::from(bytes))
    }

    /// The same, to be read piece by piece: memory is that of the packed body. What is read has not been held against the
    /// version's digest.
    pub(crate) async fn open_kept_of(
        &self,
        workspace: &WorkspaceId,
        tx: &mut WorkspaceTx,
        state: Uuid,
        version: &Version,
    ) -> Result<impl std::io::Read + Send + use<>, EngineError> {
        let seq = version.seq;
        let packed = store::find_document(tx, state, seq)
            .await?
            .ok_or(EngineError::Damaged {
                seq,
                what: "its kept document is gone",
            })?;
        let key = self.data_key_of(tx, workspace).await?;
        let place = SealedPlace {
            workspace,
            state,
            seq,
            kind: SealedKind::Document,
        };
        Ok(tokio::task::block_in_place(|| {
            key.unpack_reader(&place, packed)
        })?)
    }

    fn stream(
        &self,
        caller: &Caller,
        rendering: Rendering,
    ) -> BoxStream<'static, Result<Bytes, EngineError>> {
        let engine = self.clone();
        let caller = caller.clone();
        let pages = stream::try_unfold(Some(rendering), move |rendering| {
            let (engine, caller) = (engine.clone(), caller.clone());
            async move {
                let Some(mut rendering) = rendering else {
                    return Ok(None);
                };
                let mut page = Vec::with_capacity(rendering.expected_page_bytes());
                let mut tx = engine.begin_read(&caller).await?;
                let more = rendering.next_page(&mut tx, &mut page).await?;
                tx.commit().await?;
                if !more {
                    let recorded = engine.record_first_rendering(&caller, &rendering).await;
                    if let Err(error) = recorded {
                        // The reader has its document. Whoever reads it next records the digest.
                        tracing::info!(%error, "the digest of a version was not recorded");
                    }
                }
                Ok::<_, EngineError>(Some((Bytes::from(page), more.then_some(rendering))))
            }
        });
        // Rendering runs ahead of the socket, so that a fast reader waits for neither.
        let (sender, receiver) = tokio::sync::mpsc::channel(PAGES_AHEAD);
        tokio::spawn(async move {
            let mut pages = std::pin::pin!(pages);
            while let Some(page) = pages.next().await {
                if sender.send(page).await.is_err() {
                    return;
                }
            }
        });
        stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|page| (page, receiver))
        })
        .boxed()
    }

    /// Records what a version born of rows hashes to, the first time it is rendered.
    async fn record_first_rendering(
        &self,
        caller: &Caller,
        rendering: &Rendering,
    ) -> Result<(), EngineError> {
        let Some((sha256, size)) = rendering.first_digest else {
            return Ok(());
        };
        let mut tx = self.begin(caller).await?;
        store::set_document_digest(&mut tx, rendering.state, rendering.seq, &sha256, size).await?;
        Ok(tx.commit().await?)
    }
}

/// Name tokens and bodies.
type OutputRows = std::vec::IntoIter<(Vec<u8>, Vec<u8>)>;

/// A version half-way through being rendered.
pub(crate) struct Rendering {
    state: Uuid,
    seq: i64,
    renderer: Option<Renderer<'static, OutputRows>>,
    started: bool,
    after: Vec<u8>,
    page_rows: i64,
    hasher: Sha256,
    size: i64,
    rows_digest: RowsDigest,
    expected_rows_digest: Vec<u8>,
    expected_sha256: Option<Vec<u8>>,
    pub(crate) first_digest: Option<([u8; 32], i64)>,
}

impl Rendering {
    /// Loads what stands around the instances: header, outputs and the large header members.
    pub(crate) async fn start(
        tx: &mut WorkspaceTx,
        state: Uuid,
        version: &Version,
    ) -> Result<Self, EngineError> {
        let damaged = |what| EngineError::Damaged {
            seq: version.seq,
            what,
        };
        let header = version
            .header
            .as_deref()
            .ok_or_else(|| damaged("its header is gone"))?;
        let header = Header::decode(header).map_err(|_| damaged("its header cannot be read"))?;
        let outputs = store::outputs_at(tx, state, version.seq).await?;
        let digests: Vec<_> = header.parts().map(|digest| digest.0.to_vec()).collect();
        let parts: HashMap<_, _> = store::find_parts(tx, state, &digests)
            .await?
            .into_iter()
            .collect();
        let unread = version.sha256.is_none();
        let sound = |(digest, body): (&Vec<u8>, &Vec<u8>)| Digest::of(body).0[..] == digest[..];
        if unread && !parts.iter().all(sound) {
            return Err(damaged("a header member is not what its digest says"));
        }
        let mut rows_digest: RowsDigest = header.parts().collect();
        for output in &outputs {
            let recorded = Digest(
                output
                    .digest
                    .as_slice()
                    .try_into()
                    .map_err(|_| damaged("an output's digest"))?,
            );
            if unread && output_digest(&output.name_token, &output.body) != recorded {
                return Err(damaged("an output is not what its digest says"));
            }
            rows_digest.add(recorded);
        }
        let outputs: Vec<_> = outputs
            .into_iter()
            .map(|output| (output.name_token, output.body))
            .collect();
        let part = |digest: &Digest| parts.get(&digest.0[..]).map(Vec::as_slice);
        let renderer = Renderer::new(&header, outputs.into_iter(), part)
            .map_err(|_| damaged("a header member is gone"))?
            .into_owned();
        let page_rows = match version.byte_size {
            Some(size) if version.instance_count > 0 => {
                (PAGE_BYTES / (size / version.instance_count).max(1)).clamp(16, 4_000)
            }
            _ => DEFAULT_PAGE_ROWS,
        };
        Ok(Self {
            state,
            seq: version.seq,
            renderer: Some(renderer),
            started: false,
            after: Vec::new(),
            page_rows,
            hasher: Sha256::new(),
            size: 0,
            rows_digest,
            expected_rows_digest: version.rows_digest.clone(),
            expected_sha256: version.sha256.clone(),
            first_digest: None,
        })
    }

    fn expected_page_bytes(&self) -> usize {
        PAGE_BYTES as usize + PAGE_BYTES as usize / 4
    }

    /// Renders the next page onto `out`; false when it was the last, which has then been proven.
    pub(crate) async fn next_page(
        &mut self,
        tx: &mut WorkspaceTx,
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        self.next_page_with(tx, out, |_| {}).await
    }

    /// The same, and tells the place of each row.
    pub(crate) async fn next_page_with(
        &mut self,
        tx: &mut WorkspaceTx,
        out: &mut Vec<u8>,
        mut place: impl FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        let rows =
            store::page_of_rows(tx, self.state, self.seq, &self.after, self.page_rows).await?;
        let from = out.len();
        rows.iter().for_each(|row| place(&row.ord));
        self.render(&rows, out)?;
        let last = (rows.len() as i64) < self.page_rows;
        if let Some(row) = rows.into_iter().next_back() {
            self.after = row.ord;
        }
        if last && let Some(renderer) = self.renderer.take() {
            renderer.finish(out);
        }
        self.hasher.update(&out[from..]);
        self.size += (out.len() - from) as i64;
        if last {
            self.prove()?;
        }
        Ok(!last)
    }

    fn render(&mut self, rows: &[RowPage], out: &mut Vec<u8>) -> Result<(), EngineError> {
        let damaged = |what| EngineError::Damaged {
            seq: self.seq,
            what,
        };
        let renderer = self
            .renderer
            .as_mut()
            .ok_or_else(|| damaged("it has been rendered already"))?;
        if !self.started {
            renderer.start(out);
            self.started = true;
        }
        for row in rows {
            let kind = match row.kind.as_str() {
                "shell" => RowKind::Shell,
                "deposed" => RowKind::Deposed,
                _ => RowKind::Current,
            };
            renderer.instance(&row.block, kind, &row.body, out);
            let recorded = Digest(
                row.digest
                    .as_slice()
                    .try_into()
                    .map_err(|_| damaged("a row's digest is not 32 bytes"))?,
            );
            // Later reads are held against the whole document's digest. The first one of a version born of rows sets that
            // digest, so each of its rows must prove itself.
            if self.expected_sha256.is_none()
                && instance_digest(&Digest::of(&row.block), &row.body) != recorded
            {
                return Err(damaged("a row is not what its digest says"));
            }
            self.rows_digest.add(recorded);
        }
        Ok(())
    }

    /// Holds what was rendered against what the version recorded.
    fn prove(&mut self) -> Result<(), EngineError> {
        let sha256: [u8; 32] = self.hasher.finalize_reset().into();
        let sound = match &self.expected_sha256 {
            Some(expected) => *expected == sha256,
            None => self.rows_digest.to_bytes() == self.expected_rows_digest[..],
        };
        if !sound {
            tracing::error!(seq = self.seq, state.id = %self.state, "a version does not render to its digest: rows are lost or damaged");
            return Err(EngineError::Damaged {
                seq: self.seq,
                what: "its rows do not add up to its digest",
            });
        }
        if self.expected_sha256.is_none() {
            self.first_digest = Some((sha256, self.size));
        }
        Ok(())
    }
}
