//! Whether what a commit relies on is still as its writer saw it.

use graph::claims::{ClaimSet, Path};
use store::{Reservation, WorkspaceTx};
use tfstate::Address;
use uuid::Uuid;

use crate::EngineError;

/// Whether anything that the reservation claims, for writing or for reading, changed since its base.
///
/// While it is held nobody else can have done that: this is the second wall, for the day the first one has a hole. The base
/// moves with each of its own commits, so each looks only at what others did since the one before.
pub(super) async fn moved(
    tx: &mut WorkspaceTx,
    claims: &ClaimSet,
    held: &Reservation,
    state: Uuid,
    head_seq: i64,
) -> Result<bool, EngineError> {
    let base = held.base_seq;
    if base == head_seq {
        return Ok(false);
    }
    let touched = store::touched_between(tx, state, base, head_seq).await?;
    let mut addresses = touched.addresses.iter();
    let mut outputs = touched.outputs.iter().map(|name| Path::output(name));
    Ok(addresses.any(|address| is_claimed(claims, address))
        || outputs.any(|path| covers(claims, &path)))
}

/// What cannot be read as an address may be anything.
fn is_claimed(claims: &ClaimSet, address: &str) -> bool {
    match address.parse::<Address>() {
        Ok(address) => covers(claims, &Path::from(&address)),
        Err(_) => true,
    }
}

fn covers(claims: &ClaimSet, path: &Path) -> bool {
    claims.grants(path, graph::claims::Access::Read)
}
