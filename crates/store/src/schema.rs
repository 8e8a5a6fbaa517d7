//! The schema's version and its migrations.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

use crate::{Error, Result};

/// The migrations this program was built with.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// Held by whoever migrates.
const MIGRATING: i64 = 0x6b6c_6d69_6772_6174;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The newest migration of this program: the oldest schema it can serve from.
#[must_use]
pub fn wanted_version() -> i64 {
    MIGRATOR
        .iter()
        .map(|migration| migration.version)
        .max()
        .unwrap_or_default()
}

/// Brings the database at `url` up to date, as the owner of its tables. Does nothing when it is.
///
/// Replicas of the release before may go on meanwhile: migrations take away nothing that they need.
///
/// # Errors
///
/// [`Error::Migrate`] when a migration fails or one that was applied has another text now.
pub async fn migrate(url: &SecretString) -> Result<i64> {
    let mut connection = PgConnection::connect(url.expose_secret()).await?;
    // Not waited for inside of a statement: an index that is made beside others' work waits for all that are under way, this
    // wait among them.
    while !sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_lock($1) AS "is_ours!""#,
        MIGRATING
    )
    .fetch_one(&mut connection)
    .await?
    {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    MIGRATOR
        .run_direct(None, &mut connection, false)
        .await
        .map_err(Error::Migrate)?;
    connection.close().await?;
    Ok(wanted_version())
}

/// Fails unless the schema is at least as new as this program. A newer one is fine: the next release may already have
/// migrated.
pub(crate) async fn check(connection: &mut PgConnection) -> Result<()> {
    let wanted = wanted_version();
    let found = sqlx::query_scalar!("SELECT max(version) FROM _sqlx_migrations WHERE success")
        .fetch_one(connection)
        .await;
    let found = match found {
        Ok(found) => found,
        // undefined_table or insufficient_privilege: never migrated, or not by the migrations that grant this.
        Err(sqlx::Error::Database(cause))
            if matches!(cause.code().as_deref(), Some("42P01" | "42501")) =>
        {
            None
        }
        Err(error) => return Err(error.into()),
    };
    match found {
        Some(found) if found >= wanted => Ok(()),
        _ => Err(Error::SchemaMismatch { found, wanted }),
    }
}
