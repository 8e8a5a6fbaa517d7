//! Where rendered text goes: appended to a buffer, or compared with text that is already there.

/// Takes text piece by piece. `false` means: stop, nothing more is wanted.
pub(crate) trait Sink {
    fn piece(&mut self, piece: &[u8]) -> bool;
}

impl Sink for Vec<u8> {
    fn piece(&mut self, piece: &[u8]) -> bool {
        self.extend_from_slice(piece);
        true
    }
}

/// Appends up to a number of bytes.
pub(crate) struct Bounded<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) room: usize,
}

impl Sink for Bounded<'_> {
    fn piece(&mut self, piece: &[u8]) -> bool {
        if piece.len() > self.room {
            return false;
        }
        self.room -= piece.len();
        self.out.extend_from_slice(piece);
        true
    }
}

/// Compares what is rendered with `rest`, allocating nothing.
pub(crate) struct Comparer<'a> {
    pub(crate) rest: &'a [u8],
}

impl Sink for Comparer<'_> {
    fn piece(&mut self, piece: &[u8]) -> bool {
        let Some((there, rest)) = self.rest.split_at_checked(piece.len()) else {
            return false;
        };
        // A span compared with itself in place is equal without a look at its bytes.
        if !std::ptr::eq(piece.as_ptr(), there.as_ptr()) && piece != there {
            return false;
        }
        self.rest = rest;
        true
    }
}
