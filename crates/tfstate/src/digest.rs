//! Digests: SHA-256 of one row, and a sum over rows that follows a change in O(change).

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The digest of an instance row: SHA-256(SHA-256(block text) ‖ body).
///
/// `block` is the digest of the block text, computed once per block, so that a block of a
/// thousand instances does not hash its text a thousand times. A shell has an empty body.
pub fn instance_digest(block: &Digest, body: &[u8]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(block.0);
    hash.update(body);
    Digest(hash.finalize().into())
}

/// The digest of an output row: SHA-256("output\0" ‖ SHA-256(name token) ‖ body).
///
/// The prefix keeps an output from ever having the digest of an instance with the same bytes.
pub fn output_digest(name_token: &[u8], body: &[u8]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"output\0");
    hash.update(Digest::of(name_token).0);
    hash.update(body);
    Digest(hash.finalize().into())
}

/// The sum of row digests modulo 2^256: independent of their order, and a commit that changes
/// three rows updates it with three subtractions and three additions.
///
/// It detects lost and damaged rows. It is no defence against someone who may choose the rows:
/// sums of digests can be made to collide, which the SHA-256 of a version cannot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RowsDigest([u64; 4]);

impl RowsDigest {
    /// The digest of no rows.
    pub const ZERO: Self = Self([0; 4]);

    /// Counts a row in.
    pub fn add(&mut self, row: Digest) {
        let mut carry = false;
        for (sum, term) in self.0.iter_mut().zip(limbs(&row.0)) {
            (*sum, carry) = sum.carrying_add(term, carry);
        }
    }

    /// Counts a row out; the inverse of [`RowsDigest::add`].
    pub fn remove(&mut self, row: Digest) {
        let mut borrow = false;
        for (sum, term) in self.0.iter_mut().zip(limbs(&row.0)) {
            (*sum, borrow) = sum.borrowing_sub(term, borrow);
        }
    }

    /// The sum as 32 bytes, least significant first.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (place, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// The inverse of [`RowsDigest::to_bytes`].
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(limbs(&bytes))
    }
}

impl FromIterator<Digest> for RowsDigest {
    fn from_iter<I: IntoIterator<Item = Digest>>(rows: I) -> Self {
        let mut sum = Self::ZERO;
        rows.into_iter().for_each(|row| sum.add(row));
        sum
    }
}

impl fmt::Debug for RowsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsDigest({})", Digest(self.to_bytes()))
    }
}

fn limbs(bytes: &[u8; 32]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*chunk);
    }
    limbs
}
