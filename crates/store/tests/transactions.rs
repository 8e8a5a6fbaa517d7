//! How transactions begin, fail and are done again.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use auth::{Pepper, Token, TokenKind};
use protocol::tenancy::TokenScope;
use protocol::{PrincipalId, WorkspaceId};
use secrecy::ExposeSecret as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use store::tenancy::credentials::{self, NewToken};
use store::tenancy::workspaces;
use store::testing::{TestDatabase, Wire};
use store::{Db, DbOptions, Error, retrying, schema};

fn workspace(n: u8) -> WorkspaceId {
    WorkspaceId::from_bytes([n; 6])
}

async fn through_wire(database: &TestDatabase) -> (Wire, Db) {
    let wire = Wire::start().await;
    let db = Db::connect(&DbOptions::new(database.app_url_through(wire.address))).unwrap();
    (wire, db)
}

#[tokio::test]
async fn a_transaction_with_its_settings_begins_in_one_round_trip() {
    let database = TestDatabase::create().await;
    let (wire, db) = through_wire(&database).await;
    db.begin(&workspace(1))
        .await
        .unwrap()
        .rollback()
        .await
        .unwrap();
    let before = wire.statements();
    let mut tx = db.begin(&workspace(2)).await.unwrap();
    assert_eq!(wire.statements() - before, 1);
    let found: String = sqlx::query_scalar("SELECT current_setting('kl.workspace')")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert_eq!(found, workspace(2).as_str());
}

#[tokio::test]
async fn a_reading_transaction_sees_one_moment_and_writes_nothing() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let mut reading = db.begin_read(&workspace(1)).await.unwrap();
    assert!(
        workspaces::find_workspace(&db, &workspace(1))
            .await
            .unwrap()
            .is_none()
    );
    let count = "SELECT count(*) FROM workspaces";
    let before: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut *reading)
        .await
        .unwrap();
    let mut writing = db.begin(&workspace(1)).await.unwrap();
    let name = "acme".parse().unwrap();
    workspaces::create_workspace(&mut writing, &name, "test", None)
        .await
        .unwrap();
    writing.commit().await.unwrap();
    let after: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut *reading)
        .await
        .unwrap();
    assert_eq!((before, after), (0, 0));
    let refused = workspaces::create_workspace(&mut reading, &name, "test", None).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_deadlock_is_done_again_until_it_succeeds() {
    let database = TestDatabase::create().await;
    let db = database.db();
    for n in [1, 2] {
        let mut tx = db.begin(&workspace(n)).await.unwrap();
        let name = format!("w{n}").parse().unwrap();
        workspaces::create_workspace(&mut tx, &name, "test", None)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    let attempts = AtomicU32::new(0);
    let both = tokio::sync::Barrier::new(2);
    let lock_both = async |first: &'static str, second: &'static str| {
        retrying(async || {
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            let mut tx = db.begin(&workspace(1)).await?;
            tx.execute(first).await?;
            // The first time each has its lock before either asks for that of the other.
            if attempt < 2 {
                both.wait().await;
            }
            tx.execute(second).await?;
            tx.commit().await
        })
        .await
    };
    const ONE: &str = "SELECT 1 FROM workspaces WHERE name = 'w1' FOR UPDATE";
    const TWO: &str = "SELECT 1 FROM workspaces WHERE name = 'w2' FOR UPDATE";
    let (one, two) = tokio::join!(lock_both(ONE, TWO), lock_both(TWO, ONE));
    one.unwrap();
    two.unwrap();
    assert!(
        attempts.load(Ordering::Relaxed) > 2,
        "there was no deadlock"
    );
}

#[tokio::test]
async fn trying_again_has_an_end_and_spares_what_cannot_be_helped() {
    let attempts = AtomicU32::new(0);
    let count = |error: fn() -> Error| {
        let attempts = &attempts;
        retrying(async move || {
            attempts.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(error())
        })
    };
    let error = count(|| Error::Serialization(sqlx::Error::RowNotFound))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Serialization(_)));
    assert_eq!(attempts.swap(0, Ordering::Relaxed), 6);
    count(|| Error::OutcomeUnknown(sqlx::Error::RowNotFound))
        .await
        .unwrap_err();
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_commit_whose_connection_breaks_has_an_unknown_outcome() {
    let database = TestDatabase::create().await;
    let (wire, db) = through_wire(&database).await;
    let mut tx = db.begin(&workspace(1)).await.unwrap();
    let name = "acme".parse().unwrap();
    workspaces::create_workspace(&mut tx, &name, "test", None)
        .await
        .unwrap();
    wire.cut();
    tokio::task::yield_now().await;
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert!(!error.is_retryable() && error.is_temporary());
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_commit_is_worth_another_try() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let mut tx = db.begin(&workspace(1)).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    sqlx::query("SELECT pg_terminate_backend($1)")
        .bind(pid)
        .execute(database.owner())
        .await
        .unwrap();
    let name = "acme".parse().unwrap();
    let error = workspaces::create_workspace(&mut tx, &name, "test", None)
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    drop(tx);
    // And the next transaction does not notice.
    db.begin(&workspace(1)).await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_not_free_in_time_is_the_databases_trouble() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let mut blocker = database.owner().begin().await.unwrap();
    blocker
        .execute("LOCK TABLE workspaces IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let mut tx = db.begin(&workspace(1)).await.unwrap();
    let error = workspaces::lock_workspace(&mut tx).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn an_unmigrated_database_is_refused_by_name_of_the_version() {
    let database = TestDatabase::create().await;
    let db = database.db();
    db.check_schema().await.unwrap();
    database
        .owner()
        .execute("DROP TABLE _sqlx_migrations")
        .await
        .unwrap();
    let error = db.check_schema().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&schema::wanted_version().to_string()),
        "{error}"
    );
    assert!(error.to_string().contains("version none"), "{error}");
}

#[tokio::test]
async fn migrating_again_and_at_once_changes_nothing() {
    let database = TestDatabase::create().await;
    let url = database.owner_url();
    let both = tokio::join!(schema::migrate(&url), schema::migrate(&url));
    assert_eq!(both.0.unwrap(), schema::wanted_version());
    assert_eq!(both.1.unwrap(), schema::wanted_version());
}

/// Indexes that are made beside others' work wait for everybody, and so for whoever waits to migrate inside of a statement.
#[tokio::test]
async fn two_may_migrate_an_empty_database_at_once() {
    let database = TestDatabase::create().await;
    let name = format!("kl_test_empty_{}", std::process::id());
    let owner = database.owner();
    let run = async |sql: String| owner.execute(AssertSqlSafe(sql)).await.unwrap();
    run(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    run(format!("CREATE DATABASE {name}")).await;
    let options: PgConnectOptions = database.owner_url().expose_secret().parse().unwrap();
    let url = options.database(&name).to_url_lossy().to_string().into();
    let both = tokio::join!(schema::migrate(&url), schema::migrate(&url));
    run(format!("DROP DATABASE {name} WITH (FORCE)")).await;
    assert_eq!(both.0.unwrap(), schema::wanted_version());
    assert_eq!(both.1.unwrap(), schema::wanted_version());
}

#[tokio::test]
async fn of_many_bootstraps_at_once_one_makes_the_operator() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let pepper = Pepper::new(vec![1; 32]).unwrap();
    let bootstrap = async || {
        let token = Token::generate(TokenKind::Operator, &mut rand::rng());
        let new = NewToken {
            id: token.id(),
            kind: TokenKind::Operator,
            principal: &PrincipalId::from_bytes(rand::random()),
            mac: &pepper.mac(&token),
            description: None,
            scope: &TokenScope::default(),
            created_by: "test",
            lifetime_days: 90,
        };
        credentials::create_first_operator(&db, &new, "operator")
            .await
            .unwrap()
    };
    let made = futures::future::join_all((0..8).map(|_| bootstrap())).await;
    assert_eq!(made.iter().flatten().count(), 1);
}

/// Polls a future so often and no further, then drops it.
async fn give_up_after<F: Future>(polls: u32, future: F) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if futures::poll!(&mut future).is_ready() {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_given_up_half_way_leaves_no_transaction_open() {
    let database = TestDatabase::create().await;
    let mut options = DbOptions::new(database.app_url());
    options.max_connections = 1;
    let db = Db::connect(&options).unwrap();
    let workspace = workspace(1);
    // Given up at each point at which it may be waiting for something.
    for polls in 0..30 {
        for step in ["begin", "query", "commit"] {
            match step {
                "begin" => give_up_after(polls, db.begin(&workspace)).await,
                "query" => {
                    let mut tx = db.begin(&workspace).await.unwrap();
                    give_up_after(polls, tx.execute("SELECT pg_sleep(0.001)")).await;
                }
                _ => {
                    let tx = db.begin(&workspace).await.unwrap();
                    give_up_after(polls, tx.commit()).await;
                }
            }
            // Whoever has the connection next must find it as it should be.
            db.check_schema().await.unwrap();
            let open: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
            )
            .fetch_one(database.owner())
            .await
            .unwrap();
            assert_eq!(open, 0, "{step} given up after {polls} polls");
        }
    }
}
