//! What a posted document changes against the rows that live at the head. Pure.

use std::cell::Cell;
use std::cmp::Ordering;

use store::{LiveOutput, LiveRow};

/// Rows to close and rows to give birth to; indexes point into the posted document's lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub closed: Vec<Vec<u8>>,
    pub born: Vec<usize>,
    pub outputs_closed: Vec<String>,
    pub outputs_born: Vec<usize>,
}

impl Changes {
    pub(crate) fn count(&self) -> usize {
        self.closed.len().max(self.born.len())
            + self.outputs_closed.len().max(self.outputs_born.len())
    }
}

/// Compares in one walk: both sides are in document order.
pub(crate) fn compare(
    state: &tfstate::State<'_>,
    rows: &[LiveRow],
    outputs: &[LiveOutput],
) -> Changes {
    let mut changes = Changes::default();
    walk(
        state
            .instances
            .iter()
            .map(|instance| (&instance.ord[..], &instance.digest.0)),
        rows.iter().map(|row| (&row.ord[..], &row.digest)),
        |posted| changes.born.push(posted),
        |live| changes.closed.push(rows[live].ord.clone()),
    );
    walk(
        state
            .outputs
            .iter()
            .map(|output| (output.name.as_bytes(), &output.digest.0)),
        outputs
            .iter()
            .map(|output| (output.name.as_bytes(), &output.digest)),
        |posted| changes.outputs_born.push(posted),
        |live| changes.outputs_closed.push(outputs[live].name.clone()),
    );
    changes
}

/// Merges two ascending lists of (place, digest). A place on both sides with different digests is both
/// a death and a birth.
fn walk<'a>(
    posted: impl Iterator<Item = (&'a [u8], &'a [u8; 32])>,
    live: impl Iterator<Item = (&'a [u8], &'a [u8; 32])>,
    mut born: impl FnMut(usize),
    mut dead: impl FnMut(usize),
) {
    let mut posted = posted.enumerate().peekable();
    let mut live = live.enumerate().peekable();
    loop {
        let order = match (posted.peek(), live.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((_, (a, _))), Some((_, (b, _)))) => a.cmp(b),
        };
        match order {
            Ordering::Less => born(posted.next().map_or(0, |(index, _)| index)),
            Ordering::Greater => dead(live.next().map_or(0, |(index, _)| index)),
            Ordering::Equal => {
                if let (Some((new, (_, a))), Some((old, (_, b)))) = (posted.next(), live.next())
                    && a != b
                {
                    born(new);
                    dead(old);
                }
            }
        }
    }
}

/// Answers whether a live row has this place and digest. Asked in document order, as a document's
/// instances stand, it walks the list once; asked in any order it is still right.
pub(crate) struct Known<'a> {
    rows: &'a [LiveRow],
    next: Cell<usize>,
}

impl<'a> Known<'a> {
    pub(crate) fn new(rows: &'a [LiveRow]) -> Self {
        Self {
            rows,
            next: Cell::new(0),
        }
    }

    pub(crate) fn contains(&self, ord: &[u8], digest: &[u8; 32]) -> bool {
        let mut at = self.next.get();
        if at > 0 && self.rows[at - 1].ord.as_slice() >= ord {
            at = self.rows.partition_point(|row| row.ord.as_slice() < ord);
        }
        while at < self.rows.len() && self.rows[at].ord.as_slice() < ord {
            at += 1;
        }
        self.next.set(at);
        self.rows
            .get(at)
            .is_some_and(|row| row.ord == ord && row.digest == *digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ord: u8, digest: u8) -> LiveRow {
        LiveRow {
            ord: vec![ord],
            digest: [digest; 32],
        }
    }

    fn walked(posted: &[LiveRow], live: &[LiveRow]) -> (Vec<usize>, Vec<usize>) {
        let (mut born, mut dead) = (Vec::new(), Vec::new());
        walk(
            posted.iter().map(|r| (&r.ord[..], &r.digest)),
            live.iter().map(|r| (&r.ord[..], &r.digest)),
            |i| born.push(i),
            |i| dead.push(i),
        );
        (born, dead)
    }

    #[test]
    fn a_changed_row_dies_and_is_born_and_an_equal_one_is_left_alone() {
        let posted = [row(1, 1), row(2, 9), row(4, 4)];
        let live = [row(1, 1), row(2, 2), row(3, 3)];
        assert_eq!(walked(&posted, &live), (vec![1, 2], vec![1, 2]));
    }

    #[test]
    fn nothing_against_something_is_all_births_or_all_deaths() {
        let rows = [row(1, 1), row(2, 2)];
        assert_eq!(walked(&rows, &[]), (vec![0, 1], vec![]));
        assert_eq!(walked(&[], &rows), (vec![], vec![0, 1]));
    }

    #[test]
    fn known_answers_in_any_order() {
        let rows: Vec<_> = (0..20).map(|i| row(i * 2, i)).collect();
        let known = Known::new(&rows);
        for ord in [4, 5, 6, 38, 0, 39, 2, 2] {
            assert_eq!(
                known.contains(&[ord], &[ord / 2; 32]),
                ord % 2 == 0,
                "place {ord}"
            );
        }
        assert!(!known.contains(&[4], &[9; 32]));
    }
}
