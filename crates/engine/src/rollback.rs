//! Rolling a state back: an older version's content becomes a new version on top.

use protocol::StateName;
use sha2::{Digest as _, Sha256};
use store::{Changed, Form, Lifecycle, NewVersion, Source, Version, VersionRef};
use tfstate::Header;
use uuid::Uuid;

use crate::lock::{end_due, holder, not_read_only, same_spelling};
use crate::write::head_facts;
use crate::{Caller, Engine, EngineError, audit};

/// What a rollback did.
#[derive(Debug, Clone)]
pub struct RolledBack {
    pub from: Version,
    pub to: Version,
    pub seq: i64,
    pub serial: u64,
    pub rows_changed: u64,
}

impl Engine {
    /// Makes version `wanted` the content of a new version. The document is that version's but for its
    /// serial, which follows the head's; the versions between stay listed.
    pub async fn roll_back(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: VersionRef,
    ) -> Result<RolledBack, EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        store::lock_ledger(&mut tx, state.id).await?;
        end_due(&mut tx, caller, &state).await?;
        if let Some(held) = store::list_active(&mut tx, state.id).await?.first() {
            return Err(EngineError::Locked(Box::new(holder(held))));
        }
        let locked = store::lock_state(&mut tx, state.id).await?;
        not_read_only(&locked)?;
        if locked.lifecycle != Lifecycle::Active {
            return Err(EngineError::NoState);
        }
        let head = store::find_version(&mut tx, state.id, VersionRef::Head)
            .await?
            .ok_or(EngineError::NoVersion)?;
        // Whoever waited here while another changed the state decided on what is no longer there.
        if locked.head_seq != state.head_seq {
            return Err(EngineError::VersionConflict {
                head: head_facts(Some(&head)),
            });
        }
        let target = store::find_version(&mut tx, state.id, wanted)
            .await?
            .ok_or(EngineError::NoSuchVersion)?;
        if target.seq == head.seq {
            return Err(EngineError::AlreadyCurrent);
        }
        let header = match (&target.header, target.form) {
            (Some(header), Form::Rows | Form::Kept) => header,
            _ => {
                return Err(EngineError::Opaque(
                    target.opaque_reason.unwrap_or_default(),
                ));
            }
        };
        let damaged = EngineError::Damaged {
            seq: target.seq,
            what: "its header cannot be read",
        };
        let Ok(header) = Header::decode(header) else {
            return Err(damaged);
        };
        let serial = next_serial(&head, &target);
        let seq = state.next_seq();

        // A kept document is not what rendering gives, so its own bytes are taken, the serial's digits
        // replaced; otherwise the new version is rows, and its digest is known once it is rendered.
        let kept = match target.form {
            Form::Kept => {
                let bytes = self.read_kept(caller, &mut tx, state.id, &target).await?;
                let bytes = tfstate::with_serial(&bytes, serial).ok_or(damaged)?;
                let key = self.data_key(&mut tx, caller).await?;
                let packed = self.pack_document(&key, caller, state.id, seq, &bytes)?;
                Some((
                    <[u8; 32]>::from(Sha256::digest(&bytes)),
                    bytes.len() as i64,
                    packed,
                ))
            }
            _ => None,
        };
        let rows_changed = store::restore_rows(&mut tx, state.id, target.seq, seq).await?;
        let what = audit::What::RolledBack {
            seq,
            head: &head,
            target: &target,
        };
        store::insert_version(
            &mut tx,
            &NewVersion {
                state_id: state.id,
                seq,
                id: Uuid::now_v7(),
                serial: Some(serial),
                lineage: target.lineage.as_deref(),
                terraform_version: target.terraform_version.as_deref(),
                source: Source::Rollback,
                created_by: caller.display(),
                principal_id: caller.principal().as_str(),
                reservation: None,
                run_id: None,
                forced: false,
                unlocked: false,
                form: target.form,
                opaque_reason: None,
                header: Some(&header.with_serial(serial).encode()),
                rows_digest: &target.rows_digest,
                sha256: kept.as_ref().map(|(sha256, _, _)| sha256.as_slice()),
                byte_size: kept.as_ref().map(|(_, size, _)| *size),
                instance_count: target.instance_count,
                rows_changed: i64::try_from(rows_changed).unwrap_or(i64::MAX),
                after: head.seq,
                was_applied: false,
                receipt: None,
            },
            Changed::default(),
            audit::entry(caller, locked.id, &locked.name, &what),
        )
        .await?;
        if let Some((_, _, packed)) = &kept {
            store::insert_document(&mut tx, state.id, seq, packed).await?;
        }
        tx.commit().await?;
        Ok(RolledBack {
            from: head,
            to: target,
            seq,
            serial,
            rows_changed,
        })
    }
}

/// One above the head's serial, or above the target's where the head shows none. At the end of the
/// range it stays: Terraform itself wraps there, and a repeated serial is legal.
fn next_serial(head: &Version, target: &Version) -> u64 {
    let serial = |version: &Version| {
        version
            .serial
            .as_deref()
            .and_then(|serial| serial.parse::<u64>().ok())
    };
    serial(head)
        .or_else(|| serial(target))
        .unwrap_or_default()
        .saturating_add(1)
}
