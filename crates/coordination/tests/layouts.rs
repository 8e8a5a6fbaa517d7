//! Two layouts of the tables in one Redis: that of this build, and that of another which runs beside it.

use coordination::testing::RedisServer;
use coordination::{Admission, Ask, Contention, Held, Index, Link, Queueing, StateKey};
use graph::claims::ClaimSet;
use redis::AsyncCommands as _;
use uuid::Uuid;

const INCARNATION: i64 = 1;

#[tokio::test]
async fn tables_of_another_layout_are_neither_read_nor_touched() {
    let server = RedisServer::start().await;
    let index = Index::new(Link::new(&server.url()).expect("an address"));
    let key = StateKey {
        workspace: "ws_0123456789ab".to_owned(),
        state: Uuid::now_v7(),
    };
    let mut redis = server.connect().await.expect("a connection");
    // As another build may have them: the same names but for the number, and values that would not be understood here.
    let others: Vec<String> = ["meta", "res", "node", "gap", "wait"]
        .map(|table| format!("kl:2:{}:{{{}}}:{table}", key.workspace, key.state))
        .into();
    for other in &others {
        let _: () = redis.set(other, "of another layout").await.expect("set");
    }
    let nodes = ClaimSet::whole_state().nodes();
    let ask = |idem_key| Ask {
        key: &key,
        incarnation: INCARNATION,
        idem_key,
        nodes: &nodes,
        queue: Queueing::Native(None),
        about: "",
    };
    let admitted = index.admit(&ask("ann")).await;
    assert_eq!(admitted, Ok(Admission::Rebuild));
    let loaded = index.load(&key, INCARNATION, 1, &[], Contention::Unknown);
    loaded.await.expect("Redis is there");
    let admitted = index.admit(&ask("ann")).await;
    assert_eq!(admitted, Ok(Admission::Admitted { known_gen: 1 }));
    let held = Held {
        id: Uuid::now_v7(),
        granted_gen: 2,
        nodes: nodes.clone(),
        info: String::new(),
    };
    let confirmed = index.confirm(&key, INCARNATION, "ann", &held);
    confirmed.await.expect("Redis is there");
    let waiting = index.admit(&ask("bob")).await;
    assert!(matches!(waiting, Ok(Admission::Wait(_))), "{waiting:?}");
    index.leave(&key, "bob").await.expect("Redis is there");
    let ended = index.end(&key, INCARNATION, held.id, 3);
    ended.await.expect("Redis is there");
    let mark = index.mark(&key).await.expect("Redis is there");
    index
        .forget(&key, mark.expect("a table"))
        .await
        .expect("Redis is there");
    for other in &others {
        let value: String = redis.get(other).await.expect("it is still there");
        assert_eq!(value, "of another layout");
    }
    let mut left: Vec<String> = redis.keys("*").await.expect("keys");
    left.sort();
    let mut expected = others.clone();
    expected.sort();
    assert_eq!(left, expected);
}
