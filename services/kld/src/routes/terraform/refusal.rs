//! How a use case's refusal is told, on this lane and on the others: the code, and what helps to act on it.

use engine::{EngineError, HeadFacts, Holder};
use protocol::{Code, LockInfo};
use serde_json::json;
use tfstate::Refusal;

use crate::error::ApiError;

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        refusal(error)
    }
}

/// When to come back to an object store that is away.
const BLOB_RETRY_SECONDS: u32 = 2;

/// The refusal of a use case as the client sees it.
pub(crate) fn refusal(error: EngineError) -> ApiError {
    let said = error.to_string();
    match error {
        EngineError::NoVersion | EngineError::NoState => {
            ApiError::with_detail(Code::StateNotFound, said)
        }
        EngineError::NoSuchVersion => ApiError::with_detail(Code::VersionNotFound, said),
        EngineError::NoSuchInstance => ApiError::with_detail(Code::NotFound, said),
        EngineError::NameCase { .. } => ApiError::with_detail(Code::NameCase, said),
        EngineError::Locked(holder) => {
            let said = format!("the state is locked by {}", describe(&holder));
            held(Code::StateLocked, said, &holder)
        }
        EngineError::LockIdMismatch(Some(holder)) => {
            let said = format!("{said}: it is held by {}", describe(&holder));
            held(Code::LockIdMismatch, said, &holder)
        }
        EngineError::LockIdMismatch(None) => ApiError::with_detail(
            Code::LockNotHeld,
            "nobody holds the state, so this lock ID does not either",
        ),
        EngineError::MayNotBreak(holder) => {
            let said = format!("{said}, and this one is held by {}", describe(&holder));
            ApiError::with_detail(Code::Forbidden, said)
        }
        EngineError::LockEnded { info, reason, kept } => {
            let mut detail = format!("the lock {} has ended: {reason}", info.id);
            if kept {
                detail.push_str("; the document was kept and is named by `kl status`");
            }
            ApiError::with_detail(Code::LockEnded, detail)
                .with_members(conflict_info(&info))
                .with("kept", kept)
        }
        EngineError::LockRequired => ApiError::with_detail(
            Code::LockRequired,
            "this environment takes no write without a lock: set lock_address in the backend block",
        ),
        EngineError::StaleSerial { head, .. } => with_head(Code::StaleSerial, said, &head),
        EngineError::LineageMismatch { head } => with_head(Code::LineageMismatch, said, &head),
        EngineError::VersionConflict { head } | EngineError::LateDuplicate { head } => {
            with_head(Code::VersionConflict, said, &head)
        }
        EngineError::AmbiguousField { head, .. } => with_head(Code::DuplicateKey, said, &head),
        EngineError::Refused(refused) => document_refusal(&refused),
        EngineError::NotWritable(_) => ApiError::with_detail(Code::Conflict, said),
        EngineError::Opaque(_) => ApiError::with_detail(Code::UnsupportedState, said),
        EngineError::AlreadyCurrent | EngineError::BadScope { .. } => {
            ApiError::with_detail(Code::InvalidRequest, said)
        }
        EngineError::NameTaken => ApiError::with_detail(Code::NameTaken, said),
        error @ (EngineError::Damaged { .. } | EngineError::NoDataKey | EngineError::Seal(_)) => {
            ApiError::new(Code::StateDamaged).caused_by(&error)
        }
        EngineError::Rejected(code, detail) => ApiError::with_detail(code, detail),
        EngineError::Blob(ref away) => ApiError::new(Code::Unavailable)
            .caused_by(away)
            .retry_after(BLOB_RETRY_SECONDS),
        EngineError::Store(error) => error.into(),
    }
}

fn held(code: Code, detail: String, holder: &Holder) -> ApiError {
    ApiError::with_detail(code, detail)
        .with_members(conflict_info(&holder.info))
        .with("lane", &holder.lane)
}

/// The holder's LockInfo with a readable ID: up to 1.14 Terraform shows nothing of it but the ID.
fn conflict_info(info: &LockInfo) -> LockInfo {
    LockInfo {
        id: info.readable_id(),
        ..info.clone()
    }
}

fn describe(holder: &Holder) -> String {
    let info = &holder.info;
    let mut text = info.who.clone();
    if !info.info.is_empty() {
        text = format!("{text} ({})", info.info);
    }
    format!(
        "{text} since {}",
        holder.since.format("%Y-%m-%d %H:%M:%S UTC")
    )
}

/// What the head is, and never what is in it.
fn with_head(code: Code, detail: String, head: &HeadFacts) -> ApiError {
    let current = json!({
        "seq": head.seq,
        "serial": head.serial,
        "lineage": head.lineage,
        "sha256": head.sha256,
    });
    ApiError::with_detail(code, detail).with("current", current)
}

fn document_refusal(refused: &Refusal) -> ApiError {
    let code = match refused {
        Refusal::ByteOrderMark | Refusal::Utf16 { .. } | Refusal::NotUtf8 { .. } => {
            Code::EncodingNotJson
        }
        Refusal::DuplicateAddress { .. } => Code::DuplicateAddress,
        Refusal::SerialOutOfRange { .. } => Code::SerialOutOfRange,
        Refusal::Empty | Refusal::NotJson { .. } | Refusal::NotAnObject => Code::InvalidJson,
        _ => Code::UnsupportedState,
    };
    ApiError::with_detail(code, refused.to_string())
}
