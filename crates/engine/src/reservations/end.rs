//! Ending a reservation, and what it leaves behind.

use graph::claims::{Access, ClaimSet, Path};
use locking::{Rule, holds};
use store::{End, Reservation, WorkspaceTx};

use crate::EngineError;

/// Ends a reservation of either lane; false when it had ended already. The caller holds the ledger.
///
/// What a native holder may have changed and did not release is marked unsettled: all that it claimed for writing, also what
/// it committed (an upload shows a create whose provisioner still runs as healthy), and whatever else its uploads changed.
pub(crate) async fn end_held(
    tx: &mut WorkspaceTx,
    held: &Reservation,
    end: End,
    reason: &str,
) -> Result<bool, EngineError> {
    let Some(held) = store::lock_active(tx, held.id).await? else {
        return Ok(false);
    };
    match end {
        End::Released => {
            locking::point!(ReleaseBefore);
        }
        End::Expired => {
            locking::point!(ExpireBefore);
        }
        End::Broken => {
            locking::point!(BreakBefore);
        }
    }
    let is_left_behind = held.is_native() && end != End::Released && held.began_at.is_some();
    if is_left_behind && holds(Rule::UnsettledMarks) {
        let claims = store::find_claims(tx, &[held.id]).await?;
        let mut paths = write_paths(claims.get(&held.id));
        if let Some(run) = held.run_id {
            let left_out = store::find_left_out(tx, run).await?.unwrap_or_default();
            paths.extend(left_out_paths(&left_out));
        }
        store::mark_unsettled(tx, held.state_id, held.id, &paths, reason).await?;
    }
    let is_ended = store::end_reservation(tx, held.state_id, held.id, end, reason).await?;
    match end {
        End::Released => {
            locking::point!(ReleaseAfter);
        }
        End::Expired => {
            locking::point!(ExpireAfter);
        }
        End::Broken => {
            locking::point!(BreakAfter);
        }
    }
    Ok(is_ended)
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
