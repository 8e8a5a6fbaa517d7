//! A failover of Redis that a real sentinel decides: slower grants at most.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coordination::testing::Guarded;

use super::stage::{alone, until_indexed, with_state};
use crate::harness::Setup;
use crate::lane::stage::{Client, Stage};

/// Begins and ends one run after the other until told to stop. Nothing may be refused.
async fn work(client: &Client<'_>, resource: &str, done: &AtomicBool, count: &AtomicUsize) {
    while !done.load(Ordering::Relaxed) {
        let run = client.apply("prod", alone(&[resource])).await;
        run.finish("succeeded").await.ok();
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_of_redis_fails_no_request() {
    let mut redis = Guarded::start().await;
    let setup = Setup {
        replicas: 2,
        settings: vec![("KL_REDIS_URL", redis.address())],
        ..Setup::default()
    };
    let stage = Stage::start_with(setup).await;
    let (ann, bob) = (stage.writer().await, stage.writer().await.on(1));
    with_state(&ann, "prod", &["a", "b"]).await;
    until_indexed(&ann, "a").await;

    let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    tokio::join!(
        work(&ann, "a", &done, &count),
        work(&bob, "b", &done, &count),
        async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            redis.fail_over().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            done.store(true, Ordering::Relaxed);
        }
    );
    assert!(count.into_inner() > 10);
    for client in [&ann, &bob] {
        until_indexed(client, "a").await;
    }
}
