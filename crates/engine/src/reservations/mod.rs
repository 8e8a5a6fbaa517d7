//! Native reservations: parts of a state, held under a lease.
//!
//! What excludes what is `graph::claims`' to say; the ledger is asked the same with one join. The functions here work inside
//! the transaction of a use case, which holds what the lock order wants it to hold by then.

mod end;
mod extend;
mod grant;

pub(crate) use end::{end_held, left_out_paths};
pub(crate) use extend::{extend, hold};
pub(crate) use grant::{
    Ask, clear_way, grant_at_once, in_the_way, insert, make_room, overlapping, reserve_at_once,
};

use graph::claims::{Access, Claim, ClaimSet, Path};
use protocol::scope::{ClaimMode, ScopeClaim};

use crate::EngineError;

/// Reads claims as the wire has them.
pub(crate) fn read_claims(claims: &[ScopeClaim]) -> Result<ClaimSet, EngineError> {
    let read = |claim: &ScopeClaim| {
        let path = claim
            .address
            .parse()
            .map_err(|_| EngineError::NotAClaim(claim.address.clone()))?;
        Ok(match claim.mode {
            ClaimMode::Read => Claim::read(path),
            ClaimMode::Write => Claim::write(path),
        })
    };
    let claims = claims
        .iter()
        .map(read)
        .collect::<Result<Vec<_>, EngineError>>()?;
    Ok(ClaimSet::new(claims))
}

/// Claims as the wire has them.
pub(crate) fn wire_claims(claims: &ClaimSet) -> Vec<ScopeClaim> {
    let claim = |(path, access): (&Path, Access)| ScopeClaim {
        address: path.to_string(),
        mode: match access {
            Access::Read => ClaimMode::Read,
            Access::Write => ClaimMode::Write,
        },
    };
    claims.iter().map(claim).collect()
}
