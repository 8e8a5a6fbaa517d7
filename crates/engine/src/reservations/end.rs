//! Ending a reservation, and what it leaves behind.

use graph::claims::{Access, ClaimSet, Path};
use locking::{Rule, holds};
use store::{End, Lane, Reservation, WorkspaceTx};

use crate::EngineError;
use crate::lock::{TERRAFORM_APPLY, lock_info};

/// Ends a reservation of either lane; false when it had ended already. The caller holds the ledger. A run that releases what it
/// holds may hold its own row instead, and rolls back where that had ended.
///
/// What a holder may have changed and did not release is marked unsettled: all that it claimed for writing, also what it
/// committed (an upload shows a create whose provisioner still runs as healthy), and whatever else its uploads changed. For a
/// lock of plain Terraform that is the whole state.
pub(crate) async fn end_held(
    tx: &mut WorkspaceTx,
    held: &Reservation,
    end: End,
    reason: &str,
) -> Result<bool, EngineError> {
    if end == End::Released {
        // Leaves nothing behind, so there is nothing to be looked at first.
        locking::point!(ReleaseBefore);
        let is_ended = store::end_reservation(tx, held.state_id, held.id, end, reason).await?;
        locking::point!(ReleaseAfter);
        return Ok(is_ended);
    }
    let Some(held) = store::lock_active(tx, held.id).await? else {
        return Ok(false);
    };
    let is_expiry = end == End::Expired;
    if is_expiry {
        locking::point!(ExpireBefore);
    } else {
        locking::point!(BreakBefore);
    }
    if may_have_applied(&held) && holds(Rule::UnsettledMarks) {
        let claims = store::find_claims(tx, &[held.id]).await?;
        let mut paths = write_paths(claims.get(&held.id));
        if let Some(run) = held.run_id {
            let left_out = store::find_left_out(tx, run).await?.unwrap_or_default();
            paths.extend(left_out_paths(&left_out));
        }
        store::mark_unsettled(tx, held.state_id, held.id, &paths, reason).await?;
    }
    let is_ended = store::end_reservation(tx, held.state_id, held.id, end, reason).await?;
    if is_expiry {
        locking::point!(ExpireAfter);
    } else {
        locking::point!(BreakAfter);
    }
    Ok(is_ended)
}

/// Whether a holder may have changed real infrastructure by now. Plain Terraform says only what it has come for.
fn may_have_applied(held: &Reservation) -> bool {
    if held.is_native() {
        return held.began_at.is_some();
    }
    held.lane == Lane::Terraform.as_str() && lock_info(held).operation == TERRAFORM_APPLY
}

/// What is claimed for writing.
fn write_paths(claims: Option<&ClaimSet>) -> Vec<Path> {
    let claims = claims.into_iter().flat_map(ClaimSet::iter);
    claims
        .filter(|(_, access)| *access == Access::Write)
        .map(|(path, _)| path.clone())
        .collect()
}

/// Reads the recorded list of addresses outside the claims.
pub(crate) fn left_out_paths(left_out: &str) -> Vec<Path> {
    let addresses: Vec<String> = serde_json::from_str(left_out).unwrap_or_default();
    addresses
        .iter()
        .filter_map(|address| address.parse().ok())
        .collect()
}
