//! One connection that all requests of a process share.
//!
//! It carries many questions at a time, so nobody has to borrow it for himself; a pool would also ask each connection for a
//! sign of life before it lends it out, which doubles the round trips. That one is dead shows when it is asked.

use std::sync::{Arc, Mutex, PoisonError};

use deadpool_redis::PoolError;
use futures::future::BoxFuture;
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};

use crate::servers::NoAnswer;

/// A connection on its way.
pub(crate) type Opening<'o, C> = BoxFuture<'o, Result<C, PoolError>>;

/// The connection, if there is one.
pub(crate) struct Line<C> {
    kept: Mutex<Option<Kept<C>>>,
    /// One opens a new connection, the others wait for it.
    opening: tokio::sync::Mutex<()>,
}

struct Kept<C> {
    connection: C,
    /// Tells a connection from its successor.
    identity: Arc<()>,
}

impl<C: Clone> Clone for Kept<C> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            identity: Arc::clone(&self.identity),
        }
    }
}

impl<C> Default for Line<C> {
    fn default() -> Self {
        Self {
            kept: Mutex::new(None),
            opening: tokio::sync::Mutex::default(),
        }
    }
}

impl<C: Clone + ConnectionLike> Line<C> {
    /// Asks by the connection that is there. Where that turns out to be dead, or there is none, by a new one: every question
    /// may be asked twice, the scripts see to that.
    ///
    /// How one is opened is a large future, which nearly no question needs: it is made only then, and apart.
    pub(crate) async fn ask<'o, T: FromRedisValue>(
        &self,
        command: &Cmd,
        open: impl FnOnce() -> Opening<'o, C>,
    ) -> Result<T, NoAnswer> {
        if let Some(kept) = self.kept() {
            match self.ask_by(kept, command).await {
                // Whoever was silent for as long as that is waited for is not asked again.
                Err(error) if is_of_no_use(&error) && !error.is_timeout() => {}
                outcome => return Ok(outcome?),
            }
        }
        let kept = {
            let _opening = self.opening.lock().await;
            match self.kept() {
                Some(kept) => kept,
                None => self.keep(open().await?),
            }
        };
        Ok(self.ask_by(kept, command).await?)
    }

    /// Does not ask by the present connection any more: it is silent.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    async fn ask_by<T: FromRedisValue>(
        &self,
        mut kept: Kept<C>,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let outcome = command.query_async(&mut kept.connection).await;
        if outcome.as_ref().is_err_and(is_of_no_use) {
            let mut now = self.lock();
            if now
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(&now.identity, &kept.identity))
            {
                *now = None;
            }
        }
        outcome
    }

    fn kept(&self) -> Option<Kept<C>> {
        self.lock().clone()
    }

    fn keep(&self, connection: C) -> Kept<C> {
        let kept = Kept {
            connection,
            identity: Arc::default(),
        };
        *self.lock() = Some(kept.clone());
        kept
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Kept<C>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection is dead, or leads to a server that does not lead any more.
fn is_of_no_use(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}
