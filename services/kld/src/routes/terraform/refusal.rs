//! How a use case's refusal is told, on this lane and on the others: the code, and what helps to act on it.

use engine::{Conflict, EngineError, HeadFacts, Holder};
use graph::claims::Access;
use protocol::runs::{ReservationConflict, Waiting};
use protocol::scope::ClaimMode;
use protocol::{Code, LockInfo, ReservationId, RunId};
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
/// When to come back where too many watch already.
const WATCHERS_RETRY_SECONDS: u32 = 30;

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
        EngineError::NotByForceUnlock(holder) => {
            let said = format!("{said}; {}", how_to_end(&holder));
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
        EngineError::ScopeBusy(held) => {
            let said = match held.ahead {
                Some(ahead) if held.conflicts.is_empty() => {
                    format!("{ahead} asked for a part of the scope before and wait for it")
                }
                _ => busy(said, &held.conflicts),
            };
            let members = Waiting {
                ticket: held.ticket,
                ahead: held.ahead,
                expected_seconds: held.expected_seconds,
                ..waiting(&held.conflicts)
            };
            ApiError::with_detail(Code::ReservationConflict, said).with_members(members)
        }
        EngineError::Queued { ahead } => {
            // A client goes on waiting only for a lock whose information it can parse.
            let info = LockInfo {
                id: format!("queue {ahead} in front"),
                operation: "waiting".to_owned(),
                info: said.clone(),
                who: "the queue".to_owned(),
                created: Some(chrono::Utc::now()),
                ..LockInfo::default()
            };
            ApiError::with_detail(Code::StateLocked, said).with_members(conflict_info(&info))
        }
        EngineError::ExtendConflict(conflicts) => {
            ApiError::with_detail(Code::ExtendConflict, busy(said, &conflicts))
                .with_members(waiting(&conflicts))
        }
        EngineError::LeaseLost { kept, .. } => {
            let said = if kept {
                format!("{said}; the upload was kept: see `kl recover`")
            } else {
                said
            };
            ApiError::with_detail(Code::LeaseLost, said).with("kept", kept)
        }
        EngineError::OutsideScope(addresses) => {
            ApiError::with_detail(Code::OutsideScope, said).with("addresses", addresses)
        }
        EngineError::KeyReused => ApiError::with_detail(Code::IdempotencyMismatch, said),
        EngineError::NotAClaim(_) | EngineError::BadRequest(_) => {
            ApiError::with_detail(Code::InvalidRequest, said)
        }
        EngineError::NotNative(_) => ApiError::with_detail(Code::NativeUnsupported, said),
        EngineError::NoRun => ApiError::with_detail(Code::NotFound, said),
        EngineError::NotYourRun(_) | EngineError::MayNotWrite => {
            ApiError::with_detail(Code::Forbidden, said)
        }
        EngineError::RunEnded(_) => ApiError::with_detail(Code::RunEnded, said),
        EngineError::RunIsReadOnly => ApiError::with_detail(Code::RunIsReadOnly, said),
        EngineError::BackendLocked(info) => {
            ApiError::with_detail(Code::StateLocked, said).with_members(conflict_info(&info))
        }
        EngineError::OtherBackendLock(info) => {
            ApiError::with_detail(Code::LockIdMismatch, said).with_members(conflict_info(&info))
        }
        EngineError::LateUpload => ApiError::with_detail(Code::VersionConflict, said),
        EngineError::OtherLineage => ApiError::with_detail(Code::LineageMismatch, said),
        EngineError::ScopeUnsafe(contract) => {
            let said = contract.notes.first().cloned().unwrap_or(said);
            ApiError::with_detail(Code::ScopeUnsafe, said).with("contract", contract)
        }
        EngineError::PlanUnknown => ApiError::with_detail(Code::PlanUnknown, said),
        EngineError::PlanSpent => ApiError::with_detail(Code::PlanSpent, said),
        EngineError::PlanInUse => ApiError::with_detail(Code::Conflict, said),
        EngineError::PlanStale { ref address, .. } => {
            ApiError::with_detail(Code::PlanStale, said).with("address", address)
        }
        EngineError::NoKept => ApiError::with_detail(Code::NotFound, said),
        EngineError::KeptSettled => ApiError::with_detail(Code::Conflict, said),
        EngineError::Undecided(addresses) => {
            ApiError::with_detail(Code::VersionConflict, said).with("addresses", addresses)
        }
        error @ EngineError::DamagedRun(_) => ApiError::internal(&error),
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
        EngineError::AddressTaken(_)
        | EngineError::ValueDiffers(_)
        | EngineError::NotWritable(_) => ApiError::with_detail(Code::Conflict, said),
        EngineError::Opaque(_) => ApiError::with_detail(Code::UnsupportedState, said),
        EngineError::AlreadyCurrent | EngineError::BadScope { .. } => {
            ApiError::with_detail(Code::InvalidRequest, said)
        }
        EngineError::TooManyWatchers => {
            ApiError::with_detail(Code::RateLimited, said).retry_after(WATCHERS_RETRY_SECONDS)
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

/// Who stands in the way, the first by name.
fn busy(said: String, conflicts: &[Conflict]) -> String {
    match conflicts.first() {
        Some(first) => format!("{said}: `{}` by {}", first.path, describe(&first.holder)),
        None => said,
    }
}

fn waiting(conflicts: &[Conflict]) -> Waiting {
    let conflict = |conflict: &Conflict| ReservationConflict {
        reservation: ReservationId::from_uuid(conflict.holder.reservation),
        run: conflict.holder.run.map(RunId::from_uuid),
        who: conflict.holder.info.who.clone(),
        command: conflict.holder.info.operation.clone(),
        address: conflict.path.to_string(),
        mode: match conflict.access {
            Access::Read => ClaimMode::Read,
            Access::Write => ClaimMode::Write,
        },
        since: conflict.holder.since,
        expires_at: conflict.holder.expires_at,
    };
    Waiting {
        conflicts: conflicts.iter().map(conflict).collect(),
        ..Waiting::default()
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

/// What ends a holder that force-unlock does not.
fn how_to_end(holder: &Holder) -> String {
    let info = &holder.info;
    match holder.run.map(RunId::from_uuid) {
        Some(run) => format!(
            "run {run} of {} (`{}`) holds a part of the state: `kl apply abort {run}` or `kl unlock --lock-id {run}` ends it",
            info.who, info.operation
        ),
        None => format!(
            "the state is under an administrative lock of {}",
            describe(holder)
        ),
    }
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
