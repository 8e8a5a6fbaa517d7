//! What changed from one version's rows to the next's.

use std::cmp::Ordering;

use tfstate::Digest;

/// The changes a version brought, as whoever stores versions as rows needs them: rows that ended
/// and rows that began. A changed row does both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Places of instance rows that ended, ascending.
    pub closed: Vec<Box<[u8]>>,
    /// Indexes into the version's [`State::instances`](tfstate::State), ascending.
    pub born: Vec<usize>,
    /// Names of outputs that ended, ascending.
    pub outputs_closed: Vec<String>,
    /// Indexes into the version's [`State::outputs`](tfstate::State), ascending.
    pub outputs_born: Vec<usize>,
}

/// Merges two lists of (place, digest), both ascending by place.
pub(crate) fn walk<'a>(
    new: impl Iterator<Item = (&'a [u8], Digest)>,
    old: impl Iterator<Item = (&'a [u8], Digest)>,
    mut born: impl FnMut(usize),
    mut closed: impl FnMut(usize),
) {
    let mut new = new.enumerate().peekable();
    let mut old = old.enumerate().peekable();
    loop {
        let order = match (new.peek(), old.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((_, (a, _))), Some((_, (b, _)))) => a.cmp(b),
        };
        let came = (order != Ordering::Greater).then(|| new.next()).flatten();
        let went = (order != Ordering::Less).then(|| old.next()).flatten();
        if let (Some((_, (_, a))), Some((_, (_, b)))) = (&came, &went)
            && a == b
        {
            continue;
        }
        if let Some((index, _)) = came {
            born(index);
        }
        if let Some((index, _)) = went {
            closed(index);
        }
    }
}
