//! Granting: the next token, the reservation, its claims, and the nodes by which others find it.

use graph::claims::{ClaimSet, Nodes};
use locking::{Rule, holds};
use uuid::Uuid;

use super::changes::LedgerEvent;
use super::ledger::{Lane, Reservation};
use super::nodes::{asked_columns, claim_columns, node_columns};
use crate::tenancy::audit::Entry;
use crate::turns::Row;
use crate::{Error, WorkspaceTx};

/// What a grant records.
#[derive(Debug, Clone)]
pub struct NewReservation<'a> {
    pub id: Uuid,
    pub state_id: Uuid,
    pub run_id: Option<Uuid>,
    pub lane: Lane,
    pub idem_key: &'a str,
    pub lease_seconds: Option<i64>,
    pub base_seq: i64,
    pub info: &'a str,
    pub principal_id: &'a str,
}

/// Grants a claim on the whole state. The caller holds the ledger and has found no conflict.
pub async fn insert_whole_state(
    tx: &mut WorkspaceTx,
    new: &NewReservation<'_>,
) -> Result<Reservation, Error> {
    let whole = ClaimSet::whole_state();
    // Its lane excludes everybody: nobody looks for nodes of it.
    let granted = insert_reservation(tx, new, &whole, &Nodes::default()).await?;
    note_grant(tx, &granted, whole.nodes());
    Ok(granted)
}

/// Has the grant told to whoever follows the ledger, once it is committed.
pub(super) fn note_grant(tx: &mut WorkspaceTx, granted: &Reservation, nodes: Nodes) {
    let event = LedgerEvent::granted(granted, nodes);
    tx.note(granted.state_id, granted.incarnation, event);
}

/// Draws the next token and grants a reservation under it, with its claims and the nodes by which others find it: all in one
/// statement, since everybody who wants something of the state waits meanwhile.
pub(super) async fn insert_reservation(
    tx: &mut WorkspaceTx,
    new: &NewReservation<'_>,
    claims: &ClaimSet,
    nodes: &Nodes,
) -> Result<Reservation, Error> {
    let (paths, modes) = claim_columns(claims);
    let (hashes, node_modes) = node_columns(nodes);
    let row = sqlx::query_as!(
        Reservation,
        r#"
            WITH head AS (
                UPDATE lock_heads
                SET token = token + $11, gen = gen + 1
                WHERE workspace_id = $1 AND state_id = $3
                RETURNING token, gen
            ),
            granted AS (
                INSERT INTO reservations (
                    workspace_id, id, state_id, lane, idem_key, token, incarnation, lease_seconds,
                    expires_at, base_seq, granted_gen, info, principal_id, run_id
                )
                SELECT $1, $2, $3, $4, $5, head.token, s.incarnation, $6::bigint,
                       clock_timestamp() + make_interval(secs => $6::bigint::double precision), $7, head.gen, $8, $9, $10
                FROM head, lock_service s
                RETURNING id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                          expires_at, base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at
            ),
            claimed AS (
                INSERT INTO claims (workspace_id, reservation_id, path, mode)
                SELECT $1, $2, string_to_array(u.path, E'\n'), u.mode
                FROM granted, unnest($12::text[], $13::text[]) AS u (path, mode)
            ),
            to_be_found AS (
                INSERT INTO reservation_nodes (workspace_id, state_id, node_hash, mode, reservation_id)
                SELECT $1, $3, u.hash, u.mode, $2
                FROM granted, unnest($14::bigint[], $15::smallint[]) AS u (hash, mode)
            )
            SELECT id AS "id!", state_id AS "state_id!", run_id, lane AS "lane!", idem_key AS "idem_key!",
                   token AS "token!", incarnation AS "incarnation!", granted_gen AS "granted_gen!",
                   status AS "status!", lease_seconds, expires_at, base_seq AS "base_seq!", end_reason,
                   info AS "info!", principal_id AS "principal_id!", created_at AS "created_at!",
                   last_active_at AS "last_active_at!", began_at, false AS "due!"
            FROM granted
        "#,
        tx.workspace().as_str(),
        new.id,
        new.state_id,
        new.lane.as_str(),
        new.idem_key,
        new.lease_seconds,
        new.base_seq,
        new.info,
        new.principal_id,
        new.run_id,
        if holds(Rule::TokenRise) { 1 } else { -1 },
        &paths,
        &modes as &[&str],
        &hashes,
        &node_modes,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(row)
}

/// Grants these claims. The caller holds the ledger and has found no conflict.
pub async fn insert_native(
    tx: &mut WorkspaceTx,
    new: &NewReservation<'_>,
    claims: &ClaimSet,
) -> Result<Reservation, Error> {
    let nodes = claims.nodes();
    let granted = insert_reservation(tx, new, claims, &nodes).await?;
    note_grant(tx, &granted, nodes);
    Ok(granted)
}

/// Locks the ledger and grants these claims, if nobody excludes them and the state is active, at version `head_seq` where
/// that is given. The run, where it is recorded already, has the reservation then, and the audit log the entry. `None`:
/// something is in the way. The caller holds the ledger then, all the same.
///
/// The base is the head, whatever `new.base_seq` says.
pub async fn grant_if_free(
    tx: &mut WorkspaceTx,
    new: &NewReservation<'_>,
    claims: &ClaimSet,
    head_seq: Option<i64>,
    entry: Entry,
) -> Result<Option<Reservation>, Error> {
    let nodes = claims.nodes();
    let (paths, modes) = claim_columns(claims);
    let (hashes, node_modes) = node_columns(&nodes);
    let (_, masks) = asked_columns(&nodes);
    tx.take_turn(Row::Ledger(new.state_id)).await;
    let granted = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id AS "id!", state_id AS "state_id!", run_id, lane AS "lane!", idem_key AS "idem_key!",
                   token AS "token!", incarnation AS "incarnation!", granted_gen AS "granted_gen!",
                   status AS "status!", lease_seconds, expires_at, base_seq AS "base_seq!", end_reason,
                   info AS "info!", principal_id AS "principal_id!", created_at AS "created_at!",
                   last_active_at AS "last_active_at!", began_at, false AS "due!"
            FROM grant_if_free($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        "#,
        tx.workspace().as_str(),
        new.state_id,
        head_seq,
        new.id,
        new.lane.as_str(),
        new.idem_key,
        new.lease_seconds,
        new.info,
        new.principal_id,
        new.run_id,
        &paths,
        &modes as &[&str],
        &hashes,
        &node_modes,
        &masks,
        entry.0,
    )
    .fetch_optional(&mut **tx)
    .await?;
    if let Some(granted) = &granted {
        note_grant(tx, granted, nodes);
        tx.note_entry();
    }
    Ok(granted)
}
