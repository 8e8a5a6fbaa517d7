//! Lists and texts in pieces that copies share.
//!
//! A graph is copied for each new version of its state, and a version changes little. Of these a copy costs one count per
//! piece, and a change to it copies the piece that is changed.

use std::ops::{Deref, Index};
use std::sync::Arc;

/// A list of plain values.
#[derive(Clone, Debug)]
pub(super) struct Chunks<T> {
    /// Each of [`Self::CHUNK`] values.
    full: Vec<Arc<Vec<T>>>,
    /// The last values, fewer than a chunk: no other list has these, so that appending asks nobody.
    tail: Vec<T>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            tail: Vec::new(),
        }
    }
}

impl<T: Copy> Chunks<T> {
    /// Large enough that a large state has few of them, small enough that copying one takes a microsecond.
    const CHUNK: usize = 1 << 10;

    pub(super) fn len(&self) -> usize {
        self.full.len() * Self::CHUNK + self.tail.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let values = self.full.len() * Self::CHUNK + self.tail.capacity();
        values * size_of::<T>() + self.full.capacity() * size_of::<Arc<Vec<T>>>()
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        match self.full.get(index / Self::CHUNK) {
            Some(chunk) => chunk.get(index % Self::CHUNK),
            None => self.tail.get(index - self.full.len() * Self::CHUNK),
        }
    }

    /// The place of a value. Copies its chunk if another list has that, too.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let before_tail = self.full.len() * Self::CHUNK;
        match self.full.get_mut(index / Self::CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).get_mut(index % Self::CHUNK),
            None => self.tail.get_mut(index - before_tail),
        }
    }

    /// Puts a value where another one is.
    pub(super) fn set(&mut self, index: usize, value: T) {
        if let Some(place) = self.get_mut(index) {
            *place = value;
        }
    }

    pub(super) fn push(&mut self, value: T) {
        self.tail.push(value);
        if self.tail.len() == Self::CHUNK {
            self.full.push(Arc::new(std::mem::take(&mut self.tail)));
        }
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.tail.last().or_else(|| self.full.last()?.last())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let full = self.full.iter().flat_map(|chunk| chunk.iter());
        full.chain(&self.tail)
    }
}

impl<T: Copy> Index<usize> for Chunks<T> {
    type Output = T;

    /// # Panics
    ///
    /// Where there is no such value, as a slice does.
    fn index(&self, index: usize) -> &T {
        match self.full.get(index / Self::CHUNK) {
            Some(chunk) => &chunk[index % Self::CHUNK],
            None => &self.tail[index - self.full.len() * Self::CHUNK],
        }
    }
}

/// What spans of an [`Arena`] lie in.
pub(super) trait Buffer: Clone + Default + Deref {
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn append(&mut self, span: &Self::Target);
    /// The part of `len` that begins at `start`, which must be one that was appended.
    fn part(&self, start: usize, len: usize) -> &Self::Target;
    fn len_of(span: &Self::Target) -> usize;
}

/// Where a span lies in an arena.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    pub(super) fn len(self) -> usize {
        self.len as usize
    }
}

/// Spans of one kind, appended one after the other and never changed.
#[derive(Clone, Debug)]
pub(super) struct Arena<B> {
    /// Each counts for [`Self::CHUNK`] in the numbers of places. A span never lies in two of them: one that does not fit
    /// into what is left of a chunk begins the next, and one that is larger than a chunk has one of its own, followed by as
    /// many empty ones as it counts for.
    full: Vec<Arc<B>>,
    tail: B,
}

impl<B: Default> Default for Arena<B> {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            tail: B::default(),
        }
    }
}

impl<B: Buffer> Arena<B> {
    const CHUNK: usize = 1 << 14;

    pub(super) fn size_bytes(&self, item: usize) -> usize {
        let full: usize = self.full.iter().map(|chunk| chunk.capacity()).sum();
        (full + self.tail.capacity()) * item + self.full.capacity() * size_of::<Arc<B>>()
    }

    pub(super) fn get(&self, span: Span) -> &B::Target {
        let (chunk, start) = (
            span.start as usize / Self::CHUNK,
            span.start as usize % Self::CHUNK,
        );
        let chunk = self.full.get(chunk).map_or(&self.tail, |chunk| chunk);
        chunk.part(start, span.len as usize)
    }

    /// Appends a span; `None` when there are more of them than can be numbered.
    pub(super) fn append(&mut self, span: &B::Target) -> Option<Span> {
        let len = B::len_of(span);
        if self.tail.len() > 0 && self.tail.len() + len > Self::CHUNK {
            self.close_tail();
        }
        let start = self.full.len() * Self::CHUNK + self.tail.len();
        let placed = Span {
            start: u32::try_from(start).ok()?,
            len: u32::try_from(len).ok()?,
        };
        self.tail.append(span);
        // A tail that is full to the brim would be mistaken for the next chunk.
        if self.tail.len() >= Self::CHUNK {
            self.close_tail();
        }
        Some(placed)
    }

    fn close_tail(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        let counts_for = tail.len().div_ceil(Self::CHUNK);
        self.full.push(Arc::new(tail));
        let empty = Arc::new(B::default());
        self.full
            .extend((1..counts_for).map(|_| Arc::clone(&empty)));
    }
}

impl Buffer for String {
    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn append(&mut self, span: &str) {
        self.push_str(span);
    }

    fn part(&self, start: usize, len: usize) -> &str {
        &self[start..][..len]
    }

    fn len_of(span: &str) -> usize {
        span.len()
    }
}

impl<T: Copy> Buffer for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn append(&mut self, span: &[T]) {
        self.extend_from_slice(span);
    }

    fn part(&self, start: usize, len: usize) -> &[T] {
        &self[start..][..len]
    }

    fn len_of(span: &[T]) -> usize {
        span.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, Chunks};

    #[test]
    fn a_list_is_what_a_vector_is_and_its_copies_stay_as_they_were() {
        let mut list = Chunks::default();
        let mut same = Vec::new();
        let mut copies = Vec::new();
        for number in 0..5_000_usize {
            list.push(number);
            same.push(number);
            let place = number * 7_919 % same.len();
            list.set(place, number + 1_000_000);
            same[place] = number + 1_000_000;
            // Also where a chunk is just full, just begun and one short.
            if number % 341 == 0 || number % 1_024 < 2 || number % 1_024 == 1_023 {
                copies.push((list.clone(), same.clone()));
            }
        }
        copies.push((list, same));
        for (list, same) in copies {
            assert_eq!(list.len(), same.len());
            assert!(list.iter().eq(&same));
            assert_eq!(list.last(), same.last());
            assert!((0..=same.len()).all(|place| list.get(place) == same.get(place)));
        }
    }

    #[test]
    fn spans_of_every_length_are_found_again_in_every_copy() {
        let mut arena = Arena::<String>::default();
        let mut placed = Vec::new();
        let lengths = [
            0, 1, 16_383, 0, 16_384, 16_385, 3, 0, 50_000, 1, 32_768, 0, 9_000, 9_000,
        ];
        let mut before = arena.clone();
        for (number, len) in lengths.into_iter().cycle().take(100).enumerate() {
            let text = char::from(b'a' + (number % 26) as u8)
                .to_string()
                .repeat(len);
            let span = arena.append(&text).unwrap();
            placed.push((span, text));
            if number == 50 {
                before = arena.clone();
                before.append("a span of its own").unwrap();
            }
        }
        for (number, (span, text)) in placed.iter().enumerate() {
            assert_eq!(arena.get(*span), text, "{number}");
            if number <= 50 {
                assert_eq!(before.get(*span), text, "{number}");
            }
        }
    }
}
