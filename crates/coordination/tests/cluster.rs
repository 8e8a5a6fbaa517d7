//! The index, the wake-ups and the shelf on a real cluster of three.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use coordination::testing::Cluster;
use coordination::{
    Admission, Ask, Contention, Held, Index, Label, Link, Loaded, Queueing, Shelf, StateKey, Wakes,
};
use graph::claims::{Access, Claim, ClaimSet, Nodes};
use uuid::Uuid;

const INCARNATION: i64 = 1;
/// Enough that each node has some.
const STATES: usize = 24;
/// The first to ask has to connect to every node, which may take longer than an answer is waited for.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

fn write(text: &str) -> Nodes {
    let claim = Claim {
        path: text.parse().expect("a path"),
        access: Access::Write,
    };
    ClaimSet::new([claim]).nodes()
}

fn new_state() -> StateKey {
    StateKey {
        workspace: "ws_0123456789ab".to_owned(),
        state: Uuid::now_v7(),
    }
}

async fn admit(index: &Index, key: &StateKey, idem_key: &str) -> Admission {
    let ask = Ask {
        key,
        incarnation: INCARNATION,
        idem_key,
        nodes: &write("terraform_data.a"),
        queue: Queueing::Native(None),
        about: "{}",
    };
    index.admit(&ask).await.expect("the cluster is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_the_index_the_wake_ups_and_the_shelf() {
    let cluster = Cluster::start().await;
    let link = Link::new(&cluster.address()).expect("an address");
    let began = Instant::now();
    while link.check_policy().await.as_deref() != Ok("noeviction") {
        assert!(began.elapsed() < CONNECTED_WITHIN, "no node answers");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let index = Index::new(link.clone());
    let wakes = Wakes::default();
    let listening = {
        let (wakes, link) = (wakes.clone(), link.clone());
        tokio::spawn(async move { wakes.listen_to(&link).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    for number in 0..STATES {
        let key = new_state();
        reserve_and_wait(&index, &wakes, &key, number).await;
    }
    let nodes_used = used(&cluster).await;
    assert_eq!(nodes_used, cluster.nodes.len(), "of the nodes");
    listening.abort();

    let shelf = Shelf::new(Link::for_large_values(&cluster.address()).expect("an address"));
    for number in 0..STATES {
        shelve(&shelf, &new_state(), number).await;
    }
}

/// One after the other holds the same address of a state.
async fn reserve_and_wait(index: &Index, wakes: &Wakes, key: &StateKey, number: usize) {
    assert_eq!(admit(index, key, "ann").await, Admission::Rebuild);
    let loaded = index.load(key, INCARNATION, 4, &[], Contention::Unknown);
    assert_eq!(loaded.await, Ok(Loaded::Yes));
    let admitted = admit(index, key, "ann").await;
    assert_eq!(admitted, Admission::Admitted { known_gen: 4 });
    let held = Held {
        id: Uuid::now_v7(),
        granted_gen: 5,
        nodes: write("terraform_data.a"),
        info: format!("ann {number}"),
    };
    let confirmed = index.confirm(key, INCARNATION, "ann", &held);
    confirmed.await.expect("the cluster is there");
    let mut wake = wakes.listen(key);
    let Admission::Wait(place) = admit(index, key, "bob").await else {
        panic!("admitted beside a holder");
    };
    assert_eq!(place.holders, [format!("ann {number}")]);
    let waiting = index.waiting(key).await.expect("the cluster is there");
    assert_eq!(waiting.len(), 1);
    let began = Instant::now();
    let ended = index.end(key, INCARNATION, held.id, 6);
    ended.await.expect("the cluster is there");
    wake.wait(Duration::from_secs(20)).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "nobody was woken"
    );
    let admitted = admit(index, key, "bob").await;
    assert_eq!(admitted, Admission::Admitted { known_gen: 6 });
    index.leave(key, "bob").await.expect("the cluster is there");
    let mark = index.mark(key).await.expect("the cluster is there");
    let mark = mark.expect("a table");
    assert_eq!(mark.known_gen, 6);
    if number.is_multiple_of(2) {
        index.forget(key, mark).await.expect("the cluster is there");
        assert_eq!(index.mark(key).await, Ok(None));
    }
}

async fn shelve(shelf: &Shelf, key: &StateKey, number: usize) {
    let version = Uuid::now_v7();
    assert_eq!(shelf.begin_building(key, version).await, Ok(true));
    assert_eq!(shelf.begin_building(key, version).await, Ok(false));
    let label = |seq| Label {
        seq,
        version,
        digest: [number as u8; 16],
    };
    for seq in [1, 2] {
        let bytes = vec![seq as u8; 100_000];
        let put = shelf.put(key, &label(seq), &bytes).await;
        assert_eq!(put, Ok(()));
    }
    let found = shelf.find(key).await.expect("the cluster is there");
    let found = found.expect("a snapshot");
    assert_eq!((found.label, found.bytes.len()), (label(2), 100_000));
    assert_eq!(shelf.discard(key, &label(2)).await, Ok(()));
    assert_eq!(shelf.find_label(key).await, Ok(None));
    assert_eq!(shelf.end_building(key, version).await, Ok(()));
}

/// How many nodes hold tables.
async fn used(cluster: &Cluster) -> usize {
    let mut used = BTreeSet::new();
    for node in &cluster.nodes {
        let keys: i64 = node.ask("DBSIZE").await.expect("a node");
        if keys > 0 {
            used.insert(node.port());
        }
    }
    used.len()
}
