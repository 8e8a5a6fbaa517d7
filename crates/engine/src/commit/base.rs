//! Whether what a commit relies on is still as its writer saw it.

use graph::claims::{Access, ClaimSet, Path};
use store::Touched;
use tfstate::Address;

/// Whether anything that the reservation claims, for writing or for reading, is among what changed since its base.
///
/// While it is held nobody else can have done that: this is the second wall, for the day the first one has a hole. The base
/// moves with each of its own commits, so each looks only at what others did since the one before.
pub(super) fn moved(claims: &ClaimSet, touched: &Touched) -> bool {
    let mut addresses = touched.addresses.iter();
    let mut outputs = touched.outputs.iter().map(|name| Path::output(name));
    addresses.any(|address| is_claimed(claims, address))
        || outputs.any(|path| covers(claims, &path))
}

/// What cannot be read as an address may be anything.
fn is_claimed(claims: &ClaimSet, address: &str) -> bool {
    match address.parse::<Address>() {
        Ok(address) => covers(claims, &Path::from(&address)),
        Err(_) => true,
    }
}

fn covers(claims: &ClaimSet, path: &Path) -> bool {
    claims.grants(path, Access::Read)
}
