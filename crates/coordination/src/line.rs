//! One connection that all requests of a process share.
//!
//! It carries many questions at a time, so nobody has to borrow it for himself; a pool would also ask each connection for a
//! sign of life before it lends it out, which doubles the round trips. That one is dead shows when it is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_redis::PoolError;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::task::AbortHandle;

use crate::servers::NoAnswer;

/// A connection on its way.
pub(crate) type Opening<C> = BoxFuture<'static, Result<C, PoolError>>;
type Opened<C> = Shared<BoxFuture<'static, Result<Kept<C>, Arc<PoolError>>>>;

/// The connection, if there is one.
pub(crate) struct Line<C>(Arc<Inner<C>>);

struct Inner<C> {
    kept: Mutex<Option<Kept<C>>>,
    /// One is opened at a time, and everybody waits for that.
    opening: Mutex<Option<(AbortHandle, Opened<C>)>>,
}

struct Kept<C> {
    connection: C,
    since: Instant,
    /// Tells a connection from its successor.
    identity: Arc<()>,
}

impl<C: Clone> Clone for Kept<C> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            since: self.since,
            identity: Arc::clone(&self.identity),
        }
    }
}

impl<C> Default for Line<C> {
    fn default() -> Self {
        Self(Arc::new(Inner {
            kept: Mutex::new(None),
            opening: Mutex::new(None),
        }))
    }
}

impl<C: Clone + ConnectionLike + Send + Sync + 'static> Line<C> {
    /// Asks by the connection that is there. Where that turns out to be dead, or there is none, by a new one: every question
    /// may be asked twice, the scripts see to that.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        open: impl FnOnce() -> Opening<C>,
    ) -> Result<T, NoAnswer> {
        if let Some(kept) = self.0.kept() {
            match self.ask_by(kept, command).await {
                // Whoever was silent for as long as that is waited for is not asked again.
                Err(error) if is_of_no_use(&error) && !error.is_timeout() => {}
                outcome => return Ok(outcome?),
            }
        }
        let kept = self.opened(open).await?;
        Ok(self.ask_by(kept, command).await?)
    }

    /// Does not ask by the present connection any more, if it has been there for so long: it is silent.
    pub(crate) fn forget(&self, patience: Duration) {
        let mut kept = lock(&self.0.kept);
        if kept
            .as_ref()
            .is_some_and(|kept| kept.since.elapsed() >= patience)
        {
            *kept = None;
        }
    }

    async fn ask_by<T: FromRedisValue>(
        &self,
        mut kept: Kept<C>,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let outcome = command.query_async(&mut kept.connection).await;
        if outcome.as_ref().is_err_and(is_of_no_use) {
            let mut now = lock(&self.0.kept);
            if now
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(&now.identity, &kept.identity))
            {
                *now = None;
            }
        }
        outcome
    }

    /// A new connection, or the one that is being opened. That goes on without whoever began it: behind sentinels it may take
    /// longer than anybody waits for an answer, and would never come to an end.
    fn opened(&self, open: impl FnOnce() -> Opening<C>) -> Opened<C> {
        let mut opening = lock(&self.0.opening);
        if let Some((under_way, opened)) = &*opening
            && !under_way.is_finished()
        {
            return opened.clone();
        }
        let (inner, connecting) = (Arc::clone(&self.0), open());
        let task = tokio::spawn(async move {
            let connection = connecting.await.map_err(Arc::new)?;
            Ok(inner.keep(connection))
        });
        let under_way = task.abort_handle();
        // The runtime is going away, and whoever waits with it.
        let opened = task.map(|outcome| outcome.unwrap_or(Err(Arc::new(PoolError::Closed))));
        let opened = opened.boxed().shared();
        *opening = Some((under_way, opened.clone()));
        opened
    }
}

impl<C: Clone> Inner<C> {
    fn kept(&self) -> Option<Kept<C>> {
        lock(&self.kept).clone()
    }

    fn keep(&self, connection: C) -> Kept<C> {
        let kept = Kept {
            connection,
            since: Instant::now(),
            identity: Arc::default(),
        };
        *lock(&self.kept) = Some(kept.clone());
        kept
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the connection is dead or silent, or leads to a server that does not lead any more.
fn is_of_no_use(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}
