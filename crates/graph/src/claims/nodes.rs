//! Compiled claims: nodes with modes, and the conflict check on them.

use std::collections::BTreeMap;

use super::hash::NodeHasher;
use super::{Access, NodeHash, NodeMode, Path};

/// One node of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Node {
    pub hash: NodeHash,
    pub mode: NodeMode,
}

/// The nodes of a reservation: every claimed path in S or X and every ancestor with the intention
/// that matches, each hash once, in ascending order of hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nodes(Vec<Node>);

impl Nodes {
    pub(super) fn compile<'a>(claims: impl IntoIterator<Item = (&'a Path, Access)>) -> Self {
        let mut modes: BTreeMap<NodeHash, NodeMode> = BTreeMap::new();
        let mut note = |hash, mode: NodeMode| {
            modes
                .entry(hash)
                .and_modify(|known| *known = known.join(mode))
                .or_insert(mode);
        };
        for (path, access) in claims {
            let mut hasher = NodeHasher::root();
            for segment in path.segments() {
                note(hasher.hash(), access.intention());
                hasher.push(segment);
            }
            note(hasher.hash(), access.mode());
        }
        let node = |(hash, mode)| Node { hash, mode };
        Self(modes.into_iter().map(node).collect())
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Node> {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mode of the node with this hash, if there is one.
    pub fn mode(&self, hash: NodeHash) -> Option<NodeMode> {
        let place = self.0.binary_search_by_key(&hash, |node| node.hash).ok()?;
        Some(self.0[place].mode)
    }

    /// Whether a node held by someone else conflicts with these nodes.
    pub fn conflicts_with(&self, held: Node) -> bool {
        self.mode(held.hash)
            .is_some_and(|mode| held.mode.conflicts_with(mode))
    }

    /// The conflict function: whether two reservations may not live side by side.
    pub fn conflict(&self, other: &Self) -> bool {
        let (few, many) = if self.len() <= other.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.iter().any(|node| many.conflicts_with(node))
    }
}
