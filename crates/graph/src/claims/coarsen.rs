//! Makes a large set of claims small: covering prefixes instead of many single claims.

use std::collections::{BTreeMap, BinaryHeap};

use super::{Access, Path, Segment};

/// Most nodes a reservation may have, ancestors and root included. The ledger writes them in one
/// statement, and the index checks them in one script.
pub const MAX_NODES: usize = 4_096;

/// Replaces claims by claims on covering paths until the set compiles to at most [`MAX_NODES`] nodes.
/// Wider is always safe. Returns the claims and the paths that now stand for several.
///
/// Where many claims share a parent, one claim on the parent saves most: that is done first, so that
/// ten thousand keys of one resource do not widen the claims on anything else. The root comes last.
pub(super) fn coarsen(claims: BTreeMap<Path, Access>) -> (BTreeMap<Path, Access>, Vec<Path>) {
    let mut tree = Tree::of(&claims);
    if tree.alive <= MAX_NODES {
        return (claims, Vec::new());
    }
    let mut candidates: BinaryHeap<Candidate> = (1..tree.nodes.len())
        .filter_map(|node| tree.candidate(node))
        .collect();
    let mut collapsed = Vec::new();
    while tree.alive > MAX_NODES {
        let node = candidates.pop().map_or(ROOT, |best| best.node);
        tree.collapse(node);
        collapsed.push(node);
        if node == ROOT {
            break;
        }
        candidates.extend(tree.candidate(tree.nodes[node].parent));
    }
    let covering = collapsed.into_iter().map(|node| tree.path(node)).collect();
    (tree.claims(), covering)
}

const ROOT: usize = 0;

struct Tree<'a> {
    nodes: Vec<TreeNode<'a>>,
    alive: usize,
}

struct TreeNode<'a> {
    parent: usize,
    segment: Option<&'a Segment>,
    depth: usize,
    claim: Option<Access>,
    children: Vec<usize>,
    alive: bool,
}

/// A node whose children are all leaves. The greatest is collapsed first: most children, then
/// deepest, then first in path order, which is the order of numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    children: usize,
    depth: usize,
    order: std::cmp::Reverse<usize>,
    node: usize,
}

impl<'a> Tree<'a> {
    /// Claims come in path order, so each new path shares a prefix with the one before it.
    fn of(claims: &'a BTreeMap<Path, Access>) -> Self {
        let root = TreeNode {
            parent: ROOT,
            segment: None,
            depth: 0,
            claim: None,
            children: Vec::new(),
            alive: true,
        };
        let mut nodes = vec![root];
        let mut trail = vec![ROOT];
        for (path, access) in claims {
            let segments = path.segments();
            let shared = trail[1..]
                .iter()
                .zip(segments)
                .take_while(|(node, segment)| nodes[**node].segment == Some(segment))
                .count();
            trail.truncate(shared + 1);
            for segment in &segments[shared..] {
                let parent = trail[trail.len() - 1];
                let node = nodes.len();
                nodes.push(TreeNode {
                    parent,
                    segment: Some(segment),
                    depth: trail.len(),
                    claim: None,
                    children: Vec::new(),
                    alive: true,
                });
                nodes[parent].children.push(node);
                trail.push(node);
            }
            nodes[trail[trail.len() - 1]].claim = Some(*access);
        }
        let alive = nodes.len();
        Self { nodes, alive }
    }

    /// `node` as a candidate, unless it is the root, a leaf, or above something that is no leaf.
    fn candidate(&self, node: usize) -> Option<Candidate> {
        let children = &self.nodes[node].children;
        let is_leaf = |child: &usize| self.nodes[*child].children.is_empty();
        let fits = node != ROOT && !children.is_empty() && children.iter().all(is_leaf);
        fits.then(|| Candidate {
            children: children.len(),
            depth: self.nodes[node].depth,
            order: std::cmp::Reverse(node),
            node,
        })
    }

    /// Makes `node` a leaf that claims all that was claimed at or beneath it.
    fn collapse(&mut self, node: usize) {
        let mut access = self.nodes[node].claim;
        let mut beneath = std::mem::take(&mut self.nodes[node].children);
        while let Some(child) = beneath.pop() {
            let child = &mut self.nodes[child];
            access = access.max(child.claim);
            child.alive = false;
            beneath.append(&mut child.children);
            self.alive -= 1;
        }
        self.nodes[node].claim = access;
    }

    fn path(&self, node: usize) -> Path {
        let mut segments = Vec::new();
        let mut at = &self.nodes[node];
        while let Some(segment) = at.segment {
            segments.push(segment.clone());
            at = &self.nodes[at.parent];
        }
        segments.reverse();
        Path(segments)
    }

    fn claims(&self) -> BTreeMap<Path, Access> {
        let claimed = |(index, node): (usize, &TreeNode<'_>)| {
            let access = node.claim.filter(|_| node.alive)?;
            Some((self.path(index), access))
        };
        self.nodes.iter().enumerate().filter_map(claimed).collect()
    }
}
