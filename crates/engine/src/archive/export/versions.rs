//! Version by version, each as what it changed or as a key frame.

use archive::{VersionMeta, Writer};
use protocol::{RunId, VersionId};
use store::{ChangesOfVersion, Form, HistoricVersion};
use tfstate::Digest;

use super::ahead::Planned;
use super::runs::provenance_run;
use super::{Export, Sink};
use crate::archive::attempt::Outgoing;
use crate::archive::outcome::Failure;

/// Versions read at once, without their rows.
const PAGE: i64 = 100;

impl Export<'_> {
    pub(super) fn versions(
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
            let before = (after > 0).then_some(after);
            after = last.version.seq;
            let planned = self.planned(writer, &page);
            let mut ahead = self.changes_ahead(before, &planned);
            for (version, planned) in page.into_iter().zip(planned) {
                self.attempt.check()?;
                let changes = if planned.whole {
                    None
                } else {
                    ahead.of(planned.seq)?
                };
                self.version(writer, outgoing, &version, changes)?;
                let bytes = version.version.byte_size.unwrap_or_default().unsigned_abs();
                self.attempt.counts.advance(1, bytes);
            }
        }
    }

    /// Which of the next versions must be key frames.
    fn planned(&self, writer: &Writer<Sink>, page: &[HistoricVersion]) -> Vec<Planned> {
        let next = page.iter().map(|historic| {
            let version = &historic.version;
            let tagged = self.tagged.contains(&version.seq);
            (version.form != Form::Rows, tagged)
        });
        let seqs = page.iter().map(|historic| historic.version.seq);
        seqs.zip(writer.plan(next))
            .map(|(seq, whole)| Planned { seq, whole })
            .collect()
    }

    fn version(
        &mut self,
        writer: &mut Writer<Sink>,
        outgoing: &mut Outgoing<'_>,
        historic: &HistoricVersion,
        changes: Option<ChangesOfVersion>,
    ) -> Result<(), Failure> {
        let meta = self.meta(historic)?;
        let written = match changes {
            Some(changes) => self.delta(writer, historic, &meta, changes)?,
            None => false,
        };
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
            run: match version.run_id {
                Some(id) => Some(RunId::from_uuid(id).to_string()),
                None => historic.provenance.as_ref().and_then(provenance_run),
            },
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
}
