//! Key frames: documents rendered from their rows page by page, or read piece by piece where their bytes were kept.

use std::io::Read;

use archive::{KeyFrame, VersionMeta, Writer};
use store::{Form, HistoricVersion};
use tfstate::RowsDigest;

use super::facts::header_of;
use super::{Export, Last, Sink};
use crate::archive::attempt::Outgoing;
use crate::archive::outcome::Failure;

/// Bytes of a kept document that are written at once.
const PIECE_BYTES: usize = 1 << 20;

impl Export<'_> {
    pub(super) fn key_frame(
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
            let frame = writer.key_frame(meta)?;
            return self.copy_into(frame, outgoing, historic, meta);
        }
        let frame = writer.key_frame(meta)?;
        self.render_into(frame, outgoing, historic)?;
        let rows_digest = version.rows_digest.as_slice().try_into().unwrap_or([0; 32]);
        self.last = Some(Last {
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
        let mut pages = self.pages_ahead(&historic.version);
        while let Some(page) = pages.next()? {
            self.attempt.check()?;
            page.places.iter().try_for_each(|ord| frame.place(ord))?;
            frame.write(&page.text)?;
            outgoing.drain(frame.sink_mut())?;
        }
        Ok(frame.finish()?)
    }

    /// Copies the bytes that were kept. The frame holds them against the version's digest.
    fn copy_into(
        &self,
        mut frame: KeyFrame<'_, Sink>,
        outgoing: &mut Outgoing<'_>,
        historic: &HistoricVersion,
        meta: &VersionMeta,
    ) -> Result<(), Failure> {
        let damaged = || {
            let detail = format!("the kept document of version {} cannot be read", meta.seq);
            Failure::last("state_damaged", detail)
        };
        let (attempt, engine) = (self.attempt, &self.attempt.archives.engine);
        let mut tx = attempt.begin_read()?;
        let kept = engine.open_kept_of(attempt.workspace(), &mut tx, self.state, &historic.version);
        let mut kept = attempt.wait(kept)?;
        attempt.wait(tx.commit())?;
        let (mut piece, mut left) = (vec![0; PIECE_BYTES], meta.bytes);
        loop {
            let read = kept.read(&mut piece).map_err(|_| damaged())?;
            if read == 0 && left == 0 {
                return Ok(frame.finish()?);
            }
            // Neither shorter nor longer than it was.
            left = match left.checked_sub(read as u64) {
                Some(left) if read > 0 => left,
                _ => return Err(damaged()),
            };
            frame.write(&piece[..read])?;
            outgoing.drain(frame.sink_mut())?;
        }
    }
}
