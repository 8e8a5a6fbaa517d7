//! A version as what it changed, held against its digest of rows before it is written.

use archive::{OutputBirth, RowBirth, VersionChanges, VersionMeta, WriteError, Writer};
use store::{ChangesOfVersion, HistoricVersion};
use tfstate::Digest;

use super::facts::header_of;
use super::{Export, Last, Sink};
use crate::archive::outcome::Failure;

impl Export<'_> {
    /// Writes the version as what it changed; false where it must be written whole after all.
    pub(super) fn delta(
        &mut self,
        writer: &mut Writer<Sink>,
        historic: &HistoricVersion,
        meta: &VersionMeta,
        changes: ChangesOfVersion,
    ) -> Result<bool, Failure> {
        let Some(last) = &self.last else {
            return Ok(false);
        };
        let (attempt, state, seq) = (self.attempt, self.state, historic.version.seq);
        let header = header_of(historic)?;
        let ChangesOfVersion {
            born,
            closed,
            outputs_born,
            outputs_closed,
        } = changes;
        let named: Vec<Digest> = header.parts().collect();
        let new: Vec<Vec<u8>> = named
            .iter()
            .filter(|part| !last.parts.contains(part))
            .map(|part| part.0.to_vec())
            .collect();
        let parts = if new.is_empty() {
            Vec::new()
        } else {
            let mut tx = attempt.begin_read()?;
            let parts = attempt.wait(store::find_parts(&mut tx, state, &new))?;
            attempt.wait(tx.commit())?;
            parts
        };

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
                    rows_digest: sum,
                    parts: named,
                });
                Ok(true)
            }
        }
    }
}

/// Each part once, as digests of rows count them.
fn distinct(parts: &[Digest]) -> Vec<Digest> {
    let mut distinct = parts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}
