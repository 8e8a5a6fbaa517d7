//! What a version's document says of itself. The columns cannot hold everything that a document may.

use store::{Form, HistoricVersion};
use tfstate::{Document, Header, Renderer};

use super::Export;
use crate::archive::outcome::Failure;

pub(super) struct Facts {
    pub(super) serial: Option<u64>,
    pub(super) lineage: Option<String>,
    pub(super) terraform_version: Option<String>,
}

/// What stands in a column where a document has NUL.
const INSTEAD_OF_NUL: char = '\u{fffd}';

impl Export<'_> {
    /// Of a version with rows the header says it, else the columns do. Only where a NUL may have been replaced in them, the
    /// kept document is read whole: what the client encrypted has neither lineage nor version to play with.
    pub(super) fn facts(&self, historic: &HistoricVersion) -> Result<Facts, Failure> {
        let version = &historic.version;
        if let Some(header) = &version.header {
            let header = decode(header, version.seq)?;
            return facts_of(&header_document(&header).ok_or_else(|| unreadable(version.seq))?)
                .ok_or_else(|| unreadable(version.seq));
        }
        let exact = |text: &Option<String>| {
            text.as_deref()
                .is_none_or(|text| !text.contains(INSTEAD_OF_NUL))
        };
        if version.form == Form::Opaque
            && exact(&version.lineage)
            && exact(&version.terraform_version)
        {
            let serial = version.serial.as_deref().map(str::parse).transpose();
            return Ok(Facts {
                serial: serial.map_err(|_| unreadable(version.seq))?,
                lineage: version.lineage.clone(),
                terraform_version: version.terraform_version.clone(),
            });
        }
        let (attempt, engine) = (self.attempt, &self.attempt.archives.engine);
        let mut tx = attempt.begin_read()?;
        let kept = engine.read_kept_of(attempt.workspace(), &mut tx, self.state, version);
        let kept = attempt.wait(kept)?;
        attempt.wait(tx.commit())?;
        facts_of(&kept).ok_or_else(|| unreadable(version.seq))
    }
}

/// The header's members alone, in their place.
fn header_document(header: &Header) -> Option<Vec<u8>> {
    let no_outputs = std::iter::empty::<(&[u8], &[u8])>();
    let mut renderer = Renderer::new(header, no_outputs, |_| Some(b"null")).ok()?;
    let mut text = Vec::new();
    renderer.start(&mut text);
    renderer.finish(&mut text);
    Some(text)
}

fn facts_of(document: &[u8]) -> Option<Facts> {
    Some(match tfstate::parse(document).ok()? {
        Document::State(state) => Facts {
            serial: Some(state.serial),
            lineage: Some(state.lineage),
            terraform_version: Some(state.terraform_version),
        },
        Document::Opaque(opaque) => Facts {
            serial: opaque.serial,
            lineage: opaque.lineage,
            terraform_version: opaque.terraform_version,
        },
    })
}

fn unreadable(seq: i64) -> Failure {
    let detail = format!("the document of version {seq} cannot be read");
    Failure::last("state_damaged", detail)
}

pub(super) fn header_of(historic: &HistoricVersion) -> Result<Header, Failure> {
    let header = historic.version.header.as_deref().unwrap_or_default();
    decode(header, historic.version.seq)
}

fn decode(header: &[u8], seq: i64) -> Result<Header, Failure> {
    Header::decode(header).map_err(|_| {
        let detail = format!("the header of version {seq} cannot be read");
        Failure::last("state_damaged", detail)
    })
}
