//! Rows that many want are worked under in turn, within a process and across them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use std::time::Duration;

use futures::FutureExt as _;
use protocol::{EnvironmentId, StateName, WorkspaceId};
use sqlx::Executor as _;
use store::testing::TestDatabase;
use store::{Db, Error};
use uuid::Uuid;

fn workspace() -> WorkspaceId {
    WorkspaceId::from_bytes([1; 6])
}

async fn state(database: &TestDatabase, db: &Db) -> Uuid {
    let rows = [
        "INSERT INTO workspaces (id, name, created_by) VALUES ($1, 'acme', 'test')",
        "INSERT INTO environments (workspace_id, id, name) VALUES ($1, 'env_020202020202', 'prod')",
    ];
    for insert in rows {
        let insert = sqlx::query(insert).bind(workspace().to_string());
        database.owner().execute(insert).await.unwrap();
    }
    let environment = EnvironmentId::from_bytes([2; 6]);
    let name: StateName = "prod".parse().unwrap();
    let mut tx = db.begin(&workspace()).await.unwrap();
    let state = store::find_or_create_state(&mut tx, &environment, &name)
        .await
        .unwrap()
        .id;
    tx.commit().await.unwrap();
    state
}

#[tokio::test]
async fn a_transaction_takes_a_turn_once_and_keeps_it_until_it_ends() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let state = state(&database, &db).await;
    let mut first = db.begin(&workspace()).await.unwrap();
    for _ in 0..2 {
        store::lock_ledger(&mut first, state).await.unwrap();
        store::lock_state(&mut first, state).await.unwrap();
    }
    for ends_well in [true, false] {
        let mut second = db.begin(&workspace()).await.unwrap();
        let mut waits = Box::pin(store::lock_state(&mut second, state));
        assert!(waits.as_mut().now_or_never().is_none());
        if ends_well {
            first.commit().await.unwrap();
        } else {
            drop(first);
        }
        waits.await.unwrap();
        first = second;
    }
}

#[tokio::test]
async fn who_gives_up_its_turn_before_it_comes_is_passed_over() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let state = state(&database, &db).await;
    let mut first = db.begin(&workspace()).await.unwrap();
    store::lock_ledger(&mut first, state).await.unwrap();
    let (mut second, mut third) = (
        db.begin(&workspace()).await.unwrap(),
        db.begin(&workspace()).await.unwrap(),
    );
    let mut gives_up = Box::pin(store::lock_ledger(&mut second, state));
    let mut waits = Box::pin(store::lock_ledger(&mut third, state));
    assert!(gives_up.as_mut().now_or_never().is_none());
    assert!(waits.as_mut().now_or_never().is_none());
    drop(gives_up);
    first.commit().await.unwrap();
    waits.await.unwrap();
}

#[tokio::test]
async fn a_turn_that_does_not_come_is_done_without() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let state = state(&database, &db).await;
    let mut first = db.begin(&workspace()).await.unwrap();
    store::lock_state(&mut first, state).await.unwrap();
    // The row decides, and is taken.
    let mut second = db.begin(&workspace()).await.unwrap();
    let late = store::lock_state(&mut second, state).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    drop(second);
    // It is free as soon as the server has given the first one up, which that one does not know.
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *first)
        .await
        .unwrap();
    let end = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    database.owner().execute(end).await.unwrap();
    let mut third = db.begin(&workspace()).await.unwrap();
    store::lock_state(&mut third, state).await.unwrap();
    assert!(first.commit().await.is_err());
}

#[tokio::test]
async fn the_row_lock_excludes_another_process_which_knows_of_no_turns() {
    let database = TestDatabase::create().await;
    let (here, there) = (database.db(), database.db());
    let state = state(&database, &here).await;
    let mut first = here.begin(&workspace()).await.unwrap();
    store::lock_ledger(&mut first, state).await.unwrap();
    let mut second = there.begin(&workspace()).await.unwrap();
    {
        let waits = store::lock_ledger(&mut second, state);
        let waits = tokio::time::timeout(Duration::from_millis(200), waits);
        assert!(waits.await.is_err());
    }
    drop(second);
    first.commit().await.unwrap();
    let mut third = there.begin(&workspace()).await.unwrap();
    store::lock_ledger(&mut third, state).await.unwrap();
}
