//! Claims on parts of a state, and the nodes they compile to.

use std::collections::HashMap;

use graph::claims::{Claim, ClaimSet, Nodes, Path};
use uuid::Uuid;

use super::grants::note_grant;
use super::ledger::Reservation;
use crate::{Error, WorkspaceTx};

/// Replaces the claims of an active reservation by a set that grants at least as much. The caller holds the ledger and the
/// reservation, and has found no conflict.
pub async fn replace_claims(
    tx: &mut WorkspaceTx,
    held: &Reservation,
    claims: &ClaimSet,
) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM claims WHERE workspace_id = $1 AND reservation_id = $2",
        tx.workspace().as_str(),
        held.id,
    )
    .execute(&mut **tx)
    .await?;
    delete_nodes(tx, held.id).await?;
    insert_claims(tx, held.id, claims).await?;
    let nodes = claims.nodes();
    insert_nodes(tx, held.state_id, held.id, &nodes).await?;
    // To whoever follows the ledger this is one more grant.
    let granted_gen = sqlx::query_scalar!(
        r#"
            UPDATE lock_heads
            SET gen = gen + 1
            WHERE workspace_id = $1 AND state_id = $2
            RETURNING gen
        "#,
        tx.workspace().as_str(),
        held.state_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    let widened = Reservation {
        granted_gen,
        ..held.clone()
    };
    note_grant(tx, &widened, nodes);
    Ok(())
}

/// Paths and modes of claims, as the columns of an insert.
pub(super) fn claim_columns(claims: &ClaimSet) -> (Vec<String>, Vec<&'static str>) {
    claims
        .iter()
        .map(|(path, access)| (joined(path), access.as_str()))
        .unzip()
}

/// The claims whose paths and modes these are, as [`claim_columns`] has them.
pub(crate) fn claims_of_columns(paths: &[String], modes: &[String]) -> Result<ClaimSet, Error> {
    let claim = |(path, mode): (&String, &String)| {
        // The root has no segment, and an empty text would be one.
        let segments = path.split('\n').filter(|_| !path.is_empty());
        read_claim(&segments.collect::<Vec<_>>(), mode)
    };
    let claims: Result<Vec<_>, _> = paths.iter().zip(modes).map(claim).collect();
    Ok(ClaimSet::new(claims?))
}

fn read_claim<T: AsRef<str>>(segments: &[T], mode: &str) -> Result<Claim, Error> {
    let path = Path::from_texts(segments).map_err(|error| Error::impossible("claims", error))?;
    let access = mode
        .parse()
        .map_err(|error| Error::impossible("claims", error))?;
    Ok(Claim { path, access })
}

/// Hashes and modes of nodes, as the columns of an insert.
pub(super) fn node_columns(nodes: &Nodes) -> (Vec<i64>, Vec<i16>) {
    nodes
        .iter()
        .map(|node| (node.hash.get(), i16::from(node.mode.bit())))
        .unzip()
}

/// Hashes of nodes, and what excludes each.
pub(super) fn asked_columns(nodes: &Nodes) -> (Vec<i64>, Vec<i16>) {
    nodes
        .iter()
        .map(|node| (node.hash.get(), i16::from(node.mode.conflict_mask())))
        .unzip()
}

async fn insert_claims(tx: &mut WorkspaceTx, id: Uuid, claims: &ClaimSet) -> Result<(), Error> {
    let (paths, modes) = claim_columns(claims);
    sqlx::query!(
        r#"
            INSERT INTO claims (workspace_id, reservation_id, path, mode)
            SELECT $1, $2, string_to_array(u.path, E'\n'), u.mode
            FROM unnest($3::text[], $4::text[]) AS u (path, mode)
        "#,
        tx.workspace().as_str(),
        id,
        &paths,
        &modes as &[&str],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Lists of lists do not exist as arrays: joined by line feed, which no segment holds. Of the root nothing is left, which
/// splits into no segments.
pub(super) fn joined(path: &Path) -> String {
    path.to_texts().join("\n")
}

async fn insert_nodes(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
    nodes: &Nodes,
) -> Result<(), Error> {
    let (hashes, modes) = node_columns(nodes);
    sqlx::query!(
        r#"
            INSERT INTO reservation_nodes (workspace_id, state_id, node_hash, mode, reservation_id)
            SELECT $1, $2, u.hash, u.mode, $3
            FROM unnest($4::bigint[], $5::smallint[]) AS u (hash, mode)
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
        &hashes,
        &modes,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn delete_nodes(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM reservation_nodes WHERE workspace_id = $1 AND reservation_id = $2",
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The active reservations that exclude these nodes: every lock of the whole state, and each native one that shares a node
/// with a mode that excludes the one asked for. The same question as [`Nodes::conflict`]. `own` is not asked.
pub async fn list_conflicting(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    nodes: &Nodes,
    own: Option<Uuid>,
) -> Result<Vec<Uuid>, Error> {
    let (hashes, masks) = asked_columns(nodes);
    let ids = sqlx::query_scalar!(
        r#"
            SELECT n.reservation_id AS "id!"
            FROM unnest($3::bigint[], $4::smallint[]) AS asked (hash, mask)
            CROSS JOIN LATERAL (
                SELECT reservation_id
                FROM reservation_nodes
                WHERE workspace_id = $1 AND state_id = $2 AND node_hash = asked.hash AND mode & asked.mask <> 0
                OFFSET 0
            ) AS n
            WHERE n.reservation_id IS DISTINCT FROM $5
            UNION
            SELECT id
            FROM reservations
            WHERE workspace_id = $1 AND state_id = $2 AND status = 'active' AND lane <> 'native'
        "#,
        tx.workspace().as_str(),
        state_id,
        &hashes,
        &masks,
        own,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(ids)
}

/// The claims of these reservations.
pub async fn find_claims(
    tx: &mut WorkspaceTx,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, ClaimSet>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT reservation_id, path, mode
            FROM claims
            WHERE workspace_id = $1 AND reservation_id = ANY ($2)
        "#,
        tx.workspace().as_str(),
        ids,
    )
    .fetch_all(&mut **tx)
    .await?;
    let mut claims: HashMap<Uuid, Vec<Claim>> = HashMap::new();
    for row in rows {
        let list = claims.entry(row.reservation_id).or_default();
        list.push(read_claim(&row.path, &row.mode)?);
    }
    Ok(claims
        .into_iter()
        .map(|(id, claims)| (id, ClaimSet::new(claims)))
        .collect())
}
