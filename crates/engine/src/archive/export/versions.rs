//! Version by version, each as what it changed or as a key frame.

use archive::{VersionMeta, Writer};
use protocol::{RunId, VersionId};
use store::{Form, HistoricVersion};
use tfstate::Digest;

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
