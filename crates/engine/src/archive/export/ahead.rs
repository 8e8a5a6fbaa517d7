//! Reading ahead: tasks that fetch what is written next, so that the database and the thread that writes do not wait for
//! each other. What they hold is bounded by the channels between them.

use store::{ChangesOfVersion, Version, VersionSpan};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::Export;
use crate::archive::outcome::Failure;
use crate::read::Rendering;
use crate::{Engine, EngineError};

/// Bytes of new rows and outputs that are read at once.
const BATCH_BYTES: i64 = 4 << 20;

/// A version whose new rows and outputs have more bytes than this is written whole: both sides hold a delta in memory.
const LARGEST_DELTA_BYTES: i64 = 16 << 20;

/// Pages of a document that wait to be written.
const PAGES_AHEAD: usize = 2;

/// A version that is to be written as what it changed, or whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) seq: i64,
    pub(super) whole: bool,
}

/// What some versions changed, in their order.
pub(super) struct ChangesAhead {
    receiver: Receiver<Result<Batch, EngineError>>,
    batch: std::vec::IntoIter<(i64, ChangesOfVersion)>,
    _task: AbortOnDropHandle<()>,
}

type Batch = Vec<(i64, ChangesOfVersion)>;

/// A document, page by page.
pub(super) struct PagesAhead {
    receiver: Receiver<Result<Page, EngineError>>,
    /// `None` after its end.
    task: Option<AbortOnDropHandle<()>>,
    handle: Handle,
}

/// Some of a document.
pub(super) struct Page {
    pub(super) text: Vec<u8>,
    /// The places of its rows.
    pub(super) places: Vec<Vec<u8>>,
}

/// Where the tasks read.
struct Source {
    engine: Engine,
    workspace: protocol::WorkspaceId,
    state: Uuid,
}

impl Export<'_> {
    fn source(&self) -> Source {
        Source {
            engine: self.attempt.archives.engine.clone(),
            workspace: self.attempt.workspace().clone(),
            state: self.state,
        }
    }

    /// Begins to read what these versions changed, but for those that are written whole. `before` is the version in front
    /// of the first one, if there is one.
    pub(super) fn changes_ahead(&self, before: Option<i64>, planned: &[Planned]) -> ChangesAhead {
        let spans = spans(before, planned);
        let source = self.source();
        let (sender, receiver) = channel(1);
        let task = self.attempt.handle.spawn(async move {
            for (before, seqs) in spans {
                if let Err(error) = source.read_span(before, &seqs, &sender).await {
                    // Whoever reads has gone, or hears it.
                    let _ = sender.send(Err(error)).await;
                    return;
                }
            }
        });
        ChangesAhead {
            receiver,
            batch: Vec::new().into_iter(),
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Begins to render a version that has rows.
    pub(super) fn pages_ahead(&self, version: &Version) -> PagesAhead {
        let source = self.source();
        let version = version.clone();
        let (sender, receiver) = channel(PAGES_AHEAD);
        let task = self.attempt.handle.spawn(async move {
            if let Err(error) = source.render(&version, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        PagesAhead {
            receiver,
            task: Some(AbortOnDropHandle::new(task)),
            handle: self.attempt.handle.clone(),
        }
    }
}

impl ChangesAhead {
    /// What a version changed; `None` where it must be written whole. Versions are asked for in their order.
    pub(super) fn of(&mut self, seq: i64) -> Result<Option<ChangesOfVersion>, Failure> {
        loop {
            match self.batch.as_slice().first() {
                Some((ahead, _)) if *ahead > seq => return Ok(None),
                Some((ahead, _)) if *ahead == seq => {
                    return Ok(self.batch.next().map(|(_, changes)| changes));
                }
                Some(_) => _ = self.batch.next(),
                None => match self.receiver.blocking_recv() {
                    Some(batch) => self.batch = batch?.into_iter(),
                    None => return Ok(None),
                },
            }
        }
    }
}

impl PagesAhead {
    /// The next page; `None` after the last, when the document is proven.
    pub(super) fn next(&mut self) -> Result<Option<Page>, Failure> {
        let page = self.receiver.blocking_recv().transpose()?;
        if page.is_none()
            && let Some(task) = self.task.take()
        {
            // Pages that a panic left out are no damage of the state. What it says may hold data; where it was is in the log.
            let panicked = |_| Failure::Passing("the rendering panicked".to_owned());
            self.handle.block_on(task).map_err(panicked)?;
        }
        Ok(page)
    }
}

impl Source {
    /// Reads the changes of versions that follow each other, some at once.
    async fn read_span(
        &self,
        before: i64,
        seqs: &[i64],
        sender: &Sender<Result<Batch, EngineError>>,
    ) -> Result<(), EngineError> {
        let last = seqs.last().copied().unwrap_or(before);
        let mut tx = self.engine.db.begin_read(&self.workspace).await?;
        let sizes = store::born_bytes(&mut tx, self.state, before, last).await?;
        tx.commit().await?;
        for span in batches(before, seqs, &sizes) {
            let mut tx = self.engine.db.begin_read(&self.workspace).await?;
            let changes = store::changes_of_versions(&mut tx, self.state, span).await?;
            tx.commit().await?;
            let batch = span.seqs.iter().copied().zip(changes).collect();
            if sender.send(Ok(batch)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn render(
        &self,
        version: &Version,
        sender: &Sender<Result<Page, EngineError>>,
    ) -> Result<(), EngineError> {
        let mut tx = self.engine.db.begin_read(&self.workspace).await?;
        let mut rendering = Rendering::start(&mut tx, self.state, version).await?;
        tx.commit().await?;
        loop {
            let (mut text, mut places) = (Vec::new(), Vec::new());
            let mut tx = self.engine.db.begin_read(&self.workspace).await?;
            let more = rendering
                .next_page_with(&mut tx, &mut text, |ord| places.push(ord.to_vec()))
                .await?;
            tx.commit().await?;
            if sender.send(Ok(Page { text, places })).await.is_err() || !more {
                return Ok(());
            }
        }
    }
}

/// Versions that follow each other and are not written whole, each time with the one before them.
fn spans(before: Option<i64>, planned: &[Planned]) -> Vec<(i64, Vec<i64>)> {
    let mut spans: Vec<(i64, Vec<i64>)> = Vec::new();
    let mut before = before;
    let mut is_open = false;
    for version in planned {
        if let (false, Some(before)) = (version.whole, before) {
            match spans.last_mut() {
                Some((_, seqs)) if is_open => seqs.push(version.seq),
                _ => spans.push((before, vec![version.seq])),
            }
        }
        is_open = !version.whole && before.is_some();
        before = Some(version.seq);
    }
    spans
}

/// Cuts a span so that each part has about as many new bytes as are read at once. Versions that bring too many for
/// a delta are left out.
fn batches<'a>(before: i64, seqs: &'a [i64], sizes: &[(i64, i64)]) -> Vec<VersionSpan<'a>> {
    let mut bytes = vec![0_i64; seqs.len()];
    for (born, size) in sizes {
        if let Some(bytes) = bytes.get_mut(seqs.partition_point(|seq| seq < born)) {
            *bytes += size;
        }
    }
    let before_of = |at: usize| at.checked_sub(1).map_or(before, |at| seqs[at]);
    let mut parts = Vec::new();
    let (mut from, mut held) = (0, 0);
    let mut cut = |from: usize, until: usize| {
        if from < until {
            parts.push(VersionSpan {
                before: before_of(from),
                seqs: &seqs[from..until],
            });
        }
    };
    for (at, size) in bytes.into_iter().enumerate() {
        if size > LARGEST_DELTA_BYTES {
            cut(from, at);
            (from, held) = (at + 1, 0);
        } else if held > 0 && held + size > BATCH_BYTES {
            cut(from, at);
            (from, held) = (at, size);
        } else {
            held += size;
        }
    }
    cut(from, seqs.len());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(versions: &[(i64, bool)]) -> Vec<Planned> {
        let planned = |(seq, whole): &(i64, bool)| Planned {
            seq: *seq,
            whole: *whole,
        };
        versions.iter().map(planned).collect()
    }

    #[test]
    fn a_version_that_is_written_whole_ends_a_span_and_stands_before_the_next() {
        let versions = planned(&[(1, true), (2, false), (3, false), (5, true), (6, false)]);
        assert_eq!(spans(None, &versions), [(1, vec![2, 3]), (5, vec![6])]);
    }

    #[test]
    fn a_page_goes_on_behind_the_last_version_of_the_page_before() {
        let versions = planned(&[(8, false), (9, false)]);
        assert_eq!(spans(Some(7), &versions), [(7, vec![8, 9])]);
    }

    #[test]
    fn without_a_version_before_it_there_is_nothing_to_compare_with() {
        assert_eq!(spans(None, &planned(&[(4, false)])), []);
    }

    #[test]
    fn a_batch_ends_where_it_would_become_too_large() {
        let half = BATCH_BYTES / 2 + 1;
        let sizes = [(2, half), (3, half), (4, 1)];
        let part = |before, seqs| VersionSpan { before, seqs };
        assert_eq!(
            batches(1, &[2, 3, 4], &sizes),
            [part(1, &[2][..]), part(2, &[3, 4])]
        );
    }

    #[test]
    fn a_version_that_is_too_large_for_a_delta_is_in_no_batch() {
        let sizes = [(3, LARGEST_DELTA_BYTES + 1)];
        let part = |before, seqs| VersionSpan { before, seqs };
        assert_eq!(
            batches(1, &[2, 3, 4], &sizes),
            [part(1, &[2][..]), part(3, &[4])]
        );
    }
}
