//! Free loopback ports for services that cannot pick one themselves and tell us.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Result, bail};
use rand::RngExt as _;

/// Below the range that Linux takes for outgoing connections (32768 and up): a busy test could otherwise be given our
/// port as its source port in the moment between our look and the service's bind, or while a killed replica is down.
const RANGE: Range<u16> = 20_000..32_000;

/// More tries than a machine has listeners; reaching it means that binding fails for another reason.
const TRIES: u32 = 1_000;

/// Hands out each port once. Concurrent stacks start from random places, so they rarely meet; one that does lose a
/// port in the short gap fails to start with "address in use", visibly.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    taken: HashSet<u16>,
}

impl Ports {
    pub(crate) fn take(&mut self) -> Result<u16> {
        for _ in 0..TRIES {
            let port = rand::rng().random_range(RANGE);
            if self.taken.insert(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(port);
            }
        }
        bail!(
            "no free loopback port between {} and {}",
            RANGE.start,
            RANGE.end
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_handed_out_once() {
        let mut ports = Ports::default();
        let (first, second) = (ports.take().unwrap(), ports.take().unwrap());
        assert_ne!(first, second);
        assert!(RANGE.contains(&first) && RANGE.contains(&second));
    }
}
