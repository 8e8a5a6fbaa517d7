//! Graphs that replicas share: made once, brought up to date by what changed, and never believed without proof.

use std::time::Duration;

use redis::AsyncCommands as _;
use serde_json::{Value, json};

use super::documents::{Built, network};
use super::scope::expand;
use crate::harness::Setup;
use crate::lane::stage::{Client, Stage};

/// Where an answer says that its graph came from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Memory,
    /// Brought up to date from another version, or another replica's, by so many rows.
    Rows(u64),
    Built,
}

async fn replicas(count: usize) -> Stage {
    let setup = Setup {
        replicas: count,
        pool: 20,
        acquire_timeout: Duration::from_secs(30),
        ..Setup::default()
    };
    Stage::start_with(setup).await
}

/// A large write set of the state, and where its graph came from.
async fn ask(client: &Client<'_>) -> (Value, Source) {
    let request = json!({ "write": ["terraform_data.net", "terraform_data.late"] });
    let answer = expand(client, request).await.ok().json();
    let contract = answer["scope_contract"].clone();
    let diagnostics = &contract["diagnostics"];
    let number = |name: &str| diagnostics[name].as_u64().unwrap();
    let source = match diagnostics["graph_cache_hit"].as_bool().unwrap() {
        true => Source::Memory,
        false if number("inventory_scan_count") == number("realized_resource_count") => {
            Source::Built
        }
        false => Source::Rows(number("inventory_scan_count")),
    };
    let proof = json!([contract["write_addresses"], contract["dependents"]]);
    (proof, source)
}

async fn connection() -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(std::env::var("KL_TEST_REDIS_URL").unwrap()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// The keys of the workspace's snapshots that end so.
async fn keys(stage: &Stage, end: &str) -> Vec<String> {
    let pattern = format!("klg:*:{}:*{end}", stage.workspace);
    connection().await.keys(pattern).await.unwrap()
}

/// The key of the one snapshot there is, once it is published.
async fn published(stage: &Stage) -> String {
    for _ in 0..200 {
        if let [pointer] = &keys(stage, ":newest").await[..] {
            let label: String = connection().await.get(pointer).await.unwrap();
            return pointer.replace("newest", &label);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("no snapshot was published");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_built_by_one_replica_and_unpacked_by_the_others() {
    let stage = replicas(2).await;
    let one = stage.writer().await;
    one.write_locked("net", network().bytes()).await;
    let (expected, source) = ask(&one).await;
    assert_eq!(source, Source::Built);
    let key = published(&stage).await;
    let ends: i64 = connection().await.ttl(&key).await.unwrap();
    assert!((1..=3_600).contains(&ends), "{ends}");
    assert_eq!(ask(&one.on(1)).await, (expected.clone(), Source::Rows(0)));
    assert_eq!(ask(&one.on(1)).await, (expected, Source::Memory));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_snapshot_is_brought_up_to_date_by_what_changed_since() {
    let stage = replicas(2).await;
    let one = stage.writer().await;
    let mut state = network();
    one.write_locked("net", state.bytes()).await;
    ask(&one).await;
    published(&stage).await;
    state.serial = 2;
    let state = state.with("terraform_data.late", "late", &["terraform_data.apart"]);
    one.write_locked("net", state.bytes()).await;
    let (proof, source) = ask(&one.on(1)).await;
    // The late one was born, with the shell of its block at most.
    assert!(matches!(source, Source::Rows(1..=2)), "{source:?}");
    assert!(proof.to_string().contains("terraform_data.late"), "{proof}");
    assert_eq!(ask(&one).await.0, proof);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_ask_at_once_build_a_graph_once_for_all_replicas() {
    // A replica that waits two seconds in vain for what the other builds builds its own. Where a machine is so busy, a
    // smaller one is built in time.
    for size in [2_000, 1_000, 500, 200, 100] {
        let stage = replicas(2).await;
        let one = stage.writer().await;
        let mut state = Built::new(1);
        for number in 0..size {
            let before = format!("terraform_data.n{}", number / 2);
            state = state.with(&format!("terraform_data.n{number}"), "x", &[&before]);
        }
        one.write_locked("net", state.bytes()).await;
        let clients = (0..50).map(|number| one.on(number % 2));
        let answers = clients.map(async |client| ask(&client).await.1);
        let answers = futures::future::join_all(answers).await;
        let built = answers.iter().filter(|source| **source == Source::Built);
        match built.count() {
            1 => return,
            built => assert_eq!(built, 2, "{answers:?}"),
        }
    }
    panic!("each replica built one each time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_not_what_it_claims_to_be_is_thrown_away() {
    let stage = replicas(3).await;
    let one = stage.writer().await;
    one.write_locked("net", network().bytes()).await;
    let (expected, _) = ask(&one).await;
    let key = published(&stage).await;
    let mut redis = connection().await;
    let mut bytes: Vec<u8> = redis.get(&key).await.unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let _: () = redis.set(&key, bytes).await.unwrap();
    assert_eq!(ask(&one.on(1)).await, (expected.clone(), Source::Built));
    // Which publishes a good one.
    published(&stage).await;
    assert_eq!(ask(&one.on(2)).await, (expected, Source::Rows(0)));
    let refused = "kl_graph_snapshots_refused_total";
    assert!(stage.app.metrics().await.contains(refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_snapshot_holds_the_value_of_an_attribute() {
    let stage = replicas(1).await;
    let one = stage.writer().await;
    let secret = "correct-horse-battery-staple";
    let state = Built::new(1).with("terraform_data.net", secret, &[]);
    one.write_locked("net", state.bytes()).await;
    ask(&one).await;
    let bytes: Vec<u8> = connection()
        .await
        .get(published(&stage).await)
        .await
        .unwrap();
    let header = 1 + 32 + 4 + stage.workspace.len() + 16 + 8 + 16;
    let content = zstd::bulk::decompress(&bytes[header..], 1 << 20).unwrap();
    let holds = |text: &str| {
        content
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(holds("terraform_data.net") && !holds(secret));
}
