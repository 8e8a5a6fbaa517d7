//! Writing an archive: versions stream from their rows through the writer into the object store, in bounded memory.
//!
//! History up to the head that was asked for never changes, so nothing is locked and no transaction lasts longer than a
//! page. A version costs what it changed, but for key frames, which cost their document.

use archive::{
    KeyFrame, MAX_VERSIONS, OutputBirth, Preface, RowBirth, StateInfo, VersionChanges, VersionMeta,
    VersionRange, WriteError, Writer, bound_of,
};
use protocol::archives::ExportedArchive;
use protocol::{RunId, StateId, VersionId};
use serde_json::json;
use store::jobs::{JobEnd, JobStatus};
use store::queue::{self, Task};
use store::{Form, HistoricVersion, HistorySize, VersionRef};
use tfstate::{Digest, Document, Header, Renderer, RowsDigest};
use uuid::Uuid;

use super::attempt::{Attempt, Outgoing, Sent};
use super::outcome::Failure;
use super::{ExportInput, Exported, audit_job, stored};
use crate::hex;
use crate::read::Rendering;

/// Versions read at once, without their rows.
const PAGE: i64 = 100;
/// A version whose new rows have more bytes than this is written whole: both sides hold a delta in memory.
const LARGEST_DELTA_BYTES: i64 = 32 << 20;

type Sink = Vec<u8>;

/// An export under way.
struct Export<'a> {
    attempt: &'a Attempt,
    state: Uuid,
    head: i64,
    /// Numbers of tagged versions.
    tagged: Vec<i64>,
    /// The last version written, with its rows' digest and its header's parts.
    last: Option<Last>,
}

struct Last {
    seq: i64,
    rows_digest: RowsDigest,
    parts: Vec<Digest>,
}

/// Writes the archive and ends the job.
pub(super) fn run(attempt: &Attempt) -> Result<(), Failure> {
    let input: ExportInput = stored(&attempt.job.input)?;
    let mut export = Export {
        attempt,
        state: attempt.job.state_id,
        head: input.head_seq,
        tagged: Vec::new(),
        last: None,
    };
    export.render_missing()?;
    let (size, preface) = export.preface()?;
    attempt
        .counts
        .begin(preface.versions.count, size.document_bytes.unsigned_abs());
    let tags = export.tags()?;
    let state_name = preface.state.name.clone();
    let mut outgoing = attempt.upload()?;
    let mut writer = Writer::start(Sink::new(), preface)?;
    export.versions(&mut writer, &mut outgoing)?;
    let closing = writer.tags(&tags)?;
    let finished = closing.finish(Some(&attempt.archives.signer))?;
    let sent = outgoing.finish(finished.sink)?;
    export.end(&state_name, finished.counts.versions, sent)
}

impl Export<'_> {
    /// Documents that nobody has read yet have no SHA-256: they are rendered once, to nowhere.
    fn render_missing(&self) -> Result<(), Failure> {
        let mut tx = self.attempt.begin_read()?;
        let missing = self
            .attempt
            .wait(store::list_unrendered(&mut tx, self.state, self.head))?;
        self.attempt.wait(tx.commit())?;
        for seq in missing {
            let mut tx = self.attempt.begin_read()?;
            let version = self.attempt.wait(store::find_version(
                &mut tx,
                self.state,
                VersionRef::Seq(seq),
            ))?;
            let Some(version) = version else { continue };
            let rendering = Rendering::start(&mut tx, self.state, &version);
            let mut rendering = self.attempt.wait(rendering)?;
            self.attempt.wait(tx.commit())?;
            let mut page = Vec::new();
            loop {
                page.clear();
                let mut tx = self.attempt.begin_read()?;
                let more = self.attempt.wait(rendering.next_page(&mut tx, &mut page))?;
                self.attempt.wait(tx.commit())?;
                if !more {
                    break;
                }
            }
            if let Some((sha256, size)) = rendering.first_digest {
                let mut tx = self.attempt.begin()?;
                let set = store::set_document_digest(&mut tx, self.state, seq, &sha256, size);
                self.attempt.wait(set)?;
                self.attempt.wait(tx.commit())?;
            }
        }
        Ok(())
    }

    fn preface(&self) -> Result<(HistorySize, Preface), Failure> {
        let attempt = self.attempt;
        let mut tx = attempt.begin_read()?;
        let gone = || Failure::last("state_gone", "the state's history is not kept any more");
        let size = attempt
            .wait(store::history_size(&mut tx, self.state, self.head))?
            .ok_or_else(gone)?;
        let head = attempt
            .wait(store::history_page(
                &mut tx,
                self.state,
                self.head - 1,
                self.head,
                1,
            ))?
            .pop()
            .ok_or_else(gone)?;
        attempt.wait(tx.commit())?;
        let count = size.versions.unsigned_abs();
        if count > MAX_VERSIONS {
            let detail = format!("the state has {count} versions; an archive holds {MAX_VERSIONS}");
            return Err(Failure::last("too_many_versions", detail));
        }
        let facts = self.facts(&head)?;
        let job = &attempt.job;
        let preface = Preface {
            writer: concat!("kilolock ", env!("CARGO_PKG_VERSION")).to_owned(),
            exported_at: job.created_at,
            exported_by: job.display.clone(),
            state: StateInfo {
                workspace: attempt.workspace().to_string(),
                environment: job.environment.to_string(),
                name: job.state_name.clone(),
                id: StateId::from_uuid(self.state).to_string(),
                head_seq: self.head.unsigned_abs(),
                head_id: VersionId::from_uuid(head.version.id).to_string(),
                serial: facts.serial,
                lineage: facts.lineage,
            },
            versions: VersionRange {
                count,
                first: size.first_seq.unsigned_abs(),
                last: self.head.unsigned_abs(),
            },
            has_runs: false,
            max_bytes: bound_of(count, size.document_bytes.unsigned_abs()),
        };
        Ok((size, preface))
    }

    /// The tags of exported versions; those versions are key frames.
    fn tags(&mut self) -> Result<Vec<archive::Tag>, Failure> {
        let mut tx = self.attempt.begin_read()?;
        let tags = self
            .attempt
            .wait(store::tags::list_tags(&mut tx, self.state))?;
        self.attempt.wait(tx.commit())?;
        let tags: Vec<_> = tags
            .into_iter()
            .filter(|tag| tag.seq <= self.head)
            .collect();
        self.tagged = tags.iter().map(|tag| tag.seq).collect();
        Ok(tags
            .into_iter()
            .map(|tag| archive::Tag {
                name: tag.tag,
                seq: tag.seq.unsigned_abs(),
                description: tag.description,
                created_by: tag.created_by,
                created_at: tag.created_at,
            })
            .collect())
    }

    fn versions(
        &mut self,
        writer: &mut Writer<Sink>,
        outgoing: &mut Outgoing<'_>,
    ) -> Result<(), Failure> {
        let mut after = 0;
        loop {
            let mut tx = self.attempt.begin_read()?;
            let page = store::history_page(&mut tx, self.state, after, self.head, PAGE);
            let page = self.attempt.wait(page)?;
            self.attempt.wait(tx.commit())?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.version.seq;
            for version in page {
                self.version(writer, outgoing, &version)?;
                let bytes = version.version.byte_size.unwrap_or_default().unsigned_abs();
                self.attempt.counts.advance(1, bytes);
            }
        }
    }

    fn version(
        &mut self,
        writer: &mut Writer<Sink>,
        outgoing: &mut Outgoing<'_>,
        historic: &HistoricVersion,
    ) -> Result<(), Failure> {
        let meta = self.meta(historic)?;
        let tagged = self.tagged.contains(&historic.version.seq);
        let written = !writer.needs_key_frame(meta.verbatim, tagged)
            && self.delta(writer, historic, &meta)?;
        if !written {
            self.key_frame(writer, outgoing, historic, &meta)?;
        }
        outgoing.drain(writer.sink_mut())
    }

    fn meta(&self, historic: &HistoricVersion) -> Result<VersionMeta, Failure> {
        let version = &historic.version;
        let facts = self.facts(historic)?;
        let sha256 = version
            .sha256
            .as_deref()
            .and_then(|sha256| sha256.try_into().ok());
        let (Some(sha256), Some(size)) = (sha256, version.byte_size) else {
            let detail = format!("version {} has no digest", version.seq);
            return Err(Failure::last("state_damaged", detail));
        };
        Ok(VersionMeta {
            seq: version.seq.unsigned_abs(),
            id: VersionId::from_uuid(version.id).to_string(),
            serial: facts.serial,
            lineage: facts.lineage,
            terraform_version: facts.terraform_version,
            source: version.source.clone(),
            created_at: version.created_at,
            created_by: version.created_by.clone(),
            run: version.run_id.map(|id| RunId::from_uuid(id).to_string()),
            forced: version.forced,
            unlocked: version.unlocked,
            verbatim: version.form != Form::Rows,
            bytes: size.unsigned_abs(),
            sha256: Digest(sha256),
            provenance: historic
                .provenance
                .as_ref()
                .and_then(|provenance| serde_json::value::to_raw_value(provenance).ok()),
        })
    }

    /// Writes the version as what it changed; false where it must be written whole after all.
    fn delta(
        &mut self,
        writer: &mut Writer<Sink>,
        historic: &HistoricVersion,
        meta: &VersionMeta,
    ) -> Result<bool, Failure> {
        let Some(last) = &self.last else {
            return Ok(false);
        };
        let (attempt, state, seq) = (self.attempt, self.state, historic.version.seq);
        let header = header_of(historic)?;
        let mut tx = attempt.begin_read()?;
        if attempt.wait(store::born_bytes(&mut tx, state, last.seq, seq))? > LARGEST_DELTA_BYTES {
            attempt.wait(tx.commit())?;
            return Ok(false);
        }
        let born = attempt.wait(store::born_rows(&mut tx, state, last.seq, seq))?;
        let closed = attempt.wait(store::closed_rows(&mut tx, state, last.seq, seq))?;
        let outputs_born = attempt.wait(store::born_outputs(&mut tx, state, last.seq, seq))?;
        let outputs_closed = attempt.wait(store::closed_outputs(&mut tx, state, last.seq, seq))?;
        let named: Vec<Digest> = header.parts().collect();
        let new: Vec<Vec<u8>> = named
            .iter()
            .filter(|part| !last.parts.contains(part))
            .map(|part| part.0.to_vec())
            .collect();
        let parts = attempt.wait(store::find_parts(&mut tx, state, &new))?;
        attempt.wait(tx.commit())?;

        let damaged = || {
            let detail = format!("the rows of version {seq} do not add up to its digest");
            Failure::last("state_damaged", detail)
        };
        let mut sum = last.rows_digest;
        let mut counted = |bytes: &[u8], comes: bool| {
            let digest = Digest(bytes.try_into().map_err(|_| damaged())?);
            if comes {
                sum.add(digest);
            } else {
                sum.remove(digest);
            }
            Ok::<_, Failure>(())
        };
        born.iter().try_for_each(|row| counted(&row.digest, true))?;
        outputs_born
            .iter()
            .try_for_each(|row| counted(&row.digest, true))?;
        closed
            .iter()
            .try_for_each(|row| counted(&row.digest, false))?;
        outputs_closed
            .iter()
            .try_for_each(|(_, digest)| counted(digest, false))?;
        for (parts, comes) in [(distinct(&named), true), (distinct(&last.parts), false)] {
            parts.iter().try_for_each(|part| counted(&part.0, comes))?;
        }
        if sum.to_bytes()[..] != historic.version.rows_digest[..] {
            return Err(damaged());
        }

        let part_bodies: Vec<(Digest, &[u8])> = parts
            .iter()
            .filter_map(|(digest, body)| {
                Some((Digest(digest.as_slice().try_into().ok()?), &**body))
            })
            .collect();
        let births: Vec<RowBirth<'_>> = born
            .iter()
            .map(|row| RowBirth {
                ord: &row.ord,
                block: &row.block,
                body: &row.body,
            })
            .collect();
        let output_births: Vec<OutputBirth<'_>> = outputs_born
            .iter()
            .map(|output| OutputBirth {
                name: &output.name,
                token: &output.name_token,
                body: &output.body,
            })
            .collect();
        let changes = VersionChanges {
            header: &header,
            parts: &part_bodies,
            outputs_closed: &outputs_closed
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>(),
            outputs_born: &output_births,
            closed: &closed.into_iter().map(|row| row.ord).collect::<Vec<_>>(),
            born: &births,
        };
        match writer.delta(meta, &changes) {
            Err(WriteError::DeltaTooLarge { .. }) => Ok(false),
            Err(error) => Err(error.into()),
            Ok(()) => {
                self.last = Some(Last {
                    seq,
                    rows_digest: sum,
                    parts: named,
                });
                Ok(true)
            }
        }
    }

    fn key_frame(
        &mut self,
        writer: &mut Writer<Sink>,
        outgoing: &mut Outgoing<'_>,
        historic: &HistoricVersion,
        meta: &VersionMeta,
    ) -> Result<(), Failure> {
        let version = &historic.version;
        if version.form != Form::Rows {
            // The version after it is a key frame, so nothing is compared with this one.
            self.last = None;
            let bytes = self.kept(historic)?;
            let mut frame = writer.key_frame(meta)?;
            frame.write(&bytes)?;
            return Ok(frame.finish()?);
        }
        let frame = writer.key_frame(meta)?;
        self.render_into(frame, outgoing, historic)?;
        let rows_digest = version.rows_digest.as_slice().try_into().unwrap_or([0; 32]);
        self.last = Some(Last {
            seq: version.seq,
            rows_digest: RowsDigest::from_bytes(rows_digest),
            parts: header_of(historic)?.parts().collect(),
        });
        Ok(())
    }

    fn render_into(
        &self,
        mut frame: KeyFrame<'_, Sink>,
        outgoing: &mut Outgoing<'_>,
        historic: &HistoricVersion,
    ) -> Result<(), Failure> {
        let attempt = self.attempt;
        let mut tx = attempt.begin_read()?;
        let rendering = Rendering::start(&mut tx, self.state, &historic.version);
        let mut rendering = attempt.wait(rendering)?;
        attempt.wait(tx.commit())?;
        let (mut page, mut places) = (Vec::new(), Vec::new());
        loop {
            page.clear();
            places.clear();
            let mut tx = attempt.begin_read()?;
            let more =
                rendering.next_page_with(&mut tx, &mut page, |ord| places.push(ord.to_vec()));
            let more = attempt.wait(more)?;
            attempt.wait(tx.commit())?;
            places.iter().try_for_each(|ord| frame.place(ord))?;
            frame.write(&page)?;
            outgoing.drain(frame.sink_mut())?;
            if !more {
                return Ok(frame.finish()?);
            }
        }
    }

    fn kept(&self, historic: &HistoricVersion) -> Result<bytes::Bytes, Failure> {
        let (attempt, engine) = (self.attempt, &self.attempt.archives.engine);
        let mut tx = attempt.begin_read()?;
        let kept = engine.read_kept_of(attempt.workspace(), &mut tx, self.state, &historic.version);
        let bytes = attempt.wait(kept)?;
        attempt.wait(tx.commit())?;
        Ok(bytes)
    }

    /// What the version's document says of itself. The columns cannot hold everything that a document may.
    fn facts(&self, historic: &HistoricVersion) -> Result<Facts, Failure> {
        let unreadable = || {
            let detail = format!(
                "the document of version {} cannot be read",
                historic.version.seq
            );
            Failure::last("state_damaged", detail)
        };
        let kept;
        let rendered;
        let document = if historic.version.form == Form::Rows {
            // Header members alone, in their place.
            let header = header_of(historic)?;
            let no_outputs = std::iter::empty::<(&[u8], &[u8])>();
            let mut renderer =
                Renderer::new(&header, no_outputs, |_| Some(b"null")).map_err(|_| unreadable())?;
            let mut text = Vec::new();
            renderer.start(&mut text);
            renderer.finish(&mut text);
            rendered = text;
            &rendered[..]
        } else {
            kept = self.kept(historic)?;
            &kept[..]
        };
        match tfstate::parse(document).map_err(|_| unreadable())? {
            Document::State(state) => Ok(Facts {
                serial: Some(state.serial),
                lineage: Some(state.lineage),
                terraform_version: Some(state.terraform_version),
            }),
            Document::Opaque(opaque) => Ok(Facts {
                serial: opaque.serial,
                lineage: opaque.lineage,
                terraform_version: opaque.terraform_version,
            }),
        }
    }

    fn end(&self, name: &str, versions: u64, sent: Sent) -> Result<(), Failure> {
        let attempt = self.attempt;
        let archives = &attempt.archives;
        let key = archives.signer.public_key();
        let result = Exported {
            archive: ExportedArchive {
                file_name: format!("{name}.{}", archive::EXTENSION),
                size_bytes: sent.size_bytes,
                sha256: hex(&sent.sha256),
                versions,
                head_seq: self.head,
                key_id: key.id(),
                public_key: key.to_base64(),
            },
            key: sent.key.to_string(),
        };
        let end = JobEnd {
            status: JobStatus::Done,
            result: Some(super::json(&result)),
            error: None,
            keep_seconds: archives.limits.keep_seconds,
        };
        let after = json!({
            "job": protocol::JobId::from_uuid(attempt.job.id),
            "versions": versions,
            "sha256": result.archive.sha256,
        });
        let progress = super::json(&attempt.counts.read());
        let mut tx = attempt.begin_end()?;
        attempt.wait(async {
            store::jobs::note_unfinished(&mut tx, attempt.job.id, None).await?;
            store::jobs::record_progress(&mut tx, attempt.job.id, &progress).await?;
            store::jobs::end_job(&mut tx, attempt.job.id, &end).await?;
            queue::enqueue(&mut tx, attempt.job.id, Task::Clean, end.keep_seconds).await?;
            audit_job(&mut tx, &attempt.job, "archive.exported", after).await?;
            tx.commit().await
        })?;
        Ok(())
    }
}

struct Facts {
    serial: Option<u64>,
    lineage: Option<String>,
    terraform_version: Option<String>,
}

fn header_of(historic: &HistoricVersion) -> Result<Header, Failure> {
    let header = historic.version.header.as_deref().unwrap_or_default();
    Header::decode(header).map_err(|_| {
        let detail = format!(
            "the header of version {} cannot be read",
            historic.version.seq
        );
        Failure::last("state_damaged", detail)
    })
}

/// Each part once, as digests of rows count them.
fn distinct(parts: &[Digest]) -> Vec<Digest> {
    let mut distinct = parts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}
