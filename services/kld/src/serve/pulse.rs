//! Ends connections that send a request's head too slowly, or nothing at all for too long.
//!
//! hyper has one timeout for both. They must differ: a head is due in seconds, while balancers keep idle connections open
//! for a minute and more, and answer 502 when ours are gone by the time they use one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// How long a client may take to send a request's head, from its first byte.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may be silent in both directions while no request is being handled. Longer than the minute that
/// common balancers keep theirs.
const IDLE_TIME: Duration = Duration::from_secs(75);

/// What happens on a connection.
#[derive(Debug, Clone)]
pub(super) struct Pulse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    /// Milliseconds after `started`.
    last_byte: AtomicU64,
    /// Milliseconds after `started` at which a head began that is not complete; 0 when there is none.
    head_began: AtomicU64,
    in_flight: AtomicUsize,
    /// HTTP/2 sends control frames between requests, so bytes say nothing there; it has pings of its own.
    is_http2: AtomicBool,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            last_byte: AtomicU64::new(0),
            head_began: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
        }))
    }

    /// Notes a request whose head is complete, until the returned guard is dropped.
    pub(super) fn request(&self) -> InFlight {
        self.0.head_began.store(0, Ordering::Relaxed);
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Returns when the connection has earned its end.
    pub(super) async fn stopped(&self) {
        loop {
            // A second more or less does not matter, and there is one timer for each connection.
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.0.in_flight.load(Ordering::Relaxed) > 0 {
                continue;
            }
            let head_began = self.0.head_began.load(Ordering::Relaxed);
            let slow_head = head_began > 0 && self.since(head_began) > HEAD_TIME;
            let idle = self.since(self.0.last_byte.load(Ordering::Relaxed)) > IDLE_TIME;
            if slow_head || idle {
                return;
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, moment: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(moment))
    }

    fn received(&self, bytes: &[u8]) {
        let now = self.now().max(1);
        if self.0.last_byte.swap(now, Ordering::Relaxed) == 0 && bytes.starts_with(b"PRI ") {
            self.0.is_http2.store(true, Ordering::Relaxed);
        }
        let may_be_head = self.0.in_flight.load(Ordering::Relaxed) == 0
            && !self.0.is_http2.load(Ordering::Relaxed);
        if may_be_head {
            let _ =
                self.0
                    .head_began
                    .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn sent(&self) {
        self.0.last_byte.store(self.now().max(1), Ordering::Relaxed);
    }
}

/// A request that is being handled.
pub(super) struct InFlight(Pulse);

impl Drop for InFlight {
    fn drop(&mut self) {
        let Self(pulse) = self;
        pulse.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        pulse.sent();
    }
}

/// A stream whose bytes are noted.
pub(super) struct Watched<S> {
    stream: S,
    pulse: Pulse,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, pulse: Pulse) -> Self {
        Self { stream, pulse }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let received = &buffer.filled()[before..];
        if !received.is_empty() {
            self.pulse.received(received);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.pulse.sent();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.pulse.sent();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// After how many seconds the connection is ended, if nothing but `act` happens on it.
    async fn ended_after(act: impl AsyncFnOnce(&Pulse, &mut tokio::io::DuplexStream)) -> u64 {
        let (mut client, server) = tokio::io::duplex(1024);
        let pulse = Pulse::new();
        let mut watched = Watched::new(server, pulse.clone());
        tokio::spawn(async move { watched.read_to_end(&mut Vec::new()).await });
        let started = Instant::now();
        act(&pulse, &mut client).await;
        pulse.stopped().await;
        started.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_due_in_seconds_and_silence_may_last_longer() {
        let silent = ended_after(async |_, _| {}).await;
        assert!((75..78).contains(&silent), "{silent}");
        let slow_head = ended_after(async |_, client| {
            client.write_all(b"GET / HT").await.unwrap();
        });
        let slow_head = slow_head.await;
        assert!((10..13).contains(&slow_head), "{slow_head}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_may_take_as_long_as_it_needs_and_then_the_connection_may_idle() {
        let busy = ended_after(async |pulse, client| {
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            tokio::task::yield_now().await;
            let request = pulse.request();
            tokio::time::sleep(Duration::from_secs(200)).await;
            drop(request);
        });
        let busy = busy.await;
        assert!((275..278).contains(&busy), "{busy}");
    }

    #[tokio::test(start_paused = true)]
    async fn http2_may_send_frames_between_requests() {
        let frames = ended_after(async |_, client| {
            client
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_secs(30)).await;
            client.write_all(b"a ping").await.unwrap();
            tokio::task::yield_now().await;
        });
        let frames = frames.await;
        assert!((105..108).contains(&frames), "{frames}");
    }
}
