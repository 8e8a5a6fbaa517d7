//! What the audit log says of each use case: who, what, where, and digests before and after.

use graph::claims::{Access, ClaimSet, Path};
use protocol::{JobId, LockInfo, RunId, StateId};
use serde_json::{Value, json};
use store::tenancy::audit::{self, Entry, NewEntry};
use store::{Reservation, Source, Version, WorkspaceTx};
use uuid::Uuid;

use crate::hex;
use crate::{Caller, EngineError};

/// One thing that happened to a state.
pub(crate) enum What<'a> {
    Written {
        seq: i64,
        before: Option<&'a Version>,
        sha256: &'a [u8; 32],
        forced: bool,
        unlocked: bool,
        source: Source,
    },
    RolledBack {
        seq: i64,
        head: &'a Version,
        target: &'a Version,
    },
    Committed {
        seq: i64,
        before: Option<&'a Version>,
        run: Uuid,
        rows: usize,
    },
    RunEnded {
        run: Uuid,
        status: &'static str,
        command: &'a str,
    },
    KeptSettled {
        id: Uuid,
        how: &'static str,
    },
    RunReopened {
        run: Uuid,
        command: &'a str,
    },
    Reserved {
        lock: &'a LockInfo,
        claims: &'a ClaimSet,
    },
    Locked {
        lock: &'a LockInfo,
    },
    Unlocked {
        lock: &'a LockInfo,
    },
    LockBroken {
        lock: &'a LockInfo,
        holder: &'a str,
    },
    LockExpired {
        lock: &'a LockInfo,
    },
    LateWriteKept {
        lock_id: &'a str,
        sha256: &'a [u8; 32],
    },
    SensitiveRead {
        seq: i64,
        address: &'a str,
    },
    Deleted,
    Undeleted,
    Tagged {
        tag: &'a str,
        seq: i64,
        before: Option<i64>,
    },
    Untagged {
        tag: &'a str,
        seq: i64,
    },
    ExportAsked {
        job: JobId,
        head_seq: i64,
    },
    ImportAsked {
        job: JobId,
        size_bytes: u64,
        overwrite: bool,
        allow_foreign: bool,
    },
}

impl What<'_> {
    fn action(&self) -> &'static str {
        match self {
            Self::Written { .. } => "state.write",
            Self::RolledBack { .. } => "state.roll_back",
            Self::Committed { .. } => "state.commit",
            Self::RunEnded { .. } => "run.end",
            Self::KeptSettled { .. } => "kept.settle",
            Self::RunReopened { .. } => "run.reopen",
            Self::Reserved { .. } => "reservation.take",
            Self::Locked { .. } => "lock.take",
            Self::Unlocked { .. } => "lock.release",
            Self::LockBroken { .. } => "lock.break",
            Self::LockExpired { .. } => "lock.expire",
            Self::LateWriteKept { .. } => "state.keep_late_write",
            Self::SensitiveRead { .. } => "state.read_sensitive",
            Self::Deleted => "state.delete",
            Self::Undeleted => "state.undelete",
            Self::Tagged { .. } => "tag.set",
            Self::Untagged { .. } => "tag.unset",
            Self::ExportAsked { .. } => "archive.export",
            Self::ImportAsked { .. } => "archive.import",
        }
    }

    fn before(&self) -> Option<Value> {
        match self {
            Self::Written { before, .. } | Self::Committed { before, .. } => before.map(version),
            Self::RolledBack { head, .. } => Some(version(head)),
            Self::Unlocked { lock } | Self::LockExpired { lock } => Some(lock_value(lock)),
            Self::LockBroken { lock, holder } => {
                let mut value = lock_value(lock);
                value["principal"] = json!(holder);
                Some(value)
            }
            Self::Tagged {
                tag,
                before: Some(seq),
                ..
            } => Some(json!({ "tag": tag, "seq": seq })),
            Self::Untagged { tag, seq } => Some(json!({ "tag": tag, "seq": seq })),
            _ => None,
        }
    }

    fn after(&self) -> Option<Value> {
        match self {
            Self::Written {
                seq,
                sha256,
                forced,
                unlocked,
                source,
                ..
            } => Some(json!({
                "seq": seq,
                "sha256": hex(&sha256[..]),
                "forced": forced,
                "unlocked": unlocked,
                "source": source.as_str(),
            })),
            Self::RolledBack { seq, target, .. } => {
                Some(json!({ "seq": seq, "to_seq": target.seq }))
            }
            Self::Committed { seq, run, rows, .. } => {
                Some(json!({ "seq": seq, "run": RunId::from_uuid(*run), "rows": rows }))
            }
            Self::RunEnded {
                run,
                status,
                command,
            } => {
                Some(json!({ "run": RunId::from_uuid(*run), "status": status, "command": command }))
            }
            Self::KeptSettled { id, how } => Some(json!({ "kept": id, "how": how })),
            Self::RunReopened { run, command } => {
                Some(json!({ "run": RunId::from_uuid(*run), "command": command }))
            }
            Self::Reserved { lock, claims } => {
                let mut value = lock_value(lock);
                value["claims"] = json!(claims.iter().map(claim).collect::<Vec<_>>());
                Some(value)
            }
            Self::Locked { lock } => Some(lock_value(lock)),
            Self::LateWriteKept { lock_id, sha256 } => {
                Some(json!({ "lock_id": lock_id, "sha256": hex(&sha256[..]) }))
            }
            Self::SensitiveRead { seq, address } => Some(json!({ "seq": seq, "address": address })),
            Self::Tagged { tag, seq, .. } => Some(json!({ "tag": tag, "seq": seq })),
            Self::ExportAsked { job, head_seq } => {
                Some(json!({ "job": job, "head_seq": head_seq }))
            }
            Self::ImportAsked {
                job,
                size_bytes,
                overwrite,
                allow_foreign,
            } => Some(json!({
                "job": job,
                "size_bytes": size_bytes,
                "overwrite": overwrite,
                "allow_foreign": allow_foreign,
            })),
            _ => None,
        }
    }
}

fn version(version: &Version) -> Value {
    json!({ "seq": version.seq, "serial": version.serial, "sha256": version.sha256.as_deref().map(hex) })
}

fn claim((path, access): (&Path, Access)) -> String {
    format!("{access} {path}")
}

fn lock_value(lock: &LockInfo) -> Value {
    json!({ "lock_id": lock.id, "operation": lock.operation, "who": lock.who })
}

/// What happened, as an entry of the log.
fn new_entry<'a>(
    caller: &'a Caller,
    state_id: Uuid,
    name: &'a str,
    what: &What<'_>,
) -> NewEntry<'a> {
    NewEntry {
        action: what.action(),
        target: name,
        environment: Some(caller.environment()),
        state: Some(StateId::from_uuid(state_id)),
        before: what.before(),
        after: what.after(),
        ..NewEntry::default()
    }
}

/// The same for the statement that does it.
pub(crate) fn entry(caller: &Caller, state_id: Uuid, name: &str, what: &What<'_>) -> Entry {
    Entry::new(caller.context(), new_entry(caller, state_id, name, what))
}

/// Records it in the transaction that does it.
pub(crate) async fn record(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state_id: Uuid,
    name: &str,
    what: What<'_>,
) -> Result<(), EngineError> {
    let entry = new_entry(caller, state_id, name, &what);
    Ok(audit::record(tx, caller.context(), entry).await?)
}

/// Records that a late write's body was kept.
pub(crate) async fn record_kept(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    name: &str,
    late: &Reservation,
    sha256: &[u8; 32],
) -> Result<(), EngineError> {
    let what = What::LateWriteKept {
        lock_id: &late.idem_key,
        sha256,
    };
    record(tx, caller, late.state_id, name, what).await
}
