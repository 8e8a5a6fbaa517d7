//! Granting and releasing as most runs do: whole transactions in one statement each. Where something is not as it mostly is,
//! nothing is done, and the caller goes the long way.

use graph::claims::ClaimSet;
use protocol::{PrincipalId, WorkspaceId};
use uuid::Uuid;

use super::changes::{LedgerChange, LedgerEvent};
use super::grants::NewReservation;
use super::ledger::Reservation;
use super::nodes::{asked_columns, claim_columns, node_columns};
use crate::tenancy::audit::Entry;
use crate::turns::Row;
use crate::{Db, Error};

/// Grants these claims to a run of this principal that is recorded, goes on and holds nothing, if nobody excludes them and the
/// state is active. The audit log has the entry then.
///
/// The base is the head, whatever `new.base_seq` says.
pub async fn reserve_at_once(
    db: &Db,
    workspace: &WorkspaceId,
    new: &NewReservation<'_>,
    claims: &ClaimSet,
    entry: Entry,
) -> Result<Option<Reservation>, Error> {
    let nodes = claims.nodes();
    let (paths, modes) = claim_columns(claims);
    let (hashes, node_modes) = node_columns(&nodes);
    let (_, masks) = asked_columns(&nodes);
    let workspace = workspace.clone();
    let (id, state_id, run_id) = (new.id, new.state_id, new.run_id);
    let (lane, lease_seconds) = (new.lane, new.lease_seconds);
    let texts = [new.idem_key, new.info, new.principal_id];
    let [idem_key, info, principal_id] = texts.map(str::to_owned);
    db.write_at_once(Row::Ledger(state_id), move |db, mut connection| async move {
        let granted = sqlx::query_as!(
            Reservation,
            r#"
                SELECT id AS "id!", state_id AS "state_id!", run_id, lane AS "lane!", idem_key AS "idem_key!",
                       token AS "token!", incarnation AS "incarnation!", granted_gen AS "granted_gen!",
                       status AS "status!", lease_seconds, expires_at, base_seq AS "base_seq!", end_reason,
                       info AS "info!", principal_id AS "principal_id!", created_at AS "created_at!",
                       last_active_at AS "last_active_at!", began_at, false AS "due!"
                FROM reserve_at_once($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
            "#,
            workspace.as_str(),
            state_id,
            id,
            lane.as_str(),
            idem_key,
            lease_seconds,
            info,
            principal_id,
            run_id,
            &paths,
            &modes as &[&str],
            &hashes,
            &node_modes,
            &masks,
            entry.0,
        )
        .fetch_optional(&mut *connection)
        .await?;
        if let Some(granted) = &granted {
            db.tell_entry(&workspace);
            db.tell_ledger(LedgerChange {
                workspace,
                state_id,
                incarnation: granted.incarnation,
                event: LedgerEvent::granted(granted, nodes),
            });
        }
        Ok(granted)
    })
    .await
}

/// Releases what a run of this principal holds; the run may reserve anew. False where nothing was done.
pub async fn release_at_once(
    db: &Db,
    workspace: &WorkspaceId,
    run: Uuid,
    principal: &PrincipalId,
    reason: &'static str,
) -> Result<bool, Error> {
    let held = db
        .ask(|pool| async move {
            sqlx::query!(
                r#"
                    SELECT reservation_id AS "id!", state_id AS "state_id!"
                    FROM held_by_run($1, $2, $3)
                "#,
                workspace.as_str(),
                run,
                principal.as_str(),
            )
            .fetch_optional(&pool)
            .await
        })
        .await?;
    let Some(held) = held else { return Ok(false) };
    let (id, state_id) = (held.id, held.state_id);
    let workspace = workspace.clone();
    db.write_at_once(
        Row::Ledger(state_id),
        move |db, mut connection| async move {
            let ended = sqlx::query!(
                r#"
                SELECT incarnation AS "incarnation!", ended_gen AS "ended_gen!"
                FROM release_at_once($1, $2, $3, $4, $5)
            "#,
                workspace.as_str(),
                state_id,
                run,
                id,
                reason,
            )
            .fetch_optional(&mut *connection)
            .await?;
            let Some(ended) = ended else { return Ok(false) };
            db.tell_ledger(LedgerChange {
                workspace,
                state_id,
                incarnation: ended.incarnation,
                event: LedgerEvent::Ended {
                    id,
                    ended_gen: ended.ended_gen,
                },
            });
            Ok(true)
        },
    )
    .await
}
