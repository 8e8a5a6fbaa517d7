//! Waiting for a busy scope: in order, across replicas, and through the loss of Redis.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use protocol::Code;
use serde_json::{Value, json};
use store::LedgerEvent;

use super::index::{field, forget, settle_for_ever, until_index_knows};
use super::stage::{Native, alone, refused, until_indexed, with_state};
use crate::harness::Setup;
use crate::lane::stage::{Client, Reply, Stage};

/// Longer than anything here takes, so that a wait which ends early was woken.
const LONG: u32 = 20;
/// How many work beside one that wants everything, where nothing else is said.
const WRITERS: usize = 12;
/// Ends what is held as a replica would that dies before it tells anybody. One statement: a look in between would see
/// an end that no gen tells of.
const END_UNHEARD: &str = "
    WITH nodes AS (DELETE FROM reservation_nodes), ended AS (
        UPDATE reservations SET status = 'released', ended_gen = granted_gen + 1, ended_at = clock_timestamp()
        WHERE status = 'active'
    )
    UPDATE lock_heads SET gen = gen + 1";

fn waiting(key: &str, scope: Value, seconds: u32) -> Value {
    json!({ "key": key, "scope": scope, "wait_seconds": seconds })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_woken_when_the_scope_is_free_on_whichever_replica_it_waits() {
    let setup = Setup {
        replicas: 2,
        ..Setup::default()
    };
    let stage = Stage::start_with(setup).await;
    let (ann, bob) = (stage.writer().await, stage.writer().await.on(1));
    with_state(&ann, "prod", &["a", "b"]).await;
    for client in [&ann, &bob] {
        until_indexed(client, "a").await;
    }
    let held = ann.apply("prod", alone(&["a"])).await;
    let started = Instant::now();
    let (granted, ()) = tokio::join!(
        bob.ask_with("prod", waiting("bob", alone(&["a"]), LONG)),
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            held.finish("succeeded").await.ok();
        }
    );
    let run = Native::of(&bob, granted);
    assert!(started.elapsed() < Duration::from_secs(u64::from(LONG)));
    assert!(!run.run.reservation.as_ref().unwrap().degraded);
    run.finish("succeeded").await.ok();
}

/// Otherwise there is a moment in which the index knows neither of them and lets somebody else through, whom the ledger
/// refuses: its place would be lost, and others would go past it.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_hears_of_a_grant_before_its_request_leaves_the_queue() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    until_indexed(&ann, "a").await;
    let mut changes = stage.app.replicas[0].app.db.ledger_changes();
    let held = ann.apply("prod", alone(&["a"])).await;
    held.finish("succeeded").await.ok();
    ann.lock("prod", "plain").await.ok();
    let mut told = Vec::new();
    while told.len() < 5 {
        match changes.recv().await.unwrap().event {
            LedgerEvent::Granted { .. } => told.push("granted"),
            LedgerEvent::Served { .. } => told.push("served"),
            LedgerEvent::Ended { .. } => told.push("ended"),
            LedgerEvent::Seen => {}
        }
    }
    assert_eq!(told, ["granted", "served", "ended", "granted", "served"]);
}

/// They have not waited for anything yet, so there is no order to be kept until everybody has come back.
#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_at_once_for_a_state_that_nobody_asked_for_do_not_wait_for_each_other() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let names = ["a", "b", "c", "d", "e", "f"];
    with_state(&ann, "prod", &names).await;
    let ask = |name| {
        let scope = alone(&[name]);
        let ann = &ann;
        async move { ann.ask_with("prod", waiting(name, scope, LONG)).await.ok() }
    };
    futures::future::join_all(names.map(ask)).await;
    until_index_knows(&stage).await;
    assert_eq!(field(&stage, "settle").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asked_first_is_served_first_and_told_who_is_in_front() {
    let stage = Stage::start().await;
    let (ann, bob, eve) = (
        stage.writer().await,
        stage.writer().await,
        stage.writer().await,
    );
    with_state(&ann, "prod", &["a", "b"]).await;
    until_indexed(&ann, "a").await;
    let held = ann.apply("prod", alone(&["a"])).await;
    // Bob waits for both, which keeps Eve from the one that nobody holds.
    let bobs = refused(
        bob.ask_with("prod", waiting("bob", alone(&["a", "b"]), 1))
            .await,
        Code::ReservationConflict,
    );
    assert_eq!(
        (bobs["ahead"].as_u64(), bobs["conflicts"][0]["run"].clone()),
        (Some(0), json!(held.run.id))
    );
    let eves = refused(
        eve.ask_with("prod", waiting("eve", alone(&["b"]), 1)).await,
        Code::ReservationConflict,
    );
    assert_eq!(
        (
            eves["ahead"].as_u64(),
            eves["conflicts"].as_array().unwrap().len()
        ),
        (Some(1), 0)
    );
    let status = ann.status("prod").await;
    let commands: Vec<_> = status
        .waiting
        .iter()
        .map(|one| one.about.command.as_str())
        .collect();
    assert_eq!(commands, ["kl apply -f x"; 2]);
    // Plain Terraform stands behind them, and is told so in words that it can parse.
    held.finish("succeeded").await.ok();
    let locked = eve.lock("prod", "eve").await.refused(Code::StateLocked);
    assert!(
        locked["ID"].as_str().unwrap().starts_with("queue"),
        "{locked:?}"
    );
    assert!(chrono::DateTime::parse_from_rfc3339(locked["Created"].as_str().unwrap()).is_ok());

    let mut again = waiting("bob", alone(&["a", "b"]), LONG);
    again["ticket"] = bobs["ticket"].clone();
    let run = Native::of(&bob, bob.ask_with("prod", again).await);
    run.finish("succeeded").await.ok();
    let mut again = waiting("eve", alone(&["b"]), LONG);
    again["ticket"] = eves["ticket"].clone();
    Native::of(&eve, eve.ask_with("prod", again).await)
        .finish("succeeded")
        .await
        .ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_overdue_is_ended_and_nobody_goes_ahead_of_his_turn_for_it() {
    let stage = Stage::start().await;
    let (ann, bob, eve) = (
        stage.writer().await,
        stage.writer().await,
        stage.writer().await,
    );
    with_state(&ann, "prod", &["a", "b"]).await;
    until_indexed(&ann, "a").await;
    let gone = ann.apply("prod", alone(&["a"])).await;
    let held = ann.apply("prod", alone(&["b"])).await;
    // Bob waits for both; Eve, behind him, for the one that is overdue.
    let bobs = refused(
        bob.ask_with("prod", waiting("bob", alone(&["a", "b"]), 1))
            .await,
        Code::ReservationConflict,
    );
    super::leases::let_leases_run_out(&stage).await;
    held.renew().await.ok();
    let eves = refused(
        eve.ask_with("prod", waiting("eve", alone(&["a"]), 1)).await,
        Code::ReservationConflict,
    );
    assert_eq!(
        (
            eves["ahead"].as_u64(),
            eves["conflicts"].as_array().unwrap().len()
        ),
        (Some(1), 0)
    );
    refused(gone.renew().await, Code::LeaseLost);
    held.finish("succeeded").await.ok();
    let mut again = waiting("bob", alone(&["a", "b"]), LONG);
    again["ticket"] = bobs["ticket"].clone();
    Native::of(&bob, bob.ask_with("prod", again).await)
        .finish("succeeded")
        .await
        .ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_missed_an_end_is_brought_up_to_date() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    // The least of several: what is busy beside it only adds.
    let mut quickest = Duration::MAX;
    for round in 0..5 {
        ann.apply("prod", alone(&["a"])).await;
        // As if the word of its end had been lost on the way to the index.
        stage.tamper(END_UNHEARD).await;
        let begun = Instant::now();
        let ask = waiting(&format!("bob-{round}"), alone(&["a"]), LONG);
        let granted = bob.ask_with("prod", ask).await;
        quickest = quickest.min(begun.elapsed());
        Native::of(&bob, granted).finish("succeeded").await.ok();
        until_index_knows(&stage).await;
        if quickest < Duration::from_secs(4) {
            break;
        }
    }
    assert!(
        quickest < Duration::from_secs(4),
        "a waiter looks after a second, and not after {quickest:?}"
    );
    // The next one meets an index that knows.
    let granted = bob
        .ask_with("prod", waiting("again", alone(&["a"]), LONG))
        .await;
    Native::of(&bob, granted);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_once_and_goes_away_holds_nobody_up() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b"]).await;
    let held = ann.apply("prod", alone(&["a"])).await;
    refused(
        bob.ask_with("prod", waiting("bob", alone(&["a", "b"]), 0))
            .await,
        Code::ReservationConflict,
    );
    bob.lock("prod", "bob").await.refused(Code::StateLocked);
    ann.apply("prod", alone(&["b"]))
        .await
        .finish("succeeded")
        .await
        .ok();
    held.finish("succeeded").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_while_waiting_gives_its_place_back() {
    let stage = Stage::start().await;
    let (ann, bob, eve) = (
        stage.writer().await,
        stage.writer().await,
        stage.writer().await,
    );
    with_state(&ann, "prod", &["a", "b"]).await;
    let held = ann.apply("prod", alone(&["a"])).await;
    let gone = bob.ask_with("prod", waiting("bob", alone(&["a", "b"]), LONG));
    let hung_up = tokio::time::timeout(Duration::from_millis(700), gone).await;
    assert!(hung_up.is_err());
    let behind = eve
        .ask_with("prod", waiting("eve", alone(&["b"]), LONG))
        .await;
    Native::of(&eve, behind).finish("succeeded").await.ok();
    held.finish("succeeded").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_redis_costs_no_reservation() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b"]).await;
    let held = ann.apply("prod", alone(&["a"])).await;
    forget(&stage).await;
    refused(
        bob.ask("prod", "apply", alone(&["a"])).await,
        Code::ReservationConflict,
    );
    bob.apply("prod", alone(&["b"]))
        .await
        .finish("succeeded")
        .await
        .ok();
    forget(&stage).await;
    bob.lock("prod", "bob").await.refused(Code::StateLocked);
    held.renew().await.ok();
    held.set("a", "on record").await;
    bob.lock("prod", "bob-2").await.ok();
}

/// As if Redis's clock had leapt back after the table was loaded.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_does_not_cease_to_settle_holds_nobody_up_for_long() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    ann.apply("prod", alone(&["a"]))
        .await
        .finish("succeeded")
        .await
        .ok();
    settle_for_ever(&stage).await;
    let begun = Instant::now();
    let granted = bob
        .ask_with("prod", waiting("bob", alone(&["a"]), LONG))
        .await;
    Native::of(&bob, granted).finish("succeeded").await.ok();
    bob.lock("prod", "bob").await.ok();
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_the_index_never_heard_of_holds_nobody_up_for_long() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    ann.apply("prod", alone(&["a"])).await;
    let waits = bob.ask_with("prod", waiting("bob", alone(&["a"]), LONG));
    let (granted, ended) = tokio::join!(waits, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.tamper(END_UNHEARD).await;
        Instant::now()
    });
    assert!(ended.elapsed() < Duration::from_secs(10));
    Native::of(&bob, granted).finish("succeeded").await.ok();
    // A look at the ledger lets a waiter through, too; only holding the index against it makes the index true.
    until_index_knows(&stage).await;
}

/// A waiter that is turned away costs the database a few reads, and locks no row: who locks one is written on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_turned_away_locks_no_row() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    let held = ann.apply("prod", alone(&["a"])).await;
    let lockers = "SELECT sum(locker)::bigint FROM (
            SELECT xmax::text::bigint AS locker FROM lock_heads
            UNION ALL SELECT xmax::text::bigint FROM reservations
            UNION ALL SELECT xmax::text::bigint FROM states
            UNION ALL SELECT xmax::text::bigint FROM runs
        ) AS rows";
    let before = stage.count(lockers).await;
    for _ in 0..2 {
        let poll = bob.ask_with("prod", waiting("bob", alone(&["a"]), 3)).await;
        refused(poll, Code::ReservationConflict);
    }
    assert_eq!(stage.count(lockers).await, before);
    held.finish("succeeded").await.ok();
    assert_ne!(stage.count(lockers).await, before, "an end does lock");
}

/// Many short runs, each on a part of its own, and one that wants all parts: from the moment it waits nobody who came later
/// is granted before it. `KL_TEST_WRITERS` says how many: with 200 it took a minute on a busy machine of two cores.
#[tokio::test(flavor = "multi_thread")]
async fn narrow_runs_in_a_loop_do_not_overtake_one_that_waits_for_everything() {
    let setup = Setup {
        replicas: 2,
        pool: 12,
        acquire_timeout: Duration::from_secs(10),
        ..Setup::default()
    };
    let stage = Stage::start_with(setup).await;
    let ann = stage.writer().await;
    let writers = std::env::var("KL_TEST_WRITERS").map_or(WRITERS, |count| count.parse().unwrap());
    let names: Vec<String> = (0..writers).map(|number| format!("r{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    with_state(&ann, "prod", &[&["slow"], &names[..]].concat()).await;
    let slow = ann.apply("prod", alone(&["slow"])).await;
    let (done, grants) = (AtomicBool::new(false), AtomicUsize::new(0));
    let narrow = names
        .iter()
        .zip(0..)
        .map(async |(name, number): (&&str, usize)| {
            let writer = ann.on(number % 2);
            let mut granted = Vec::new();
            loop {
                let asked = Instant::now();
                let key = uuid::Uuid::now_v7().to_string();
                let ask = waiting(&key, alone(&[name]), 1);
                let Some(run) = take_turn(&writer, ask, &done).await else {
                    return granted;
                };
                grants.fetch_add(1, Ordering::Relaxed);
                // Without the index no order is promised; it is away when this machine is too busy to answer in time.
                if !run.run.reservation.as_ref().unwrap().degraded {
                    granted.push((asked, run.fencing_token()));
                }
                insist(|| run.finish("succeeded")).await.ok();
            }
        });
    let wide = async {
        while grants.load(Ordering::Relaxed) < writers {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let all = alone(&[&["slow"], &names[..]].concat());
        let mut ask = waiting("wide", all, LONG);
        ask["command"] = json!("wide");
        let patient = AtomicBool::new(false);
        let (run, in_queue) = tokio::join!(take_turn(&ann, ask, &patient), async {
            let is_in_queue = async || {
                let waiting = ann.status("prod").await.waiting;
                waiting.iter().any(|one| one.about.command == "wide")
            };
            while !is_in_queue().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let in_queue = Instant::now();
            // Long enough for all of them to ask again.
            tokio::time::sleep(Duration::from_millis(2_000)).await;
            insist(|| slow.finish("succeeded")).await.ok();
            in_queue
        });
        done.store(true, Ordering::Relaxed);
        let run = run.unwrap();
        insist(|| run.finish("succeeded")).await.ok();
        (in_queue, run.fencing_token())
    };
    let (wide, granted) = tokio::join!(wide, futures::future::join_all(narrow));
    let (in_queue, token) = wide;
    let overtakes: Vec<_> = granted
        .concat()
        .into_iter()
        .filter(|(asked, narrow)| *asked > in_queue && *narrow < token)
        .collect();
    assert!(overtakes.is_empty(), "{overtakes:?}");
}

/// Comes back with its ticket until it is granted, unless it is to give up before.
async fn take_turn<'a>(
    client: &Client<'a>,
    mut ask: Value,
    gives_up: &AtomicBool,
) -> Option<Native<'a>> {
    while !gives_up.load(Ordering::Relaxed) {
        let reply = insist(|| client.ask_with("prod", ask.clone())).await;
        if reply.status == 200 {
            return Some(Native::of(client, reply));
        }
        ask["ticket"] = refused(reply, Code::ReservationConflict)["ticket"].take();
    }
    None
}

/// Sends a request until the service is not too busy for it.
async fn insist(send: impl AsyncFn() -> Reply) -> Reply {
    loop {
        let reply = send().await;
        if reply.status != 503 {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_how_long_it_may_take() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a"]).await;
    let busy = async |key: &str| {
        let poll = bob.ask_with("prod", waiting(key, alone(&["a"]), 0)).await;
        refused(poll, Code::ReservationConflict)
    };
    let held = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(busy("one").await["expected_seconds"], Value::Null);
    held.set("a", "new").await;
    stage
        .tamper("UPDATE reservations SET created_at = ended_at - interval '90 seconds' WHERE lane = 'native'")
        .await;
    let held = ann.apply("prod", alone(&["a"])).await;
    let expected = busy("two").await["expected_seconds"].as_u64().unwrap();
    assert!((60..=90).contains(&expected), "{expected}");
    assert_eq!(ann.status("prod").await.usual_hold_seconds, Some(90));
    held.finish("succeeded").await.ok();
}
