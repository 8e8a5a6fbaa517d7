//! Whether a document may follow the head. Pure.

use store::Version;
use tfstate::Document;

use super::right::Right;
use crate::{EngineError, HeadFacts, hex};

/// What a document says of itself.
pub(super) struct Facts {
    pub(super) serial: Option<u64>,
    pub(super) lineage: Option<String>,
    pub(super) terraform_version: Option<String>,
    ambiguous: Option<String>,
}

impl Facts {
    pub(super) fn of(document: &Document<'_>) -> Self {
        match document {
            Document::State(state) => Self {
                serial: Some(state.serial),
                lineage: Some(state.lineage.clone()),
                terraform_version: Some(state.terraform_version.clone()),
                ambiguous: state.ambiguous.clone(),
            },
            Document::Opaque(opaque) => Self {
                serial: opaque.serial,
                lineage: opaque.lineage.clone(),
                terraform_version: opaque.terraform_version.clone(),
                ambiguous: opaque.ambiguous.clone(),
            },
        }
    }
}

/// Whether the document may follow the head under this right, and whether doing so is a *forced* write.
///
/// Under a lock, serial and lineage are Terraform's to judge: `state push -force` looks like any other
/// write, so a lower serial or another lineage is accepted and marked. Without a lock they are all there
/// is to guard by: same lineage, serial above the head's.
pub(super) fn judge(
    facts: &Facts,
    head: Option<&Version>,
    right: &Right,
) -> Result<bool, EngineError> {
    let Some(head) = head else { return Ok(false) };
    let head_serial = head
        .serial
        .as_deref()
        .and_then(|serial| serial.parse::<u64>().ok());
    let other_lineage = matches!(
        (facts.lineage.as_deref(), head.lineage.as_deref()),
        (Some(offered), Some(current)) if offered != current
    );
    let not_above =
        matches!((facts.serial, head_serial), (Some(offered), Some(current)) if offered <= current);
    match right {
        Right::Held(_) => Ok(other_lineage || not_above),
        Right::Unlocked => {
            if let Some(field) = &facts.ambiguous {
                return Err(EngineError::AmbiguousField {
                    field: field.clone(),
                    head: head_facts(Some(head)),
                });
            }
            if other_lineage {
                return Err(EngineError::LineageMismatch {
                    head: head_facts(Some(head)),
                });
            }
            if not_above {
                let offered = facts
                    .serial
                    .map(|serial| serial.to_string())
                    .unwrap_or_default();
                return Err(EngineError::StaleSerial {
                    offered,
                    head: head_facts(Some(head)),
                });
            }
            Ok(false)
        }
    }
}

pub(crate) fn head_facts(version: Option<&Version>) -> HeadFacts {
    HeadFacts {
        seq: version.map_or(0, |version| version.seq),
        serial: version.and_then(|version| version.serial.clone()),
        lineage: version.and_then(|version| version.lineage.clone()),
        sha256: version
            .and_then(|version| version.sha256.as_deref())
            .map(hex),
    }
}
