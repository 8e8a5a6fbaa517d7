//! The places of the current version's rows, in order: what gives a row its position.
//!
//! The writer holds these and nothing else of a document, so an export needs some tens of bytes a
//! row whatever the rows weigh.

use std::sync::Arc;

/// Places, ascending.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Vec<Box<[u8]>>>);

impl Places {
    /// Adds the last place; `false` when it does not follow.
    pub(crate) fn push(&mut self, ord: &[u8]) -> bool {
        let follows = self.0.last().is_none_or(|last| **last < *ord);
        if follows {
            Arc::make_mut(&mut self.0).push(ord.into());
        }
        follows
    }

    /// The position of a place, or where it would be inserted.
    pub(crate) fn find(&self, ord: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|place| (**place).cmp(ord))
    }

    /// The places without those at `removed`, and with new ones before the positions named; both
    /// ascending.
    pub(crate) fn changed(&self, removed: &[usize], inserted: Vec<(usize, Box<[u8]>)>) -> Self {
        if removed.is_empty() && inserted.is_empty() {
            return self.clone();
        }
        let mut places = Vec::with_capacity(self.0.len() + inserted.len() - removed.len());
        let (mut removed, mut inserted) =
            (removed.iter().peekable(), inserted.into_iter().peekable());
        for (at, place) in self.0.iter().enumerate() {
            while let Some((_, new)) = inserted.next_if(|(before, _)| *before <= at) {
                places.push(new);
            }
            if removed.next_if(|gone| **gone == at).is_none() {
                places.push(place.clone());
            }
        }
        places.extend(inserted.map(|(_, new)| new));
        Self(Arc::new(places))
    }
}
