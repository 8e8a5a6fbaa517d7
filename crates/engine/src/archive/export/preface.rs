//! What stands before and after the versions: digests that are missing yet, the range, the tags.

use archive::{MAX_VERSIONS, Preface, StateInfo, VersionRange, bound_of};
use protocol::{StateId, VersionId};
use store::{HistorySize, VersionRef};

use super::Export;
use crate::archive::outcome::Failure;
use crate::read::Rendering;

impl Export<'_> {
    /// Documents that nobody has read yet have no SHA-256: they are rendered once, to nowhere.
    pub(super) fn render_missing(&self) -> Result<(), Failure> {
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

    pub(super) fn preface(&self, has_runs: bool) -> Result<(HistorySize, Preface), Failure> {
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
        let most = MAX_VERSIONS.min(attempt.archives.limits.versions);
        if count > most {
            let detail = format!("the state has {count} versions; an archive holds {most}");
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
            has_runs,
            max_bytes: bound_of(count, size.document_bytes.unsigned_abs()),
        };
        Ok((size, preface))
    }

    /// The tags of exported versions; those versions are key frames.
    pub(super) fn tags(&mut self) -> Result<Vec<archive::Tag>, Failure> {
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
}
