//! Taking the lock of a state while a large document is on its way to it.
//!
//! The document is uploaded without a lock and at the speed of a fast network rather than of loopback, so that the upload
//! lasts long enough to be measured during. Meanwhile another client takes the lock and gives it up again, on and on, each
//! time with an id of its own, since an id that was given up is never granted anew. Both LOCK and UNLOCK are commits that
//! Postgres flushes, the same with and without the upload; only LOCKs that were answered before the last byte was handed
//! over count. The upload runs in a thread of its own: otherwise the two clients would wait for each other. Whether it is
//! accepted in the end depends on who holds the lock at that moment, and does not matter here.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::stream::{self, Stream};

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target, ms, percentile};

pub(super) const NAMES: &[&str] = &["lock_during_110mb_upload_p99"];

const ROUNDS: usize = 4;
const IDLE_SAMPLES: usize = 400;
/// 110 MB take some 3 s at this speed.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_EVERY: Duration = Duration::from_millis(7);

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let mut document = bench.documents.of_megabytes(110).await?;
    client
        .write("large", &Posted::from(document.clone()), None)
        .await?;

    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..IDLE_SAMPLES {
            idle.push(ms(take_and_give_up(&client).await?));
        }
        document = changed(&document, Change::one_percent(round))?;
        let upload = Upload::start(&stack, Posted::from(document.clone()));
        while upload.is_sending() {
            let took = take_and_give_up(&client).await?;
            if upload.is_sending() {
                busy.push(ms(took));
            }
        }
        upload.finish()?;
    }
    ensure!(
        busy.len() >= 200,
        "only {} locks during uploads",
        busy.len()
    );
    let (at_rest, loaded) = (percentile(&idle, 99), percentile(&busy, 99));
    report.ratio(
        NAMES[0],
        loaded / at_rest,
        Target::AtMost(3.0),
        &format!(
            "{loaded:.2} ms ÷ {at_rest:.2} ms; p50 {:.2} ms and {:.2} ms; {} and {} samples",
            percentile(&busy, 50),
            percentile(&idle, 50),
            busy.len(),
            idle.len()
        ),
    );
    Ok(())
}

/// How long the LOCK took.
async fn take_and_give_up(client: &Client) -> Result<Duration> {
    let id = format!("{:032x}", rand::random::<u128>());
    let began = Instant::now();
    let granted = client.lock("large", &id).await?;
    let took = began.elapsed();
    ensure!(granted, "somebody else holds the lock");
    client.unlock("large", &id).await?;
    Ok(took)
}

/// An upload on its way, in a thread of its own.
struct Upload {
    sending: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<()>>,
}

impl Upload {
    fn start(stack: &crate::stack::Stack, document: Posted) -> Self {
        let client = Client::new(stack);
        let sending = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&sending);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let sent = Arc::clone(&flag);
            let outcome =
                runtime.block_on(client.upload("large", &document, |bytes| paced(bytes, sent)));
            // Also when it failed, or the other side would wait for ever.
            flag.store(false, Ordering::Release);
            outcome
        });
        Self { sending, thread }
    }

    fn is_sending(&self) -> bool {
        self.sending.load(Ordering::Acquire)
    }

    fn finish(self) -> Result<()> {
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The document in pieces, each when its time has come. Clears the flag with the last.
fn paced(
    document: Bytes,
    sending: Arc<AtomicBool>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let ticks = tokio::time::interval(PIECE_EVERY);
    stream::unfold((document, ticks), move |(mut rest, mut ticks)| {
        let sending = Arc::clone(&sending);
        async move {
            if rest.is_empty() {
                return None;
            }
            ticks.tick().await;
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            sending.store(!rest.is_empty(), Ordering::Release);
            Some((Ok(piece), (rest, ticks)))
        }
    })
}
