//! `kl export state` and `kl import archive`: archives on their way out and in, each able to go on where it broke off.

mod export;
mod import;

use sha2::{Digest as _, Sha256};

pub(super) use export::{Saved, download, export};
pub(super) use import::import;

/// Transfers that got nowhere in a row, after which the network is to blame.
const VAIN_TRIES: u32 = 5;

/// The pause before a transfer is tried again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(300);

struct HashSink<'a>(&'a mut Sha256);

impl std::io::Write for HashSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
