//! The pool, and the one way to a tenant's rows.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use protocol::WorkspaceId;
use secrecy::{ExposeSecret, SecretString};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection as _, PgConnection, PgPool, Postgres,
    SqlSafeStr as _, SqlStr, Transaction,
};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::lock_service::History;
use crate::turns::{LOCK_TIMEOUT, Row, Taken, Turns};
use crate::{Error, LedgerChange, LedgerEvent, Result, schema};

/// How often `BEGIN` is tried on connections that turn out to be dead. After a failover every idle connection is, and
/// each costs one quick failure.
const BEGIN_ATTEMPTS: u32 = 20;
/// How many prepared statements a connection keeps.
const STATEMENTS: usize = 400;
/// How many changes of ledgers wait for whoever follows them.
const LEDGER_CHANGES: usize = 4_096;
/// How many workspaces with new audit entries wait for whoever chains them.
const AUDITED: usize = 4_096;

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct DbOptions {
    /// `postgres://…`, with the password in it.
    pub url: SecretString,
    /// The largest number of connections.
    pub max_connections: u32,
    /// How long a request waits for a connection before it is answered 503. Short: clients repeat, queues only grow.
    pub acquire_timeout: Duration,
}

impl DbOptions {
    /// Options with the default sizes.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            max_connections: 16,
            acquire_timeout: Duration::from_secs(3),
        }
    }
}

/// The database, as the service sees it.
#[derive(Debug, Clone)]
pub struct Db {
    pool: PgPool,
    ledger_changes: broadcast::Sender<LedgerChange>,
    audited: broadcast::Sender<WorkspaceId>,
    history: Arc<History>,
    turns: Turns,
}

impl Db {
    /// Makes the pool. Connections are opened when first needed, so this succeeds while the database is away.
    ///
    /// # Errors
    ///
    /// When the URL cannot be read.
    pub fn connect(options: &DbOptions) -> Result<Self> {
        let connect: PgConnectOptions = options
            .url
            .expose_secret()
            .parse::<PgConnectOptions>()?
            .application_name("kld")
            // There are some two hundred statements; what is forgotten is parsed and planned again, in two more round trips.
            .statement_cache_capacity(STATEMENTS)
            // Statements are logged by their span, never by their text.
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.acquire_timeout)
            // A ping per checkout would double the round trips of a short request; `begin` copes with dead connections.
            .test_before_acquire(false)
            .connect_lazy_with(connect);
        Ok(Self {
            pool,
            ledger_changes: broadcast::Sender::new(LEDGER_CHANGES),
            audited: broadcast::Sender::new(AUDITED),
            history: Arc::default(),
            turns: Turns::default(),
        })
    }

    /// Begins a transaction that sees and writes the rows of one workspace.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when there is no connection in time, [`Error::HistoryLost`] when the database was seen to be
    /// older than before.
    pub async fn begin(&self, workspace: &WorkspaceId) -> Result<WorkspaceTx> {
        if self.history.is_lost() {
            return Err(Error::HistoryLost);
        }
        // A statement here looks rows up by their keys, or adds some. Planned anew for each set of parameters, as the planner
        // does where it cannot tell, a short one takes longer to plan than to run, and others wait for its locks meanwhile.
        let settings = "set_config('plan_cache_mode', 'force_generic_plan', true), ";
        self.begin_with("BEGIN", settings, workspace).await
    }

    /// Begins a transaction that reads the rows of one workspace, all of them as of one moment.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when there is no connection in time.
    pub async fn begin_read(&self, workspace: &WorkspaceId) -> Result<WorkspaceTx> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.begin_with(begin, "", workspace).await
    }

    /// `BEGIN` and the settings of the transaction, those of its kind in front, in one round trip.
    async fn begin_with(
        &self,
        begin: &'static str,
        of_its_kind: &'static str,
        workspace: &WorkspaceId,
    ) -> Result<WorkspaceTx> {
        // The id is a validated newtype of `ws_` and twelve hex digits, so it may stand in the text. All the settings end
        // with the transaction, which keeps them right behind a pooler:
        // - a lock that is not free within some seconds is a 503 and not a connection that hangs;
        // - no statement outlives the request that waits for it (60 s);
        // - a transaction whose replica stopped half-way does not hold its locks for long.
        let statement: SqlStr = AssertSqlSafe(format!(
            "{begin}; SELECT {of_its_kind}set_config('kl.workspace', '{workspace}', true), \
             set_config('lock_timeout', '{}', true), \
             set_config('statement_timeout', '55s', true), \
             set_config('idle_in_transaction_session_timeout', '60s', true)",
            LOCK_TIMEOUT.as_millis(),
        ))
        .into_sql_str();
        let mut attempts = 1;
        loop {
            let acquired = self.pool.acquire().await.map_err(Error::from);
            let connection = acquired.map_err(unusable)?;
            match begin_to_the_end(connection, statement.clone()).await {
                Ok(tx) => {
                    return Ok(WorkspaceTx {
                        tx,
                        workspace: workspace.clone(),
                        noted: Vec::new(),
                        ledger_changes: self.ledger_changes.clone(),
                        has_entries: false,
                        audited: self.audited.clone(),
                        turns: self.turns.clone(),
                        taken: Taken::default(),
                    });
                }
                Err(Error::Disconnected(_)) if attempts < BEGIN_ATTEMPTS => attempts += 1,
                Err(error) => return Err(unusable(error)),
            }
        }
    }

    /// Asks `ask` of the pool, again where a connection turns out to be dead. For single statements that only read and
    /// name their workspace themselves.
    pub(crate) async fn ask<T, Asked>(&self, ask: impl Fn(PgPool) -> Asked) -> Result<T>
    where
        Asked: Future<Output = sqlx::Result<T>>,
    {
        let mut attempts = 1;
        loop {
            match ask(self.pool.clone()).await.map_err(Error::from) {
                Err(Error::Disconnected(_)) if attempts < BEGIN_ATTEMPTS => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    /// Writes by a connection of its own once it is this process's turn to lock a row, and once only. For single statements that
    /// are a whole transaction and name their workspace themselves. Goes on when the caller is given up, so that what is
    /// committed is also told.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] also where the statement may have been carried out.
    pub(crate) async fn write_at_once<T, Written>(
        &self,
        row: Row,
        write: impl FnOnce(Self, PoolConnection<Postgres>) -> Written,
    ) -> Result<T>
    where
        T: Send + 'static,
        Written: Future<Output = Result<T>> + Send + 'static,
    {
        if self.history.is_lost() {
            return Err(Error::HistoryLost);
        }
        // Before the turn, as transactions have it: who has the turn must not wait for those who wait for it.
        let acquired = self.pool.acquire().await.map_err(Error::from);
        let connection = acquired.map_err(unusable)?;
        let mut taken = Taken::default();
        taken.take(&self.turns, row).await;
        let writing = write(self.clone(), connection);
        let written = tokio::spawn(async move {
            let written = writing.await;
            drop(taken);
            written
        });
        // The runtime is going away, and this request with it.
        let gone = |_| Error::Unavailable(sqlx::Error::WorkerCrashed);
        written.await.map_err(gone)?
    }

    /// A connection for the tables without row security (`workspaces`, `credentials`, `lock_service`), for the statements
    /// of this crate only.
    ///
    /// It is asked for a sign of life first. That costs a round trip, on a path that is taken once in seconds.
    pub(crate) async fn system(&self) -> Result<PoolConnection<Postgres>> {
        let mut attempts = 1;
        loop {
            let acquired = self.pool.acquire().await.map_err(Error::from);
            let mut connection = acquired.map_err(unusable)?;
            match connection.ping().await {
                Ok(()) => return Ok(connection),
                Err(_) if attempts < BEGIN_ATTEMPTS => attempts += 1,
                Err(cause) => return Err(Error::Unavailable(cause)),
            }
        }
    }

    /// Fails unless the schema is at least as new as this program.
    ///
    /// # Errors
    ///
    /// [`Error::SchemaMismatch`], or what kept the question from being asked.
    pub async fn check_schema(&self) -> Result<()> {
        schema::check(&mut *self.system().await?).await
    }

    /// The pool itself, for what listens on a connection of its own.
    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// What this process knows of the database's history.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// What this process commits to ledgers from now on. One that falls behind misses some, which the gens show.
    #[must_use]
    pub fn ledger_changes(&self) -> broadcast::Receiver<LedgerChange> {
        self.ledger_changes.subscribe()
    }

    /// Tells those who follow the ledgers of something that belongs behind what was committed so far.
    pub fn tell_ledger(&self, change: LedgerChange) {
        // Nobody need follow.
        let _ = self.ledger_changes.send(change);
    }

    /// Tells that there are new entries in the audit log of a workspace.
    pub(crate) fn tell_entry(&self, workspace: &WorkspaceId) {
        // Nobody need follow.
        let _ = self.audited.send(workspace.clone());
    }

    /// The workspaces in whose audit log this process writes from now on.
    #[must_use]
    pub fn audited(&self) -> broadcast::Receiver<WorkspaceId> {
        self.audited.subscribe()
    }

    /// How many connections are open, and how many of them idle.
    #[must_use]
    pub fn connections(&self) -> (u32, usize) {
        (self.pool.size(), self.pool.num_idle())
    }

    /// Closes the pool and waits for what is still checked out.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Begins a transaction in a task of its own, which goes on when its caller is given up.
///
/// sqlx 0.9 counts a transaction as begun only when `BEGIN` has been answered. Given up before that, it returns the
/// connection to the pool with a transaction open and a workspace set, for the next request to work in and to commit.
/// The task always waits for the answer; a transaction that nobody takes from it is dropped there, which rolls it back.
async fn begin_to_the_end(
    connection: PoolConnection<Postgres>,
    statement: SqlStr,
) -> Result<Transaction<'static, Postgres>> {
    let begin = tokio::spawn(Transaction::begin(connection, Some(statement)));
    match begin.await {
        Ok(outcome) => Ok(outcome?),
        // The runtime is going away, and this request with it.
        Err(_) => Err(Error::Unavailable(sqlx::Error::WorkerCrashed)),
    }
}

/// Sorts what kept a connection from being opened or a transaction from being begun: a refused login, a missing database, a
/// proxy that hangs up. Nothing was done, and whatever it was, the request is not to blame.
fn unusable(error: Error) -> Error {
    match error {
        Error::Disconnected(cause)
        | Error::Serialization(cause)
        | Error::Query(cause)
        | Error::Constraint { source: cause, .. } => Error::Unavailable(cause),
        other => other,
    }
}

/// A transaction that belongs to one workspace. Dropped without [`WorkspaceTx::commit`], it is rolled back.
#[derive(Debug)]
pub struct WorkspaceTx {
    tx: Transaction<'static, Postgres>,
    workspace: WorkspaceId,
    /// Changes of ledgers, to be told once they are committed.
    noted: Vec<LedgerChange>,
    ledger_changes: broadcast::Sender<LedgerChange>,
    /// Whether it adds to the audit log.
    has_entries: bool,
    audited: broadcast::Sender<WorkspaceId>,
    turns: Turns,
    /// Kept until a commit or a rollback has been answered. Of a transaction that is dropped the rollback is on its way by then.
    taken: Taken,
}

impl WorkspaceTx {
    /// The workspace whose rows it sees.
    #[must_use]
    pub const fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Makes what was done last.
    ///
    /// # Errors
    ///
    /// [`Error::OutcomeUnknown`] when the connection broke meanwhile, [`Error::Serialization`] when nothing was done.
    pub async fn commit(self) -> Result<()> {
        match self.tx.commit().await.map_err(Error::from) {
            Ok(()) => {
                for change in self.noted {
                    // Nobody need follow.
                    let _ = self.ledger_changes.send(change);
                }
                if self.has_entries {
                    let _ = self.audited.send(self.workspace);
                }
                Ok(())
            }
            Err(Error::Disconnected(cause)) => Err(Error::OutcomeUnknown(cause)),
            outcome => outcome,
        }
    }

    /// Waits until it is this transaction's turn among those of the process to lock a row.
    pub(crate) async fn take_turn(&mut self, row: Row) {
        self.taken.take(&self.turns, row).await;
    }

    /// Has it told that there are new entries in the audit log, once they are committed.
    pub(crate) fn note_entry(&mut self) {
        self.has_entries = true;
    }

    /// Has a change of a ledger told to whoever follows, once it is committed.
    pub(crate) fn note(&mut self, state_id: Uuid, incarnation: i64, event: LedgerEvent) {
        self.noted.push(LedgerChange {
            workspace: self.workspace.clone(),
            state_id,
            incarnation,
            event,
        });
    }

    /// Has those who watch a state told that there is something to see, once it is committed.
    pub(crate) fn note_seen(&mut self, state_id: Uuid) {
        let of_state = |change: &LedgerChange| {
            change.state_id == state_id && matches!(change.event, LedgerEvent::Seen)
        };
        if !self.noted.iter().any(of_state) {
            // No part of the ledger, so of no incarnation of it.
            self.note(state_id, 0, LedgerEvent::Seen);
        }
    }

    /// Gives up what was done.
    ///
    /// # Errors
    ///
    /// When the connection broke, which undoes it just as well.
    pub async fn rollback(self) -> Result<()> {
        Ok(self.tx.rollback().await?)
    }
}

impl Deref for WorkspaceTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for WorkspaceTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}
