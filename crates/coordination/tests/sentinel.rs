//! The index and the wake-ups through a failover that a real sentinel decides.

use std::time::{Duration, Instant};

use coordination::testing::{Guarded, works};
use coordination::{Index, Link, StateKey, Wakes};
use uuid::Uuid;

const INCARNATION: i64 = 1;
/// A failover takes a second or two, and a broken link rests for one.
const RECOVERED_WITHIN: Duration = Duration::from_secs(15);

fn new_state() -> StateKey {
    StateKey {
        workspace: "ws_0123456789ab".to_owned(),
        state: Uuid::now_v7(),
    }
}

/// Whether a message about a new state comes within a moment.
async fn wakes_somebody(index: &Index, wakes: &Wakes) -> bool {
    let key = new_state();
    let mut wake = wakes.listen(&key);
    // The end of what the index does not know is told all the same.
    if index
        .end(&key, INCARNATION, Uuid::now_v7(), 1)
        .await
        .is_err()
    {
        return false;
    }
    let (began, patience) = (Instant::now(), Duration::from_secs(1));
    wake.wait(patience).await;
    began.elapsed() < patience
}

async fn recovers(what: &str, mut works: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !works().await {
        assert!(began.elapsed() < RECOVERED_WITHIN, "{what} did not recover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_that_the_sentinels_name_is_asked_and_listened_to() {
    let mut servers = Guarded::start().await;
    let link = Link::new(&servers.address()).expect("an address");
    // The first to ask has to connect, which may take longer than an answer is waited for.
    recovers("the link", async || {
        link.check_policy().await.as_deref() == Ok("noeviction")
    })
    .await;
    let index = Index::new(link.clone());
    let wakes = Wakes::default();
    let listening = {
        let (wakes, link) = (wakes.clone(), link.clone());
        tokio::spawn(async move { wakes.listen_to(&link).await })
    };
    recovers("the index", async || works(&index).await).await;
    recovers("listening", async || wakes_somebody(&index, &wakes).await).await;

    servers.fail_over().await;
    recovers("the index", async || works(&index).await).await;
    recovers("listening", async || wakes_somebody(&index, &wakes).await).await;
    let keys: i64 = servers
        .replica
        .ask("DBSIZE")
        .await
        .expect("the new primary");
    assert!(keys > 0);
    listening.abort();
}
