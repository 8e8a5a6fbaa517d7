//! Making one object of the parts that were uploaded: under a key that nobody was given an address for, so that what is
//! verified stays what it is.

use sha2::{Digest as _, Sha256};

use super::ImportInput;
use super::attempt::{Attempt, Sent};
use super::outcome::Failure;
use super::requests::{digest, part_size};

/// Bytes of a part fetched at once.
const READ_BYTES: u64 = 4 << 20;

/// Copies the parts, in order, into one object. Each must still be what was announced.
pub(super) fn assemble(attempt: &Attempt, input: &ImportInput) -> Result<Sent, Failure> {
    let mut outgoing = attempt.upload()?;
    let mut buffer = Vec::new();
    for (number, wanted) in input.parts.iter().enumerate() {
        let key = input.part_key(attempt.workspace(), attempt.job.id, number)?;
        let size = part_size(input, number);
        let incomplete = || {
            let detail = format!("part {number} is not what was announced");
            Failure::last("upload_incomplete", detail)
        };
        let found = match attempt.wait(attempt.archives.blobs.size(&key)) {
            Err(blob::BlobError::Absent) => return Err(incomplete()),
            found => found?,
        };
        if found != size {
            return Err(incomplete());
        }
        let (mut at, mut hash) = (0, Sha256::new());
        while at < size {
            let end = (at + READ_BYTES).min(size);
            let piece = attempt.wait(attempt.archives.blobs.read(&key, at, end))?;
            hash.update(&piece);
            buffer.extend_from_slice(&piece);
            outgoing.drain(&mut buffer)?;
            at = end;
        }
        if Some(<[u8; 32]>::from(hash.finalize())) != digest(wanted) {
            return Err(incomplete());
        }
    }
    outgoing.finish(buffer)
}
