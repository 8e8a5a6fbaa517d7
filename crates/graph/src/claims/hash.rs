//! The number a node is known by in ledgers and indexes.

use std::fmt;

use sha2::{Digest as _, Sha256};
use tfstate::{Key, Mode};

use super::{Path, Segment};

/// Distinguishes these hashes from any other use of SHA-256, and names their layout. Ledgers of all
/// running replicas must agree on it, so it never changes without a new column.
const DOMAIN: &[u8] = b"kilolock claim node 1\n";

/// The hash of a path: the first eight bytes of a SHA-256, as the signed number a database stores.
///
/// Two paths of one hash would conflict although they do not overlap. That is a needless wait and
/// never a lost exclusion, and at 64 bits it does not happen by accident.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeHash(i64);

impl NodeHash {
    pub fn of(path: &Path) -> Self {
        let mut hasher = NodeHasher::root();
        for segment in path.segments() {
            hasher.push(segment);
        }
        hasher.hash()
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for NodeHash {
    fn from(stored: i64) -> Self {
        Self(stored)
    }
}

impl fmt::Display for NodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hashes a path segment by segment, so that all ancestors of a path cost one pass.
#[derive(Clone)]
pub(super) struct NodeHasher(Sha256);

impl NodeHasher {
    pub(super) fn root() -> Self {
        Self(Sha256::new_with_prefix(DOMAIN))
    }

    /// Every segment is self-delimiting: no two sequences of segments feed the same bytes.
    pub(super) fn push(&mut self, segment: &Segment) {
        match segment {
            Segment::Module(name) => {
                self.0.update(b"m");
                self.text(name);
            }
            Segment::Key(Key::Int(number)) => {
                self.0.update(b"i");
                self.0.update(number.to_be_bytes());
            }
            Segment::Key(Key::Str(text)) => {
                self.0.update(b"s");
                self.text(text);
            }
            Segment::Resource { mode, kind, name } => {
                self.0.update(match mode {
                    Mode::Managed => b"r",
                    Mode::Data => b"d",
                });
                self.text(kind);
                self.text(name);
            }
            Segment::Output(name) => {
                self.0.update(b"o");
                self.text(name);
            }
        }
    }

    /// The hash of what has been pushed so far.
    pub(super) fn hash(&self) -> NodeHash {
        let digest = self.0.clone().finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        NodeHash(i64::from_be_bytes(first))
    }

    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }
}
