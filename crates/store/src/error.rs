//! What can go wrong in the database, by what a caller does about it.

use std::borrow::Cow;

/// A store call's outcome.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store call failed. One variant per thing a caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection within the acquire timeout, or the database refuses to work now. Nothing was done; tell the client
    /// to come back.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// The connection broke before the commit was sent. Nothing was done; [`crate::retrying`] tries again.
    #[error("the connection to the database broke")]
    Disconnected(#[source] sqlx::Error),
    /// A concurrent transaction won. Nothing was done; [`crate::retrying`] tries again.
    #[error("a concurrent transaction got in the way")]
    Serialization(#[source] sqlx::Error),
    /// The connection broke while the commit was under way. It may have happened: look it up before answering.
    #[error("the connection broke during the commit, whose outcome is unknown")]
    OutcomeUnknown(#[source] sqlx::Error),
    /// What the caller compared with is no longer what is there. Nothing was done; compare again.
    #[error("{0}")]
    Moved(&'static str),
    /// The database is older than it was. Nothing is written until an operator has finished the restore.
    #[error(
        "the database has lost history: it was restored from a backup, or a standby without all commits took over"
    )]
    HistoryLost,
    /// A value that the database cannot hold: a NUL in a text, or a key too long for an index. The request's affair.
    #[error("a value cannot be stored")]
    Unstorable(#[source] sqlx::Error),
    /// A named constraint refused the change.
    #[error("the constraint `{constraint}` refused the change")]
    Constraint {
        /// The constraint's name.
        constraint: String,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// The schema is older than this program needs.
    #[error(
        "the database schema has version {}, but this release needs {wanted}: run `kld migrate`",
        .found.map_or(Cow::Borrowed("none"), |found| Cow::Owned(found.to_string()))
    )]
    SchemaMismatch {
        /// The newest migration in the database.
        found: Option<i64>,
        /// The newest migration in this program.
        wanted: i64,
    },
    /// The database or its roles are set up in a way that is not safe to serve from.
    #[error("the database is not set up safely: {0}")]
    UnsafeSetup(String),
    /// A row holds something that no row can hold.
    #[error("a row of `{table}` is impossible: {reason}")]
    ImpossibleRow {
        /// The table.
        table: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The statement is wrong, or something nobody thought of.
    #[error("a statement failed")]
    Query(#[source] sqlx::Error),
    /// A migration failed.
    #[error("the migration failed")]
    Migrate(#[source] sqlx::migrate::MigrateError),
}

impl Error {
    /// Whether doing the whole transaction again may help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Serialization(_))
    }

    /// Whether a use case that may be done twice without harm should take a fresh look: nothing was done, or what was
    /// done will be found.
    #[must_use]
    pub const fn is_worth_another_try(&self) -> bool {
        self.is_retryable() || matches!(self, Self::Moved(_) | Self::OutcomeUnknown(_))
    }

    /// Whether the trouble is the database's and not the request's: the client should come back later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_)
                | Self::Disconnected(_)
                | Self::Serialization(_)
                | Self::OutcomeUnknown(_)
                | Self::Moved(_)
        )
    }

    /// Whether the constraint of that name refused the change.
    #[must_use]
    pub fn is_constraint(&self, name: &str) -> bool {
        matches!(self, Self::Constraint { constraint, .. } if constraint == name)
    }

    /// An impossible row.
    pub(crate) fn impossible(table: &'static str, reason: impl ToString) -> Self {
        Self::ImpossibleRow {
            table,
            reason: reason.to_string(),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            E::PoolTimedOut | E::PoolClosed | E::Tls(_) => Self::Unavailable(error),
            // Protocol: the other side broke off in mid-word, while a connection was being made for one.
            E::Io(_) | E::WorkerCrashed | E::BeginFailed | E::Protocol(_) => {
                Self::Disconnected(error)
            }
            E::Database(cause) => {
                let state = cause.code().unwrap_or_default().into_owned();
                let constraint = cause.constraint().map(str::to_owned);
                Self::of_sqlstate(&state, constraint, error)
            }
            _ => Self::Query(error),
        }
    }
}

impl Error {
    /// Sorts an error of the server by its SQLSTATE (appendix A of the Postgres manual).
    fn of_sqlstate(state: &str, constraint: Option<String>, error: sqlx::Error) -> Self {
        match state {
            // serialization_failure, deadlock_detected
            "40001" | "40P01" => Self::Serialization(error),
            // admin_shutdown, crash_shutdown: this connection is gone, the next may reach the new primary.
            // read_only_sql_transaction: this connection still leads to a server that was demoted.
            "57P01" | "57P02" | "25006" => Self::Disconnected(error),
            // lock_not_available and query_canceled are our own timeouts; cannot_connect_now, too_many_connections.
            "55P03" | "57014" | "57P03" => Self::Unavailable(error),
            // character_not_in_repertoire, untranslatable_character, program_limit_exceeded
            "22021" | "22P05" | "54000" => Self::Unstorable(error),
            _ if state.starts_with("08") => Self::Disconnected(error),
            _ if state.starts_with("53") => Self::Unavailable(error),
            _ if state.starts_with("23") => match constraint {
                Some(constraint) => Self::Constraint {
                    constraint,
                    source: error,
                },
                None => Self::Query(error),
            },
            _ => Self::Query(error),
        }
    }
}

#[cfg(feature = "faults")]
impl From<locking::Injected> for Error {
    /// As if the database had become unreachable, which is no reason to start over.
    fn from(injected: locking::Injected) -> Self {
        Self::Unavailable(sqlx::Error::Io(std::io::Error::other(injected)))
    }
}
