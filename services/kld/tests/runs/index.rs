//! The reservation index of a stage, as it lies in Redis.

use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::lane::stage::Stage;

async fn connect() -> MultiplexedConnection {
    let client = redis::Client::open(std::env::var("KL_TEST_REDIS_URL").unwrap()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// The keys of the stage's workspace that end like this.
async fn keys(stage: &Stage, end: &str) -> Vec<String> {
    let mut find = redis::cmd("KEYS");
    find.arg(format!("kl:*:{}:*{end}", stage.workspace));
    find.query_async(&mut connect().await).await.unwrap()
}

/// Deletes all that Redis has of the stage's workspace, as a flush would.
pub(super) async fn forget(stage: &Stage) {
    let keys = keys(stage, "").await;
    assert!(!keys.is_empty(), "the index was never used");
    let mut delete = redis::cmd("DEL");
    delete.arg(keys);
    let _: i64 = delete.query_async(&mut connect().await).await.unwrap();
}

/// Has the index of the one state of the stage say that it settles.
pub(super) async fn settle_for_ever(stage: &Stage) {
    let mut set = redis::cmd("HSET");
    set.arg(keys(stage, ":meta").await.first().unwrap())
        .arg("settle")
        .arg("99999999999999");
    let _: i64 = set.query_async(&mut connect().await).await.unwrap();
}

/// What the index says of the one state of the stage under this name; `None` also where it has no table.
pub(super) async fn field(stage: &Stage, name: &str) -> Option<i64> {
    let mut get = redis::cmd("HGET");
    get.arg(keys(stage, ":meta").await.first()?).arg(name);
    get.query_async(&mut connect().await).await.unwrap()
}

/// Waits until the index knows as much of the one state of the stage as the ledger.
pub(super) async fn until_index_knows(stage: &Stage) {
    let ledger = stage.count("SELECT gen FROM lock_heads").await;
    let mut index = None;
    for _ in 0..100 {
        index = field(stage, "wm").await;
        if index == Some(ledger) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(index, Some(ledger));
}
